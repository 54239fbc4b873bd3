#ifndef CORE_RANK_H
#define CORE_RANK_H

#include "core/base/arena.h"
#include "core/kernels/kernels.h"
#include "core/row/order.h"

#include <stdint.h>

/*
 * The order of logits: by falling value, lower position first on a tie.  -0.0 and 0.0 tie.
 *
 * No NaN anywhere.  Scratch is lent from the worker's arena and returned before a function ends; the arena
 * must hold rank_scratch_bytes(n).
 */
size_t rank_scratch_bytes(size_t n);

/* Position i of a sorted list, and the value that put it there. */
struct ranked {
    uint32_t key; /* ascending keys are falling values */
    int32_t position;
};

/* ranked[n] = the positions 0 .. n-1 of z[n] in order. */
void rank_sort(const float *z, size_t n, struct ranked *ranked, struct arena *scratch);

/* Sort by ascending key; equal keys stay in order.  Radix sort: at most 4 passes, no worst case. */
void rank_sort_keys(struct ranked *ranked, size_t n, struct arena *scratch);

/*
 * The k-th largest of z[n], 1 <= k <= n.
 *
 *   lanes  lane_max() of z
 *
 * The k-th largest of the lanes' maxima is a lower bound t of the answer.  Few lanes reach t, so few
 * tokens are looked at again; where k is too large for that, the value is bisected by counting.
 */
float rank_kth_largest(const struct kernels *kernels, const float *z, const float *lanes, size_t n, size_t k,
                       struct arena *scratch);

/* The same where no lanes are at hand. */
float rank_kth_of(const struct kernels *kernels, const float *z, size_t n, size_t k, struct arena *scratch);

/*
 * ids[<= n] of the tokens with z >= cut, ascending; returns how many.  Looks only into lanes whose maximum
 * reaches cut while these are few.
 */
size_t rank_collect(const struct kernels *kernels, const float *z, const float *lanes, size_t n, float cut,
                    int32_t *ids);

/*
 * ids[<= n] of the k largest, 1 <= k <= n, and of all that tie with the k-th, ascending; returns how many.
 * The cheapest way where k is far below n: the tokens that may be the k-th are those collected.
 */
size_t rank_top(const struct kernels *kernels, const float *z, const float *lanes, size_t n, size_t k,
                int32_t *ids, struct arena *scratch);

#endif
