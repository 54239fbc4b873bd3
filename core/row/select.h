#ifndef CORE_SELECT_H
#define CORE_SELECT_H

#include "core/row/rank.h"
#include "core/row/support.h"

/*
 * What cuts a row down by thresholds.  scratch must hold select_scratch_bytes(s->n); nothing stays lent.
 */
size_t select_scratch_bytes(size_t n);

/* Keep the logits >= cut, which the largest reaches. */
void select_above(struct support *s, float cut, const struct kernels *kernels, struct arena *scratch);

/*
 * Keep the logits >= the k-th largest, k >= 1; k >= n keeps all.  Of ties at the cutoff all stay, or with
 * lower_id those of the lowest ids, so that there are k.
 */
void select_top_k(struct support *s, size_t k, bool lower_id, const struct kernels *kernels,
                  struct arena *scratch);

/* The likeliest tokens up to a mass. */
struct nucleus {
    double top_p;        /* 0 < top_p < 1 */
    double of_mass;      /* what top_p is a share of; 0: the weight of the support that comes in */
    bool keeps_crossing; /* the token that crosses stays: the fewest whose mass is >= top_p; else the most
                            whose mass is <= top_p */
};

/*
 * Keep the nucleus; the likeliest token always stays, and of equal logits the lower id comes first.
 * Probabilities are those of the support that comes in, from weights of the given scale.
 *
 * Only tokens above a falling threshold are sorted, until their mass passes top_p.  On a flat row, where
 * those would be too many, the threshold is bisected by mass instead.
 */
void select_top_p(struct support *s, const struct nucleus *nucleus, struct weight_scale scale,
                  const struct kernels *kernels, struct arena *scratch);

#endif
