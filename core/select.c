#include "core/select.h"

#include <assert.h>
#include <float.h>
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
    return rank_scratch_bytes(n) + 12 * n * sizeof(float) + 2 * lanes + kernels_blocks(n) * sizeof(double) +
           64 * ARENA_ALIGNMENT;
}

static void *lend(const struct tools *t, size_t count, size_t size)
{
    void *lent = arena_alloc(t->scratch, count, size);
    assert(lent != NULL);
    return lent;
}

void select_top_k(struct support *s, size_t k, const struct kernels *kernels, struct arena *scratch)
{
    assert(k >= 1);
    if (k >= s->n)
        return;
    struct tools t = {kernels, scratch};
    const float *lanes = support_lanes(s, kernels, scratch);
    int32_t *positions = lend(&t, s->n, sizeof *positions);
    size_t count = rank_top(kernels, s->z, lanes, s->n, k, positions, scratch);
    support_keep(s, positions, count, scratch);
}

/* Some tokens of a support, ascending by position. */
struct part {
    int32_t *positions; /* [n] */
    float *z;           /* [n] */
    float *w;           /* [n] */
    size_t n;
};

static void part_fill(struct part *p, const struct support *s, struct weight_scale scale,
                      const struct tools *t)
{
    p->z = lend(t, p->n, sizeof *p->z);
    p->w = lend(t, p->n, sizeof *p->w);
    for (size_t i = 0; i < p->n; i++)
        p->z[i] = s->z[p->positions[i]];
    t->kernels->weights(p->z, p->n, scale, p->w);
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
 * keeps the mass <= target, or `before` when there is none.
 */
static struct cut walk_to(const struct part *p, double mass, double target, struct cut before,
                          const struct tools *t)
{
    size_t mark = arena_mark(t->scratch);
    struct ranked *order = lend(t, p->n, sizeof *order);
    rank_sort(p->z, p->n, order, t->scratch);
    struct cut cut = before;
    for (size_t i = 0; i < p->n; i++) {
        int32_t at = order[i].position;
        mass += p->w[at];
        if (mass > target)
            break;
        cut = (struct cut){p->z[at], p->positions[at]};
    }
    arena_release(t->scratch, mark);
    return cut;
}

/* The likeliest token: what a nucleus holds at least. */
static struct cut cut_at_max(const struct support *s)
{
    int32_t first = 0;
    while (s->z[first] != s->max)
        first++;
    return (struct cut){s->max, first};
}

static struct cut cut_by_sorting(const struct support *s, double top_p, struct weight_scale scale,
                                 const struct tools *t)
{
    struct part all = {.positions = lend(t, s->n, sizeof *all.positions), .n = s->n};
    for (size_t i = 0; i < s->n; i++)
        all.positions[i] = (int32_t)i;
    part_fill(&all, s, scale, t);
    return walk_to(&all, 0.0, top_p * part_mass(&all), cut_at_max(s), t);
}

/*
 * Look at the tokens above the 64th, 512th, 4096th ... largest lane maximum until their mass passes target.
 * Returns false when that would be too many; *passed is then the lowest threshold whose mass did not.
 */
static bool cut_by_falling_threshold(struct support *s, double target, struct weight_scale scale,
                                     const struct tools *t, float *passed, struct cut *cut)
{
    const float *lanes = s->lanes;
    size_t num_lanes = kernels_blocks(s->n) * KERNELS_LANES;
    *passed = INFINITY;
    for (size_t k = KERNELS_LANES; k <= num_lanes / 4; k *= 8) {
        size_t mark = arena_mark(t->scratch);
        float threshold = rank_kth_of(t->kernels, lanes, num_lanes, k, t->scratch);
        struct part above = {.positions = lend(t, s->n, sizeof *above.positions)};
        above.n = rank_collect(t->kernels, s->z, lanes, s->n, threshold, above.positions);
        part_fill(&above, s, scale, t);
        bool enough = part_mass(&above) > target;
        if (enough)
            *cut = walk_to(&above, 0.0, target, cut_at_max(s), t);
        arena_release(t->scratch, mark);
        if (enough)
            return true;
        *passed = threshold;
    }
    return false;
}

/* mass(z >= low) > target >= mass(z >= high), as codes of rank_code() */
struct bracket {
    int64_t low, high;
    size_t count_low, count_high;
    double mass_high;
};

/* Halve by value and by code in turn: the first is quick on a model's logits, the second never needs over 32
 * steps. */
static int64_t bracket_middle(const struct bracket *b, unsigned step)
{
    if (step % 2 == 0) {
        double middle = 0.5 * ((double)rank_float((int32_t)b->low) + (double)rank_float((int32_t)b->high));
        int64_t code = isfinite(middle) ? rank_code((float)middle) : b->low;
        if (code > b->low && code < b->high)
            return code;
    }
    return b->low + (b->high - b->low) / 2;
}

static void bracket_narrow(struct bracket *b, const struct support *s, const float *w, double target,
                           int64_t at, const struct kernels *kernels)
{
    double mass;
    size_t count = kernels->count_above(s->z, w, s->n, rank_float((int32_t)at), &mass);
    if (mass > target) {
        b->low = at;
        b->count_low = count;
    } else {
        b->high = at;
        b->count_high = count;
        b->mass_high = mass;
    }
}

static struct part bracket_part(const struct bracket *b, const struct support *s, const struct tools *t)
{
    struct part p = {.positions = lend(t, s->n, sizeof *p.positions)};
    float high = rank_float((int32_t)b->high);
    size_t reach = t->kernels->find_above(s->z, s->n, rank_float((int32_t)b->low), p.positions);
    for (size_t i = 0; i < reach; i++) {
        p.positions[p.n] = p.positions[i];
        p.n += s->z[p.positions[i]] < high;
    }
    return p;
}

static struct cut cut_by_bisection(const struct support *s, double target, float passed,
                                   struct weight_scale scale, const struct tools *t)
{
    float *w = lend(t, s->n, sizeof *w);
    t->kernels->weights(s->z, s->n, scale, w);
    struct bracket b = {
        .low = rank_code(-INFINITY), .high = (int64_t)rank_code(s->max) + 1, .count_low = s->n};
    if (passed <= s->max)
        bracket_narrow(&b, s, w, target, rank_code(passed), t->kernels);
    double reach = 128.0 / ((double)scale.rate * scale.pre); /* no weight below max - reach */
    float floor = (float)(s->max - reach);
    if (floor > -FLT_MAX && rank_code(floor) < b.high)
        bracket_narrow(&b, s, w, target, rank_code(floor), t->kernels);
    for (unsigned step = 0; b.high - b.low > 1 && b.count_low - b.count_high > SORT_AT_ONCE; step++)
        bracket_narrow(&b, s, w, target, bracket_middle(&b, step), t->kernels);

    struct part between = bracket_part(&b, s, t);
    part_fill(&between, s, scale, t);
    bool none_above = b.count_high == 0;
    struct cut before = none_above ? cut_at_max(s) : (struct cut){rank_float((int32_t)b.high), INT32_MAX};
    return walk_to(&between, b.mass_high, target, before, t);
}

static struct cut find_cut(struct support *s, double top_p, struct weight_scale scale, const struct tools *t)
{
    if (s->n <= SORT_AT_ONCE)
        return cut_by_sorting(s, top_p, scale, t);
    double *block_sums = lend(t, kernels_blocks(s->n), sizeof *block_sums);
    double target = top_p * t->kernels->sum_weights(s->z, s->n, scale, block_sums);
    float passed;
    struct cut cut;
    if (cut_by_falling_threshold(s, target, scale, t, &passed, &cut))
        return cut;
    return cut_by_bisection(s, target, passed, scale, t);
}

void select_top_p(struct support *s, double top_p, struct weight_scale scale, const struct kernels *kernels,
                  struct arena *scratch)
{
    struct tools t = {kernels, scratch};
    const float *lanes = support_lanes(s, kernels, scratch);
    int32_t *positions = lend(&t, s->n, sizeof *positions);
    size_t mark = arena_mark(scratch);
    struct cut cut = find_cut(s, top_p, scale, &t);
    arena_release(scratch, mark);
    size_t reach = rank_collect(kernels, s->z, lanes, s->n, cut.value, positions), count = 0;
    for (size_t i = 0; i < reach; i++) {
        int32_t at = positions[i];
        positions[count] = at;
        count += s->z[at] > cut.value || at <= cut.last;
    }
    support_keep(s, positions, count, scratch);
}
