#ifndef PROTO_NPY_H
#define PROTO_NPY_H

#include "proto/params/query.h"
#include "proto/tensors/lender.h"

#define NPY_MAX_HEADER_BYTES ((size_t)1 << 16) /* of the dictionary; numpy writes 118 or so */

/*
 * Read the logits that numpy.save() wrote, versions 1.0, 2.0 and 3.0: '<f4' or '<f2' in C order, of shape
 * (V,), (B, V) or (M, B, V) with mix.  The query has the other parameters, as for raw logits.
 *
 *   body    [length] bytes
 *   arena   lends what out points at, but logits; at least query_arena_bytes()
 *   lender  lends a copy of logits that do not lie aligned, as numpy's do
 *   out     written on STATUS_OK; its logits are a view of body, if aligned
 *
 * Errors: STATUS_INVALID (params.h), malformed_npy, unsupported_dtype, wrong_length; those of the lender.
 * Thread-safe.
 * Source: NEP 1 and numpy.lib.format.
 */
enum status npy_decode(const struct query_field *fields, size_t count, const char *body, size_t length,
                       struct arena *arena, struct lender *lender, uint64_t fresh_seed,
                       struct sample_request *out, struct error *err);

#endif
