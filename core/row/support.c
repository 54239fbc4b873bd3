#include "core/row/support.h"

#include <assert.h>
#include <math.h>
#include <string.h>

size_t support_room_bytes(size_t n)
{
    return n * (sizeof(float) + sizeof(int32_t)) + kernels_blocks(n) * KERNELS_LANES * sizeof(float) +
           3 * ARENA_ALIGNMENT;
}

struct support_room support_room_lend(size_t n, struct arena *scratch)
{
    struct support_room room = {arena_alloc(scratch, n, sizeof *room.z),
                                arena_alloc(scratch, n, sizeof *room.ids),
                                arena_alloc(scratch, kernels_blocks(n) * KERNELS_LANES, sizeof *room.lanes)};
    assert(room.z != NULL && room.ids != NULL && room.lanes != NULL);
    return room;
}

size_t support_find(const struct support *s, int32_t token_id)
{
    size_t low = 0, high = s->n;
    if (s->ids == NULL)
        return (size_t)token_id < s->n ? (size_t)token_id : s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->ids[middle] < token_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n && s->ids[low] == token_id ? low : s->n;
}

const float *support_lanes(struct support *s, const struct kernels *kernels)
{
    if (s->lanes == NULL) {
        kernels->lane_max(s->z, s->n, s->room->lanes);
        s->lanes = s->room->lanes;
    }
    return s->lanes;
}

float *support_own(struct support *s)
{
    if (s->z != s->room->z) {
        memcpy(s->room->z, s->z, s->n * sizeof *s->z);
        s->z = s->room->z;
    }
    return s->room->z;
}

void support_mask(struct support *s, float value, int32_t last)
{
    float *z = s->room->z; /* which may be s->z */
    size_t ties_end = (size_t)last < s->n ? (size_t)last + 1 : s->n;
    for (size_t i = 0; i < ties_end; i++)
        z[i] = s->z[i] >= value ? s->z[i] : -INFINITY;
    for (size_t i = ties_end; i < s->n; i++)
        z[i] = s->z[i] > value ? s->z[i] : -INFINITY;
    s->z = z;
    s->lanes = NULL;
}

void support_keep(struct support *s, const int32_t *positions, size_t count)
{
    assert(count >= 1 && count <= s->n);
    if (count == s->n)
        return;
    float *z = s->room->z; /* which may be s->z: positions only move to the front */
    int32_t *ids = s->room->ids;
    for (size_t i = 0; i < count; i++) {
        z[i] = s->z[positions[i]];
        ids[i] = support_id(s, (size_t)positions[i]);
    }
    *s = (struct support){.z = z, .ids = ids, .n = count, .max = s->max, .room = s->room};
}
