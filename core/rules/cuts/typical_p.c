#include "core/row/order.h"
#include "core/row/rank.h"
#include "core/row/threshold.h"
#include "core/rules/rule_row.h"

#include <math.h>
#include <string.h>

static const struct rule_param params[] = {
    {RULE_PARAM(typical_p), KIND_REAL, 0, 1, false, 1, "1",
     "by distance of -ln p from the entropy: keep the nearest tokens until their sum exceeds typical_p; 0 "
     "and 1 keep all"},
};

#define SORT_AT_ONCE 1024 /* tokens */

/*
 * How near each token is, at most 0: -ln p is ln total - (z - max) / T, and so its distance from the entropy
 * is that of z from the z whose ln weight is the mean one, over T.  Returns the largest.
 */
static float measure(const struct rule_row *r, double typical, float *nearness)
{
    float largest = -INFINITY;
    for (size_t i = 0; i < r->support.n; i++) {
        nearness[i] = (float)-fabs(r->support.z[i] - typical);
        largest = nearness[i] > largest ? nearness[i] : largest;
    }
    return largest;
}

/* Walk from the mass above to the first token that exceeds the target; how near that is. */
static float walk(struct rule_row *r, const struct threshold *b, double target)
{
    struct ranked *order = rule_row_lend(r, b->n, sizeof *order);
    rank_sort(b->z, b->n, order, r->scratch);
    double mass = b->above;
    size_t i = 0;
    while (i + 1 < b->n && (mass += b->w[order[i].position]) <= target)
        i++;
    return b->z[order[i].position];
}

/* How near the last token must be: the nearest ones until their mass exceeds the target. */
static float find_cut(struct rule_row *r, const float *nearness, const float *w, float largest, double target)
{
    struct threshold b = {.z = nearness, .w = w, .n = r->support.n, .max = largest};
    threshold_find(&b, target, SORT_AT_ONCE, r->kernels, r->scratch);
    return threshold_is_tie(&b) ? order_float((int32_t)b.low) : walk(r, &b, target);
}

static uint32_t *lend_bits(struct rule_row *r)
{
    size_t words = (r->support.n + 31) / 32;
    uint32_t *bits = rule_row_lend(r, words, sizeof *bits);
    memset(bits, 0, words * sizeof *bits);
    return bits;
}

/* All of those that tie with the last one stay. */
static void keep_nearest(struct rule_row *r, const float *nearness, float cut)
{
    uint32_t *bits = lend_bits(r);
    for (size_t i = 0; i < r->support.n; i++)
        bits[i / 32] |= (uint32_t)(nearness[i] >= cut) << i % 32;
    rule_row_keep_bits(r, bits);
}

/* The nearest alone. */
static void keep_first(struct rule_row *r, const float *nearness, float largest)
{
    uint32_t *bits = lend_bits(r);
    size_t i = 0;
    while (nearness[i] < largest)
        i++;
    bits[i / 32] |= UINT32_C(1) << i % 32;
    rule_row_keep_bits(r, bits);
}

static size_t scratch_bytes(const struct sample_request *request)
{
    return threshold_scratch_bytes(request->vocab_size);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    double typical_p = rule_number(request, SLOT_typical_p, row);
    return typical_p < 1 && (typical_p > 0 || rule_engine(request)->typical_p_zero == ZERO_KEEPS_ONE);
}

static void apply(struct rule_row *r)
{
    size_t n = r->support.n;
    float *nearness = rule_row_lend(r, n, sizeof *nearness), *w = rule_row_lend(r, n, sizeof *w);
    struct rule_moments m = rule_row_moments(r);
    float largest = measure(r, r->support.max + r->temperature * m.mean_log, nearness);
    r->kernels->weights(r->support.z, n, rule_row_scale(r), w);
    double typical_p = rule_row_number(r, SLOT_typical_p);
    if (typical_p > 0)
        keep_nearest(r, nearness, find_cut(r, nearness, w, largest, typical_p * m.total));
    else
        keep_first(r, nearness, largest);
}

const struct rule rule_typical_p = {
    .name = "typical_p",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Meister et al., Locally typical sampling, TACL 2023, arXiv:2202.00666",
    .is_on = is_on,
    .apply = apply,
    .scratch_bytes = scratch_bytes,
};
