#ifndef PROTO_RAW_H
#define PROTO_RAW_H

#include "proto/params/query.h"

/*
 * Read a raw request: the body is the logits [B, V] (or [M, B, V] with mix) and nothing else, little-endian,
 * row-major; the query has vocab_size, dtype and the other parameters, a list as comma-separated values.
 *
 *   body   [length] bytes, aligned for the dtype; out's logits are a view of it
 *   arena  lends what else out points at; at least query_arena_bytes()
 *
 * Errors: STATUS_INVALID (params.h), wrong_length with the numbers when the body is not a whole number of
 * rows. Thread-safe.
 */
enum status raw_decode(const struct query_field *fields, size_t count, const char *body, size_t length,
                       struct arena *arena, uint64_t fresh_seed, struct sample_request *out,
                       struct error *err);

#endif
