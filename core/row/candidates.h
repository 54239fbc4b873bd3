#ifndef CORE_CANDIDATES_H
#define CORE_CANDIDATES_H

#include "core/base/arena.h"

#include <stdint.h>

size_t candidates_scratch_bytes(size_t n);

/*
 * Put a row of candidates in the order of their token ids, so that a tie goes to the lower id and not to the
 * lower position.
 *
 *   z, ids      [n] logits and their token ids, in any order
 *   row         its index in the batch, for messages
 *   out_z, out_ids  [n] the same, ids ascending
 *
 * Errors: STATUS_INVALID out_of_range on a negative id, duplicate_id on one that comes twice; param
 * candidate_ids.
 */
enum status candidates_order(const float *z, const int32_t *ids, size_t n, size_t row, struct arena *scratch,
                             float *out_z, int32_t *out_ids, struct error *err);

#endif
