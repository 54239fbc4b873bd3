#ifndef CORE_SKEW_H
#define CORE_SKEW_H

#include "core/rules/rule_row.h"

/* What a skewed draw walks: the tokens that are left, by falling p. */
struct skewed {
    const int32_t *positions; /* [n] */
    const double *running;    /* [n] weight up to and with this one */
    size_t n;
    double exponent; /* of u */
};

/* Lent from the row's scratch. */
struct skewed skew_sort(struct rule_row *row);

/* The position of the token at u^exponent, 0 <= u < 1; never one of weight 0. */
size_t skew_draw(const struct skewed *skewed, double u);

#endif
