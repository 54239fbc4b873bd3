#include "core/row/select.h"

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
    /* top_k: positions, and the new support's two lists.  top_p: the same, weights of all, and a list of up
       to n positions with logits, weights and order. */
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
        support_mask(s, cut.value, cut.last, t->scratch);
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
    support_keep(s, reach.positions, count, t->scratch);
}

void select_top_k(struct support *s, size_t k, const struct kernels *kernels, struct arena *scratch)
{
    assert(k >= 1);
    if (k >= s->n)
        return;
    struct tools t = {kernels, scratch};
    const float *lanes = support_lanes(s, kernels, scratch);
    int32_t *positions = lend(&t, s->n, sizeof *positions);
    if (is_large(s, k)) {
        float value = rank_kth_largest(kernels, s->z, lanes, s->n, k, scratch);
        keep_to(s, (struct cut){value, INT32_MAX}, (struct reach){positions, 0}, &t);
        return;
    }
    size_t count = rank_top(kernels, s->z, lanes, s->n, k, positions, scratch);
    support_keep(s, positions, count, scratch);
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

/*
 * Walk down the part from the running mass of all that is likelier; the cut is after the last token that
 * keeps the mass
 * <= target, or `before` when there is none.  Without a `before` the part has the likeliest token of all,
 * which stays whatever its mass.
 */
static struct cut walk_to(const struct part *p, double mass, double target, const struct cut *before,
                          const struct tools *t)
{
    size_t mark = arena_mark(t->scratch);
    struct ranked *order = lend(t, p->n, sizeof *order);
    rank_sort(p->z, p->n, order, t->scratch);
    struct cut cut = before != NULL ? *before : (struct cut){0};
    for (size_t i = 0; i < p->n; i++) {
        int32_t at = order[i].position;
        bool likeliest = i == 0 && before == NULL;
        mass += p->w[at];
        if (mass > target && !likeliest)
            break;
        cut = (struct cut){p->z[at], part_position(p, at)};
    }
    arena_release(t->scratch, mark);
    return cut;
}

static struct cut cut_by_sorting(const struct support *s, double top_p, struct weight_scale scale,
                                 const struct tools *t)
{
    float *w = lend(t, s->n, sizeof *w);
    t->kernels->weights(s->z, s->n, scale, w);
    struct part all = {NULL, s->z, w, s->n};
    return walk_to(&all, 0.0, top_p * part_mass(&all), NULL, t);
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
static bool cut_by_falling_threshold(struct support *s, double target, struct weight_scale scale,
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
            enough = part_mass(&above) > target;
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

/* Of tokens that tie, the first that keep the mass <= target stay: j of them while above + j w <= target. */
static struct cut cut_among_ties(const struct threshold *b, double target, struct weight_scale scale,
                                 const struct kernels *kernels)
{
    float value = order_float((int32_t)b->low), w;
    kernels->weights(&value, 1, scale, &w);
    double most = w > 0 ? floor((target - b->above) / w) : (double)b->n;
    size_t stay = most < (double)b->n ? (size_t)most : b->n;
    while (stay < b->n && b->above + (double)(stay + 1) * w <= target) /* the quotient was rounded */
        stay++;
    while (stay > 0 && b->above + (double)stay * w > target)
        stay--;
    if (stay == 0 && b->count_above == 0)
        stay = 1;
    if (stay == 0)
        return (struct cut){order_float((int32_t)b->high), INT32_MAX};
    int32_t last = (int32_t)(stay - 1);
    return (struct cut){value, b->positions == NULL ? last : b->positions[last]};
}

/* By halving the threshold between what the search above found out and where weights end. */
static struct cut cut_by_halving(const struct support *s, double target, const struct bounds *bounds,
                                 struct weight_scale scale, const struct tools *t)
{
    float *w = lend(t, s->n, sizeof *w);
    t->kernels->weights(s->z, s->n, scale, w);
    struct threshold b = {.z = s->z, .w = w, .n = s->n, .max = s->max};
    double reach = 128.0 / ((double)scale.rate * scale.pre); /* no weight below max - reach */
    float above_low = order_float(order_code(bounds->low) + 1);
    float hints[] = {bounds->high, above_low, bounds->low, (float)(s->max - reach)};
    threshold_find_near(&b, target, SORT_AT_ONCE, hints, 4, t->kernels, t->scratch);
    if (threshold_is_tie(&b))
        return cut_among_ties(&b, target, scale, t->kernels);

    struct part between = {.positions = b.positions, .z = b.z, .w = b.w, .n = b.n};
    struct cut before = {order_float((int32_t)b.high), INT32_MAX};
    return walk_to(&between, b.above, target, b.count_above == 0 ? NULL : &before, t);
}

/* reach has room for all positions; those above the cut are left there where they were found on the way. */
static struct cut find_cut(struct support *s, double top_p, struct weight_scale scale, struct reach *reach,
                           const struct tools *t)
{
    if (s->n <= SORT_AT_ONCE)
        return cut_by_sorting(s, top_p, scale, t);
    double *block_sums = lend(t, kernels_blocks(s->n), sizeof *block_sums);
    double target = top_p * t->kernels->sum_weights(s->z, s->n, scale, block_sums);
    struct bounds bounds;
    struct cut cut;
    if (cut_by_falling_threshold(s, target, scale, t, &bounds, reach, &cut))
        return cut;
    return cut_by_halving(s, target, &bounds, scale, t);
}

void select_top_p(struct support *s, double top_p, struct weight_scale scale, const struct kernels *kernels,
                  struct arena *scratch)
{
    struct tools t = {kernels, scratch};
    support_lanes(s, kernels, scratch);
    struct reach reach = {lend(&t, s->n, sizeof *reach.positions), 0};
    size_t mark = arena_mark(scratch);
    struct cut cut = find_cut(s, top_p, scale, &reach, &t);
    arena_release(scratch, mark);
    keep_to(s, cut, reach, &t);
}
