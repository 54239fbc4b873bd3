#ifndef CORE_RULE_ROW_H
#define CORE_RULE_ROW_H

#include "core/base/arena.h"
#include "core/kernels/kernels.h"
#include "core/row/support.h"
#include "core/rules/rule.h"

#include <float.h>
#include <math.h>

/*
 * One row while rules are applied to it: what is left, and the temperature of its weights.
 *
 * A position is a place in the support, ascending by token id.  p is softmax(z / temperature) of what is
 * left: the tokens that are neither cut out of the support nor -INFINITY in it.
 */
struct rule_row {
    const struct sample_request *request;
    size_t index; /* of the row in the batch */
    const struct kernels *kernels;
    struct arena *scratch;
    struct support support;
    double temperature;        /* 1 until the rule of that name has run */
    double top_p_total;        /* weight of what top_k saw, where top_p is a share of that; else 0 */
    struct id_map *counts;     /* of the history's window (history.h); NULL until a penalty asked */
    double skew;               /* of the draw; 0 is none */
    const float *before;       /* [support.n] logits as adaptive_p saw them; NULL without it */
    float before_max;          /* their largest, */
    double before_temperature; /* and what they are divided by */
};

/* The nearest float32, or the largest of that sign for what is beyond them all; -INFINITY stays, and masks.
 */
static inline float rule_row_float(double x)
{
    float nearest = (float)x;
    if (isfinite(nearest) || x == -(double)INFINITY)
        return nearest;
    return x > 0 ? FLT_MAX : -FLT_MAX;
}

/* What was worked out for a token that is not to be masked, however small it came out. */
static inline double rule_row_unmasked(double x)
{
    return fmax(x, -DBL_MAX);
}

/* Values of this row. */
double rule_row_number(const struct rule_row *r, enum rule_slot slot);
struct id_list rule_row_ids(const struct rule_row *r, enum rule_slot slot);

/* Room for count values until the rule is done. */
void *rule_row_lend(struct rule_row *r, size_t count, size_t size);

/* ---- single tokens ---- */

/* The position of a token id; -1 when it is not left, or not scored at all. */
ptrdiff_t rule_row_find(const struct rule_row *r, int32_t token_id);

/*
 * Set the logit at a position: -INFINITY masks it, another that leaves float32 becomes the largest one.
 * rule_row_refresh() afterwards, once; the largest logit is then -INFINITY where nothing is left.
 */
void rule_row_set(struct rule_row *r, size_t position, double logit);
void rule_row_refresh(struct rule_row *r);

/* The same for many tokens: what rule_row_set() writes to, opened once. */
struct rule_tokens {
    float *z, *lanes;
    const struct support *support;
};
struct rule_tokens rule_row_open(struct rule_row *r);
void rule_tokens_lower(struct rule_tokens *t, size_t position); /* of a lane, whose largest logit fell */

static inline ptrdiff_t rule_tokens_find(const struct rule_tokens *t, int32_t token_id)
{
    size_t at = t->support->ids == NULL ? (size_t)token_id : support_find(t->support, token_id);
    return at < t->support->n && t->z[at] > -INFINITY ? (ptrdiff_t)at : -1;
}

static inline void rule_tokens_set(struct rule_tokens *t, size_t position, double logit)
{
    float *lane = &t->lanes[position / KERNELS_BLOCK * KERNELS_LANES + position % KERNELS_LANES];
    float old = t->z[position], now = rule_row_float(logit);
    t->z[position] = now;
    if (now >= *lane)
        *lane = now;
    else if (old == *lane)
        rule_tokens_lower(t, position);
}

/* Mask a token id, if it is left. */
void rule_row_mask(struct rule_row *r, int32_t token_id);

/* Divide the logits by the temperature where that was not done yet, for a rule that looks at them one by one.
 */
void rule_row_settle(struct rule_row *r);

/* Keep the positions whose bit is set, [ceil(support.n / 32)] words; maybe nothing. */
void rule_row_keep_bits(struct rule_row *r, const uint32_t *words);

/* The logits [support.n], to write others in their place, at temperature 1; rule_row_rewritten() then. */
float *rule_row_rewrite(struct rule_row *r);
void rule_row_rewritten(struct rule_row *r);

/* ---- the whole of what is left ---- */

struct weight_scale rule_row_scale(const struct rule_row *r);

/* Tokens that are left. */
size_t rule_row_count(const struct rule_row *r);

/* The sum of the weights exp((z - max) / temperature). */
double rule_row_total(struct rule_row *r);

/* That sum; the mean of ln weight, and the entropy, both by p and in nats. */
struct rule_moments {
    double total, mean_log, entropy;
};
struct rule_moments rule_row_moments(const struct rule_row *r);

/* ---- cuts; the likeliest token always stays ---- */

/* Keep z >= cut. */
void rule_row_keep_above(struct rule_row *r, double cut);

/* The z at which the weight is this; +INFINITY above 1, -INFINITY for 0 and below. */
double rule_row_logit_of(const struct rule_row *r, double weight);

/* Keep the tokens of at least this weight. */
void rule_row_keep_weight(struct rule_row *r, double weight);

/* The `most` likeliest tokens by rank, lower id first on a tie: positions [<= most], lent; returns how many.
 */
size_t rule_row_likeliest(struct rule_row *r, size_t most, int32_t **positions);

/* Keep these positions, 1 <= count, in any order, the likeliest among them. */
void rule_row_keep_positions(struct rule_row *r, const int32_t *positions, size_t count);

#endif
