#ifndef CORE_DRAW_H
#define CORE_DRAW_H

#include "core/row/support.h"

/*
 * Draws from a support: the first position, ascending, whose running weight is > u * total.
 *
 * Sums run in float64 over block sums (see kernels.h), then over the tokens of one block, so a draw looks
 * inside one block only.  Never a token of weight 0.
 */
struct draw {
    const struct support *support;
    struct weight_scale scale;
    double *running; /* [blocks] weight of all blocks up to and with this one */
    size_t blocks;
    float *w;      /* [KERNELS_BLOCK] weights of the block looked into last */
    size_t inside; /* that block, or blocks when none yet */
};

size_t draw_scratch_bytes(size_t n);

/* The support must outlive the draw; its memory is lent from scratch. */
void draw_init(struct draw *draw, const struct support *support, struct weight_scale scale,
               const struct kernels *kernels, struct arena *scratch);

/* Position in the support of the token at u, 0 <= u < 1. */
size_t draw_at(struct draw *draw, const struct kernels *kernels, double u);

#endif
