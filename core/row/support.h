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
    const float *z;                  /* [n] their logits, at least one of them finite, no NaN, no +inf */
    const int32_t *ids;              /* [n] their token ids, ascending; NULL when z is the whole row */
    const float *lanes;              /* lane_max() of z, or NULL while nobody needed it */
    size_t n;                        /* >= 1 */
    float max;                       /* largest of z */
    const struct support_room *room; /* where lists go that are not the row's own */
};

/* One list of each kind is enough for a row: what replaces a list of the room takes its place. */
struct support_room {
    float *z;     /* [n of the whole row] */
    int32_t *ids; /* the same */
    float *lanes; /* [kernels_blocks(n) * KERNELS_LANES] */
};

/* Lent for a row of n tokens; support_room_bytes(n). */
struct support_room support_room_lend(size_t n, struct arena *scratch);
size_t support_room_bytes(size_t n);

static inline int32_t support_id(const struct support *s, size_t position)
{
    return s->ids == NULL ? (int32_t)position : s->ids[position];
}

/* The position of a token id; s->n where it is none of the support. */
size_t support_find(const struct support *s, int32_t token_id);

/* lane_max() of s->z, computed at the first call into the room. */
const float *support_lanes(struct support *s, const struct kernels *kernels);

/* The logits, in the room, where they may be written to. */
float *support_own(struct support *s);

/*
 * Keep the tokens with z > value, and those with z == value up to position `last`, by masking the others: the
 * support stays as long as it is.
 */
void support_mask(struct support *s, float value, int32_t last);

/* Keep the given positions, ascending, 1 <= count <= n, the largest logit among them. */
void support_keep(struct support *s, const int32_t *positions, size_t count);

#endif
