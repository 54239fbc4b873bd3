#include "core/row/order.h"
#include "core/row/rank.h"
#include "core/row/threshold.h"
#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const struct rule_param params[] = {
    {RULE_PARAM(typical_p), KIND_REAL, 0, 1, false, 1, "1",
     "by distance of -ln p from the entropy: keep the nearest tokens until their sum exceeds typical_p; 0 "
     "and 1 keep all"},
};

#define SORT_AT_ONCE 1024 /* tokens */

/*
 * How near tokens are, at most 0: -ln p is ln total - (z - max) / T, and so its distance from the entropy is
 * that of z from the z whose ln weight is the mean one, over T.
 */
struct nearness {
    const int32_t *positions; /* [n] of the tokens, ascending; NULL for all of the support */
    float *values;            /* [n] */
    size_t n;
    float largest;
};

static void measure(const float *z, float typical, struct nearness *out)
{
    float largest = -INFINITY;
    for (size_t i = 0; i < out->n; i++) {
        float value = -fabsf(z[i] - typical);
        out->values[i] = value;
        largest = value > largest ? value : largest;
    }
    out->largest = largest;
}

static float *gather(struct rule_row *r, const int32_t *positions, size_t n)
{
    float *z = rule_row_lend(r, n, sizeof *z);
    for (size_t i = 0; i < n; i++)
        z[i] = r->support.z[positions[i]];
    return z;
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
static float find_cut(struct rule_row *r, const struct nearness *near, const float *w, double target)
{
    struct threshold b = {.z = near->values, .w = w, .n = near->n, .max = near->largest};
    threshold_find(&b, target, SORT_AT_ONCE, r->kernels, r->scratch);
    return threshold_is_tie(&b) ? order_float((int32_t)b.low) : walk(r, &b, target);
}

/* All of those that tie with the last one stay. */
static void keep_nearest(struct rule_row *r, const struct nearness *near, float cut)
{
    size_t words = (r->support.n + 31) / 32;
    uint32_t *bits = rule_row_lend(r, words, sizeof *bits);
    int32_t *found = rule_row_lend(r, near->n + 16, sizeof *found); /* vectors are stored whole */
    size_t count = r->kernels->find_between(near->values, near->n, cut, INFINITY, found);
    memset(bits, 0, words * sizeof *bits);
    for (size_t i = 0; i < count; i++) {
        int32_t at = near->positions == NULL ? found[i] : near->positions[found[i]];
        bits[at / 32] |= UINT32_C(1) << at % 32;
    }
    rule_row_keep_bits(r, bits);
}

/* The nearest alone, the first of equals. */
static void keep_first(struct rule_row *r, struct nearness *near)
{
    size_t i = 0;
    while (near->values[i] < near->largest)
        i++;
    near->n = i + 1;
    keep_nearest(r, near, near->largest);
}

/*
 * Look at the tokens above a threshold only, as long as these are few.  Those that are no farther than it are
 * then all known, and are enough if they weigh more than the target.  Returns false when they are not.
 */
static bool look_above(struct rule_row *r, float typical, double target)
{
    struct support *s = &r->support;
    double reach = 16.0 * r->temperature; /* down to weights of 1e-7 */
    float least = fminf(2.0f * typical - s->max, rule_row_float(s->max - reach));
    if (!(least > -FLT_MAX) || s->n <= SORT_AT_ONCE)
        return false;
    int32_t *positions = rule_row_lend(r, s->n, sizeof *positions);
    size_t n = rank_collect(r->kernels, s->z, support_lanes(s, r->kernels), s->n, least, positions);
    if (n > s->n / 4)
        return false;
    float *z = gather(r, positions, n), *w = rule_row_lend(r, n, sizeof *w);
    double mass;
    r->kernels->weights(z, n, rule_row_scale(r), w);
    r->kernels->count_above(z, w, n, -INFINITY, &mass);
    if (!(mass > target))
        return false;
    struct nearness near = {positions, rule_row_lend(r, n, sizeof *near.values), n, 0.0f};
    measure(z, typical, &near);
    float cut = find_cut(r, &near, w, target);
    if (cut < least - typical)
        return false;
    keep_nearest(r, &near, cut);
    return true;
}

static size_t scratch_bytes(const struct sample_request *request)
{
    return 2 * threshold_scratch_bytes(request->vocab_size);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    double typical_p = rule_number(request, SLOT_typical_p, row);
    return typical_p < 1 && (typical_p > 0 || rule_engine(request)->typical_p_zero == ZERO_KEEPS_ONE);
}

static void apply(struct rule_row *r)
{
    struct rule_moments m = rule_row_moments(r);
    double typical_p = rule_row_number(r, SLOT_typical_p), target = typical_p * m.total;
    float typical = (float)(r->support.max + r->temperature * m.mean_log);
    if (typical_p > 0 && look_above(r, typical, target))
        return;
    size_t n = r->support.n;
    float *w = rule_row_lend(r, n, sizeof *w);
    struct nearness near = {NULL, rule_row_lend(r, n, sizeof *near.values), n, 0.0f};
    measure(r->support.z, typical, &near);
    r->kernels->weights(r->support.z, n, rule_row_scale(r), w);
    if (typical_p > 0)
        keep_nearest(r, &near, find_cut(r, &near, w, target));
    else
        keep_first(r, &near);
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
