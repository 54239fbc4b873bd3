#include "core/row/select.h"

#include "core/row/order.h"
#include "core/row/threshold.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#define SORT_AT_ONCE 1024 /* tokens: below, sorting beats any search for what to sort */

/* What a rule works with. */
struct tools {
    const struct kernels *kernels;
    struct arena *scratch;
};

/* Where a nucleus ends: tokens above value stay, and those equal to it up to this position. */
struct cut {
    float value;
    int32_t last;
};

size_t select_scratch_bytes(size_t n)
{
    /* positions; of top_p the weights of all, too, and a list of up to n positions with logits, weights and
       order */
    size_t lanes = (kernels_blocks(n) + 1) * KERNELS_LANES * sizeof(float);
    return rank_scratch_bytes(n) + threshold_scratch_bytes(n) + 12 * n * sizeof(float) + 2 * lanes +
           kernels_blocks(n) * sizeof(double) + 64 * ARENA_ALIGNMENT;
}

static void *lend(const struct tools *t, size_t count, size_t size)
{
    void *lent = arena_alloc(t->scratch, count, size);
    assert(lent != NULL);
    return lent;
}

/* Whether a list of so many tokens costs more than to mask the others. */
static bool is_large(const struct support *s, size_t count)
{
    return s->n > 4096 && count > s->n / 8;
}

/* Positions in a support, ascending: all that reach some value. */
struct reach {
    int32_t *positions; /* [count]; has room for all of the support */
    size_t count;       /* 0: not known */
};

static size_t count_reaching(const struct support *s, const struct reach *reach, float value)
{
    size_t count = 0;
    for (size_t i = 0; i < reach->count; i++)
        count += s->z[reach->positions[i]] >= value;
    return count;
}

/*
 * Keep what is not behind the cut: in a list of its own, or in place where that would be nearly as long as
 * the row.
 *
 *   reach  of the cut's value or a lower one, if it is known; its list becomes what is kept
 */
static void keep_to(struct support *s, struct cut cut, struct reach reach, const struct tools *t)
{
    bool known = reach.count > 0;
    if (is_large(s, known ? count_reaching(s, &reach, cut.value)
                          : t->kernels->count_above(s->z, NULL, s->n, cut.value, NULL))) {
        support_mask(s, cut.value, cut.last);
        return;
    }
    if (!known)
        reach.count = rank_collect(t->kernels, s->z, s->lanes, s->n, cut.value, reach.positions);
    size_t count = 0;
    for (size_t i = 0; i < reach.count; i++) {
        int32_t at = reach.positions[i];
        reach.positions[count] = at;
        count += s->z[at] > cut.value || (at <= cut.last && s->z[at] == cut.value);
    }
    support_keep(s, reach.positions, count);
}

/* At most so many tokens are in the lanes that reach the cut. */
static size_t bound_reaching(const struct support *s, float cut, const struct tools *t)
{
    size_t lanes = kernels_blocks(s->n) * KERNELS_LANES;
    return t->kernels->count_above(s->lanes, NULL, lanes, cut, NULL) * (KERNELS_BLOCK / KERNELS_LANES);
}

void select_above(struct support *s, float cut, const struct kernels *kernels, struct arena *scratch)
{
    struct tools t = {kernels, scratch};
    size_t mark = arena_mark(scratch);
    support_lanes(s, kernels);
    struct reach reach = {lend(&t, s->n, sizeof *reach.positions), 0};
    if (!is_large(s, bound_reaching(s, cut, &t)))
        reach.count = rank_collect(kernels, s->z, s->lanes, s->n, cut, reach.positions);
    keep_to(s, (struct cut){cut, INT32_MAX}, reach, &t);
    arena_release(scratch, mark);
}

/* The position of the n-th token that equals the value, n >= 1. */
static int32_t nth_equal(const struct support *s, float value, size_t n)
{
    size_t at = 0;
    for (size_t seen = 0; at < s->n; at++) {
        seen += s->z[at] == value;
        if (seen == n)
            break;
    }
    return (int32_t)at;
}

/* Of the ties at the end of the k likeliest the lower positions stay, so that there are k. */
static size_t drop_ties(const struct support *s, int32_t *positions, size_t count, size_t k)
{
    float value = INFINITY;
    size_t kept = 0, ties = 0;
    for (size_t i = 0; i < count; i++) {
        float z = s->z[positions[i]];
        ties = z < value ? 1 : ties + (z == value);
        value = z < value ? z : value;
    }
    ties -= count - k; /* that may stay */
    for (size_t i = 0; i < count; i++) {
        bool is_tie = s->z[positions[i]] == value;
        positions[kept] = positions[i];
        kept += !is_tie || ties > 0;
        ties -= is_tie && ties > 0;
    }
    return kept;
}

/* k is a large part of the row. */
static struct cut cut_at_kth(const struct support *s, size_t k, bool lower_id, const struct tools *t)
{
    float value = rank_kth_largest(t->kernels, s->z, s->lanes, s->n, k, t->scratch);
    if (!lower_id || value == -INFINITY)
        return (struct cut){value, INT32_MAX};
    float next = order_float(order_code(value) + 1);
    size_t above = t->kernels->count_above(s->z, NULL, s->n, next, NULL);
    return (struct cut){value, nth_equal(s, value, k - above)};
}

void select_top_k(struct support *s, size_t k, bool lower_id, const struct kernels *kernels,
                  struct arena *scratch)
{
    assert(k >= 1);
    if (k >= s->n)
        return;
    struct tools t = {kernels, scratch};
    size_t mark = arena_mark(scratch);
    const float *lanes = support_lanes(s, kernels);
    int32_t *positions = lend(&t, s->n, sizeof *positions);
    if (is_large(s, k)) {
        keep_to(s, cut_at_kth(s, k, lower_id, &t), (struct reach){positions, 0}, &t);
    } else {
        size_t count = rank_top(kernels, s->z, lanes, s->n, k, positions, scratch);
        support_keep(s, positions, lower_id ? drop_ties(s, positions, count, k) : count);
    }
    arena_release(scratch, mark);
}

/* Some tokens of a support, ascending by position. */
struct part {
    const int32_t *positions; /* [n]; NULL for 0 .. n-1 */
    const float *z;           /* [n] */
    const float *w;           /* [n] */
    size_t n;
};

static int32_t part_position(const struct part *p, int32_t i)
{
    return p->positions == NULL ? i : p->positions[i];
}

/* The tokens at these positions. */
static struct part part_of(const struct support *s, const int32_t *positions, size_t n,
                           struct weight_scale scale, const struct tools *t)
{
    float *z = lend(t, n, sizeof *z), *w = lend(t, n, sizeof *w);
    for (size_t i = 0; i < n; i++)
        z[i] = s->z[positions[i]];
    t->kernels->weights(z, n, scale, w);
    return (struct part){positions, z, w, n};
}

static double part_mass(const struct part *p)
{
    double mass = 0.0;
    for (size_t i = 0; i < p->n; i++)
        mass += p->w[i];
    return mass;
}

/* What a nucleus may weigh, and whether the token that crosses that is in it. */
struct target {
    double mass;
    bool keeps_crossing;
};

/*
 * Walk down the part from the running mass of all that is likelier; the cut is after the last token that
 * keeps the mass <= target, or the one that reaches it, or `before` when there is none.  Without a `before`
 * the part has the likeliest token of all, which stays whatever its mass.
 */
static struct cut walk_to(const struct part *p, double mass, struct target target, const struct cut *before,
                          const struct tools *t)
{
    size_t mark = arena_mark(t->scratch);
    struct ranked *order = lend(t, p->n, sizeof *order);
    rank_sort(p->z, p->n, order, t->scratch);
    struct cut cut = before != NULL ? *before : (struct cut){0};
    for (size_t i = 0; i < p->n; i++) {
        int32_t at = order[i].position;
        bool likeliest = i == 0 && before == NULL, reached = mass >= target.mass;
        mass += p->w[at];
        if ((target.keeps_crossing ? reached : mass > target.mass) && !likeliest)
            break;
        cut = (struct cut){p->z[at], part_position(p, at)};
    }
    arena_release(t->scratch, mark);
    return cut;
}

static struct cut cut_by_sorting(const struct support *s, const struct nucleus *nucleus,
                                 struct weight_scale scale, const struct tools *t)
{
    float *w = lend(t, s->n, sizeof *w);
    t->kernels->weights(s->z, s->n, scale, w);
    struct part all = {NULL, s->z, w, s->n};
    double whole = nucleus->of_mass > 0 ? nucleus->of_mass : part_mass(&all);
    struct target target = {nucleus->top_p * whole, nucleus->keeps_crossing};
    return walk_to(&all, 0.0, target, NULL, t);
}

/* What a search for a nucleus has found out by the time it gives up. */
struct bounds {
    float high; /* a threshold whose mass is not above the target */
    float low;  /* one below it, near which the target may be */
};

/*
 * Look at the tokens above the 64th, 256th, 1024th ... largest lane maximum until their mass passes target;
 * they are left in reach.  Returns false when that would be too many: most of a row may tie with its maxima.
 */
static bool cut_by_falling_threshold(struct support *s, struct target target, struct weight_scale scale,
                                     const struct tools *t, struct bounds *bounds, struct reach *reach,
                                     struct cut *cut)
{
    const float *lanes = s->lanes;
    size_t num_lanes = kernels_blocks(s->n) * KERNELS_LANES;
    *bounds = (struct bounds){.high = INFINITY, .low = -INFINITY};
    bool enough = false, too_many = false;
    for (size_t k = KERNELS_LANES; k <= num_lanes / 2 && !enough && !too_many; k *= 4) {
        size_t mark = arena_mark(t->scratch);
        bounds->low = rank_kth_of(t->kernels, lanes, num_lanes, k, t->scratch);
        size_t n = rank_collect(t->kernels, s->z, lanes, s->n, bounds->low, reach->positions);
        too_many = n > 16 * k;
        if (!too_many) {
            struct part above = part_of(s, reach->positions, n, scale, t);
            enough = part_mass(&above) > target.mass;
            if (enough)
                *cut = walk_to(&above, 0.0, target, NULL, t);
            else
                bounds->high = bounds->low;
            reach->count = enough ? n : 0;
        }
        arena_release(t->scratch, mark);
    }
    return enough;
}

/*
 * Of tokens that tie, the first that keep the mass <= target stay: j of them while above + j w <= target; and
 * the one that crosses where it stays and they do not reach the target.
 */
static struct cut cut_among_ties(const struct threshold *b, struct target target, struct weight_scale scale,
                                 const struct kernels *kernels)
{
    float value = order_float((int32_t)b->low), w;
    kernels->weights(&value, 1, scale, &w);
    double most = w > 0 ? floor((target.mass - b->above) / w) : (double)b->n;
    size_t stay = most < (double)b->n ? (size_t)most : b->n;
    while (stay < b->n && b->above + (double)(stay + 1) * w <= target.mass) /* the quotient was rounded */
        stay++;
    while (stay > 0 && b->above + (double)stay * w > target.mass)
        stay--;
    if (target.keeps_crossing && stay < b->n && b->above + (double)stay * w < target.mass)
        stay++;
    if (stay == 0 && b->count_above == 0)
        stay = 1;
    if (stay == 0)
        return (struct cut){order_float((int32_t)b->high), INT32_MAX};
    int32_t last = (int32_t)(stay - 1);
    return (struct cut){value, b->positions == NULL ? last : b->positions[last]};
}

/* By halving the threshold between what the search above found out and where weights end. */
static struct cut cut_by_halving(const struct support *s, struct target target, const struct bounds *bounds,
                                 struct weight_scale scale, const struct tools *t)
{
    float *w = lend(t, s->n, sizeof *w);
    t->kernels->weights(s->z, s->n, scale, w);
    struct threshold b = {.z = s->z, .w = w, .n = s->n, .max = s->max};
    double reach = 128.0 / ((double)scale.rate * scale.pre); /* no weight below max - reach */
    float above_low = order_float(order_code(bounds->low) + 1);
    float hints[] = {bounds->high, above_low, bounds->low, (float)(s->max - reach)};
    threshold_find_near(&b, target.mass, SORT_AT_ONCE, hints, 4, t->kernels, t->scratch);
    if (threshold_is_tie(&b))
        return cut_among_ties(&b, target, scale, t->kernels);

    struct part between = {.positions = b.positions, .z = b.z, .w = b.w, .n = b.n};
    struct cut before = {order_float((int32_t)b.high), INT32_MAX};
    return walk_to(&between, b.above, target, b.count_above == 0 ? NULL : &before, t);
}

/*
 * reach has room for all positions; those above the cut are left there where they were found on the way.
 * Returns false where all that is left does not pass the target.
 */
static bool find_cut(struct support *s, const struct nucleus *nucleus, struct weight_scale scale,
                     struct reach *reach, const struct tools *t, struct cut *cut)
{
    if (s->n <= SORT_AT_ONCE) {
        *cut = cut_by_sorting(s, nucleus, scale, t);
        return true;
    }
    double *block_sums = lend(t, kernels_blocks(s->n), sizeof *block_sums);
    double total = t->kernels->sum_weights(s->z, s->n, scale, block_sums);
    struct target target = {nucleus->top_p * (nucleus->of_mass > 0 ? nucleus->of_mass : total),
                            nucleus->keeps_crossing};
    if (target.mass >= total)
        return false;
    struct bounds bounds;
    if (!cut_by_falling_threshold(s, target, scale, t, &bounds, reach, cut))
        *cut = cut_by_halving(s, target, &bounds, scale, t);
    return true;
}

void select_top_p(struct support *s, const struct nucleus *nucleus, struct weight_scale scale,
                  const struct kernels *kernels, struct arena *scratch)
{
    struct tools t = {kernels, scratch};
    size_t mark = arena_mark(scratch);
    support_lanes(s, kernels);
    struct reach reach = {lend(&t, s->n, sizeof *reach.positions), 0};
    size_t inner = arena_mark(scratch);
    struct cut cut;
    bool found = find_cut(s, nucleus, scale, &reach, &t, &cut);
    arena_release(scratch, inner);
    if (found)
        keep_to(s, cut, reach, &t);
    arena_release(scratch, mark);
}
