#include "core/row/rank.h"

#include "core/row/threshold.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define FEW 32 /* values that are sorted at once rather than searched */

size_t rank_scratch_bytes(size_t n)
{
    /* rank_kth_largest holds ids and values of what it collected, and below them works on a list of half that
       at most, or on lanes; a sort holds two lists */
    size_t lists = 4 * n * sizeof(struct ranked);
    size_t lanes = 4 * (kernels_blocks(n) + 1) * KERNELS_LANES * sizeof(float);
    return lists + lanes + threshold_scratch_bytes(n) + 64 * ARENA_ALIGNMENT;
}

static void insertion_sort(struct ranked *r, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct ranked moving = r[i];
        size_t j = i;
        for (; j > 0 && r[j - 1].key > moving.key; j--)
            r[j] = r[j - 1];
        r[j] = moving;
    }
}

/* One pass of the radix sort, by the byte at `shift`; returns false, having moved nothing, when all agree in
 * it. */
static bool radix_pass(const struct ranked *from, size_t n, unsigned shift, uint32_t counts[256],
                       struct ranked *to)
{
    if (counts[from[0].key >> shift & 255] == n)
        return false;
    uint32_t start = 0;
    for (size_t b = 0; b < 256; b++) {
        uint32_t count = counts[b];
        counts[b] = start;
        start += count;
    }
    for (size_t i = 0; i < n; i++)
        to[counts[from[i].key >> shift & 255]++] = from[i];
    return true;
}

static void radix_sort(struct ranked *ranked, size_t n, struct arena *scratch)
{
    uint32_t counts[4][256] = {{0}};
    for (size_t i = 0; i < n; i++)
        for (unsigned b = 0; b < 4; b++)
            counts[b][ranked[i].key >> 8 * b & 255]++;
    struct ranked *from = ranked, *to = arena_alloc(scratch, n, sizeof *to);
    assert(to != NULL);
    for (unsigned b = 0; b < 4; b++) {
        if (radix_pass(from, n, 8 * b, counts[b], to)) {
            struct ranked *swap = from;
            from = to;
            to = swap;
        }
    }
    if (from != ranked)
        memcpy(ranked, from, n * sizeof *from);
}

void rank_sort_keys(struct ranked *ranked, size_t n, struct arena *scratch)
{
    size_t mark = arena_mark(scratch);
    uint32_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= ranked[i].key ^ ranked[0].key;
    if (n <= 48)
        insertion_sort(ranked, n);
    else if (differ != 0) /* all ties are in order already */
        radix_sort(ranked, n, scratch);
    arena_release(scratch, mark);
}

void rank_sort(const float *z, size_t n, struct ranked *ranked, struct arena *scratch)
{
    for (size_t i = 0; i < n; i++) /* falling: the code is negated bit by bit, and made unsigned */
        ranked[i] = (struct ranked){~((uint32_t)order_code(z[i]) ^ 0x80000000u), (int32_t)i};
    rank_sort_keys(ranked, n, scratch);
}

static float kth_by_sort(const float *z, size_t n, size_t k, struct arena *scratch)
{
    size_t mark = arena_mark(scratch);
    struct ranked *ranked = arena_alloc(scratch, n, sizeof *ranked);
    assert(ranked != NULL);
    rank_sort(z, n, ranked, scratch);
    float kth = z[ranked[k - 1].position];
    arena_release(scratch, mark);
    return kth;
}

/* count(z >= x) > k - 1/2 is to say that the k-th largest is >= x. */
static float kth_by_counting(const struct kernels *kernels, const float *z, size_t n, size_t k,
                             struct arena *scratch)
{
    size_t mark = arena_mark(scratch);
    struct threshold b = {.z = z, .w = NULL, .n = n, .max = kernels->max(z, n)};
    threshold_find(&b, (double)k - 0.5, FEW, kernels, scratch);
    float kth = order_float((int32_t)b.low);
    if (!threshold_is_tie(&b))
        kth = kth_by_sort(b.z, b.n, k - (size_t)b.above, scratch);
    arena_release(scratch, mark);
    return kth;
}

float rank_kth_of(const struct kernels *kernels, const float *z, size_t n, size_t k, struct arena *scratch)
{
    if (n <= FEW)
        return kth_by_sort(z, n, k, scratch);
    size_t mark = arena_mark(scratch);
    float *lanes = arena_alloc(scratch, kernels_blocks(n) * KERNELS_LANES, sizeof *lanes);
    assert(lanes != NULL);
    kernels->lane_max(z, n, lanes);
    float kth = rank_kth_largest(kernels, z, lanes, n, k, scratch);
    arena_release(scratch, mark);
    return kth;
}

/* Whether the lanes' maxima bound the k-th largest well enough to be worth a look. */
static bool lanes_help(size_t n, size_t k)
{
    size_t num_lanes = kernels_blocks(n) * KERNELS_LANES;
    return k <= num_lanes / 2 && num_lanes < n;
}

float rank_kth_largest(const struct kernels *kernels, const float *z, const float *lanes, size_t n, size_t k,
                       struct arena *scratch)
{
    assert(k >= 1 && k <= n);
    if (n <= FEW)
        return kth_by_sort(z, n, k, scratch);
    if (!lanes_help(n, k))
        return kth_by_counting(kernels, z, n, k, scratch);
    size_t mark = arena_mark(scratch);
    int32_t *ids = arena_alloc(scratch, n, sizeof *ids);
    assert(ids != NULL);
    size_t count = rank_top(kernels, z, lanes, n, k, ids, scratch);
    float kth = z[ids[0]];
    for (size_t i = 1; i < count; i++)
        kth = z[ids[i]] < kth ? z[ids[i]] : kth;
    arena_release(scratch, mark);
    return kth;
}

/*
 * The tokens of one block that reach cut, ascending: row by row, and in a row only the lanes that can hold
 * one. ids need not have room for more than there are.
 */
static size_t collect_from_lanes(const float *z, size_t n, const int *live, size_t num_live, float cut,
                                 int32_t *ids)
{
    size_t found = 0;
    for (size_t row = 0; row < n; row += KERNELS_LANES) {
        for (size_t l = 0; l < num_live; l++) {
            size_t i = row + (size_t)live[l];
            if (i < n && z[i] >= cut)
                ids[found++] = (int32_t)i;
        }
    }
    return found;
}

#define FEW_LIVE 6 /* lanes: more of them cost as much as the whole block in order */

size_t rank_collect(const struct kernels *kernels, const float *z, const float *lanes, size_t n, float cut,
                    int32_t *ids)
{
    size_t found = 0;
    for (size_t first = 0; first < n; first += KERNELS_BLOCK, lanes += KERNELS_LANES) {
        int live[KERNELS_LANES];
        size_t in_block = n - first < KERNELS_BLOCK ? n - first : KERNELS_BLOCK, more = 0;
        size_t num_live = kernels->find_between(lanes, KERNELS_LANES, cut, INFINITY, live);
        if (num_live > FEW_LIVE)
            more = kernels->find_between(z + first, in_block, cut, INFINITY, ids + found);
        else if (num_live > 0)
            more = collect_from_lanes(z + first, in_block, live, num_live, cut, ids + found);
        for (size_t i = found; i < found + more; i++)
            ids[i] += (int32_t)first;
        found += more;
    }
    return found;
}

/*
 * Of the tokens collected, those that reach the k-th largest, which is above bound.  Where most of the row is
 * above it, lanes do not tell its tokens apart, and would not do so again.
 */
static size_t keep_top(const struct kernels *kernels, const float *z, size_t n, size_t count, float bound,
                       size_t k, int32_t *ids, struct arena *scratch)
{
    float *values = arena_alloc(scratch, count, sizeof *values);
    assert(values != NULL);
    size_t above = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        ids[above] = ids[i];
        values[above] = z[ids[i]];
        above += values[above] > bound;
    }
    float cut = above > n / 2 ? kth_by_counting(kernels, values, above, k, scratch)
                              : rank_kth_of(kernels, values, above, k, scratch);
    for (size_t i = 0; i < above; i++) {
        ids[kept] = ids[i];
        kept += values[i] >= cut;
    }
    return kept;
}

/*
 * The k-th largest lane maximum is reached by k tokens at least, so the k largest are among those that reach
 * it. Where no more do, or the others tie with it, they are the answer.
 */
size_t rank_top(const struct kernels *kernels, const float *z, const float *lanes, size_t n, size_t k,
                int32_t *ids, struct arena *scratch)
{
    if (n <= FEW || !lanes_help(n, k))
        return rank_collect(kernels, z, lanes, n, rank_kth_largest(kernels, z, lanes, n, k, scratch), ids);
    size_t mark = arena_mark(scratch);
    float bound = rank_kth_of(kernels, lanes, kernels_blocks(n) * KERNELS_LANES, k, scratch);
    size_t count = rank_collect(kernels, z, lanes, n, bound, ids), above = 0;
    for (size_t i = 0; count > k && i < count; i++)
        above += z[ids[i]] > bound;
    if (above >= k)
        count = keep_top(kernels, z, n, count, bound, k, ids, scratch);
    arena_release(scratch, mark);
    return count;
}
