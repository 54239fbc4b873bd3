#include "core/row/candidates.h"

#include "core/row/rank.h"

#include <assert.h>

size_t candidates_scratch_bytes(size_t n)
{
    return rank_scratch_bytes(n) + n * sizeof(struct ranked) + ARENA_ALIGNMENT;
}

/* Adjacent ids of an ascending list tell a duplicate, its first a negative one. */
static enum status check_ids(const struct ranked *order, size_t n, const int32_t *ids, size_t row,
                             struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0) {
            error_set(err, STATUS_INVALID, "out_of_range",
                      "candidate_ids[%zu][%zu] is %d; it must be from 0 to 2147483647", row, i, (int)ids[i]);
            return error_at(err, "candidate_ids", row);
        }
    }
    for (size_t i = 1; i < n; i++) {
        if (order[i].key == order[i - 1].key) {
            error_set(err, STATUS_INVALID, "duplicate_id",
                      "candidate_ids[%zu] has %u twice; each must come once", row, (unsigned)order[i].key);
            return error_at(err, "candidate_ids", row);
        }
    }
    return STATUS_OK;
}

enum status candidates_order(const float *z, const int32_t *ids, size_t n, size_t row, struct arena *scratch,
                             float *out_z, int32_t *out_ids, struct error *err)
{
    size_t mark = arena_mark(scratch);
    struct ranked *order = arena_alloc(scratch, n, sizeof *order);
    assert(order != NULL);
    for (size_t i = 0; i < n; i++)
        order[i] = (struct ranked){(uint32_t)ids[i], (int32_t)i};
    rank_sort_keys(order, n, scratch);
    enum status status = check_ids(order, n, ids, row, err);
    for (size_t i = 0; i < n; i++) {
        out_z[i] = z[order[i].position];
        out_ids[i] = (int32_t)order[i].key;
    }
    arena_release(scratch, mark);
    return status;
}
