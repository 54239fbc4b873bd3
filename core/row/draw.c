#include "core/row/draw.h"

#include <assert.h>

size_t draw_scratch_bytes(size_t n)
{
    return kernels_blocks(n) * sizeof(double) + KERNELS_BLOCK * sizeof(float) + 2 * ARENA_ALIGNMENT;
}

void draw_init(struct draw *draw, const struct support *support, struct weight_scale scale,
               const struct kernels *kernels, struct arena *scratch)
{
    size_t blocks = kernels_blocks(support->n);
    *draw = (struct draw){
        .support = support,
        .scale = scale,
        .running = arena_alloc(scratch, blocks, sizeof *draw->running),
        .blocks = blocks,
        .w = arena_alloc(scratch, KERNELS_BLOCK, sizeof *draw->w),
        .inside = blocks,
    };
    assert(draw->running != NULL && draw->w != NULL);
    kernels->sum_weights(support->z, support->n, scale, draw->running);
    for (size_t b = 1; b < blocks; b++)
        draw->running[b] += draw->running[b - 1];
}

/* The first block whose running weight is > target; the last block that adds any when rounding hides it. */
static size_t find_block(const struct draw *draw, double target)
{
    size_t low = 0, high = draw->blocks - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (draw->running[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void look_inside(struct draw *draw, const struct kernels *kernels, size_t block, size_t n)
{
    if (draw->inside == block)
        return;
    kernels->weights(draw->support->z + block * KERNELS_BLOCK, n, draw->scale, draw->w);
    draw->inside = block;
}

size_t draw_at(struct draw *draw, const struct kernels *kernels, double u)
{
    /* u <= 1 - 2^-53, so u * total rounds to less than total, and a block is found that adds to it */
    double target = u * draw->running[draw->blocks - 1];
    size_t block = find_block(draw, target), first = block * KERNELS_BLOCK;
    size_t left = draw->support->n - first, n = left < KERNELS_BLOCK ? left : KERNELS_BLOCK;
    look_inside(draw, kernels, block, n);
    double sum = block == 0 ? 0.0 : draw->running[block - 1];
    size_t last = n;
    for (size_t i = 0; i < n; i++) {
        sum += draw->w[i];
        if (draw->w[i] > 0.0f) {
            last = i;
            if (sum > target)
                break;
        }
    }
    assert(last < n); /* the block adds to the running weight, so one of its tokens has some */
    return first + last;
}
