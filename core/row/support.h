#ifndef CORE_SUPPORT_H
#define CORE_SUPPORT_H

#include "core/base/arena.h"
#include "core/kernels/kernels.h"

#include <stdint.h>

/*
 * The tokens of one row that are still in play.  Every rule takes a support and leaves a smaller one; what
 * draws and reports needs no other view of a row.
 */
struct support {
    const float *z;     /* [n] their logits, at least one of them finite, no NaN, no +inf */
    const int32_t *ids; /* [n] their token ids, ascending; NULL when z is the whole row */
    const float *lanes; /* lane_max() of z, or NULL while nobody needed it */
    size_t n;           /* >= 1 */
    float max;          /* largest of z */
};

static inline int32_t support_id(const struct support *s, size_t position)
{
    return s->ids == NULL ? (int32_t)position : s->ids[position];
}

/* lane_max() of s->z, computed at the first call into scratch. */
const float *support_lanes(struct support *s, const struct kernels *kernels, struct arena *scratch);

/*
 * Keep the tokens with z > value, and those with z == value up to position `last`, by masking the others: the
 * support stays as long as it is, in a copy.
 */
void support_mask(struct support *s, float value, int32_t last, struct arena *scratch);

/*
 * Keep the given positions, ascending, 1 <= count <= n, the largest logit among them.  The new lists are lent
 * from scratch and live until it is reset.
 */
void support_keep(struct support *s, const int32_t *positions, size_t count, struct arena *scratch);

#endif
