#include "core/row/support.h"

#include <assert.h>
#include <math.h>

const float *support_lanes(struct support *s, const struct kernels *kernels, struct arena *scratch)
{
    if (s->lanes == NULL) {
        float *lanes = arena_alloc(scratch, kernels_blocks(s->n) * KERNELS_LANES, sizeof *lanes);
        assert(lanes != NULL);
        kernels->lane_max(s->z, s->n, lanes);
        s->lanes = lanes;
    }
    return s->lanes;
}

void support_mask(struct support *s, float value, int32_t last, struct arena *scratch)
{
    float *z = arena_alloc(scratch, s->n, sizeof *z);
    assert(z != NULL);
    size_t ties_end = (size_t)last < s->n ? (size_t)last + 1 : s->n;
    for (size_t i = 0; i < ties_end; i++)
        z[i] = s->z[i] >= value ? s->z[i] : -INFINITY;
    for (size_t i = ties_end; i < s->n; i++)
        z[i] = s->z[i] > value ? s->z[i] : -INFINITY;
    s->z = z;
    s->lanes = NULL;
}

void support_keep(struct support *s, const int32_t *positions, size_t count, struct arena *scratch)
{
    assert(count >= 1 && count <= s->n);
    if (count == s->n)
        return;
    float *z = arena_alloc(scratch, count, sizeof *z);
    int32_t *ids = arena_alloc(scratch, count, sizeof *ids);
    assert(z != NULL && ids != NULL);
    for (size_t i = 0; i < count; i++) {
        z[i] = s->z[positions[i]];
        ids[i] = support_id(s, (size_t)positions[i]);
    }
    *s = (struct support){.z = z, .ids = ids, .lanes = NULL, .n = count, .max = s->max};
}
