#ifndef CORE_THRESHOLD_H
#define CORE_THRESHOLD_H

#include "core/base/arena.h"
#include "core/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The threshold at which a sum passes a target, found by halving.
 *
 * measure(x) is the sum of w over the tokens with z >= x, or their number where w is NULL; it grows as x
 * falls.  A search keeps measure(low) > target >= measure(high) and ends when few tokens are left between, or
 * when low and high are neighbouring floats, so that all of them tie.
 */
struct threshold {
    const float *z; /* [n] before: the tokens; after: those with low <= z < high; NULL where all tie */
    const float *w; /* [n] their weights, or NULL to count them; after: as z */
    const int32_t *positions; /* [n] after: where they stood in the first z, ascending; NULL for 0 .. n-1 */
    size_t n;
    float max; /* the largest of the first z */

    int64_t low, high;  /* codes of order_code() */
    double above;       /* measure(high) */
    size_t count_above; /* tokens with z >= high */
};

/*
 * Narrow b, of which z, w, n and max are set, until at most `few` tokens are left in it or all of them tie.
 *
 *   target   0 < target < measure(-INFINITY)
 *   scratch  lends what b then points at; threshold_scratch_bytes(n)
 *
 * At most 64 passes: the middle is taken by value and by code in turn, and codes are 32 bits.
 */
void threshold_find(struct threshold *b, double target, size_t few, const struct kernels *kernels,
                    struct arena *scratch);

/* Whether all tokens left in the threshold have the value of low. */
static inline bool threshold_is_tie(const struct threshold *b)
{
    return b->high - b->low == 1;
}

/* The same, and `hints` [count] are tried first: thresholds near the answer. */
void threshold_find_near(struct threshold *b, double target, size_t few, const float *hints, size_t count,
                         const struct kernels *kernels, struct arena *scratch);

size_t threshold_scratch_bytes(size_t n);

#endif
