#ifndef PROTO_JSON_H
#define PROTO_JSON_H

#include "proto/params/params.h"
#include "proto/tensors/lender.h"

/* Arena that a request needs beside its lists of values: copies of names and an id, rounding. */
#define JSON_ARENA_BYTES ((size_t)16 << 10)

/* Arena bytes that json_decode() may need for a body of this length. */
size_t json_arena_bytes(size_t length);

/*
 * Read a JSON body.
 *
 *   body        [length] bytes; NUMBERS_PADDING more can be read
 *   arena       lends what out points at, but the numbers; at least json_arena_bytes()
 *   lender      lends room for logits and bias: numbers_count_bound() floats, or the bytes of base64
 *   fresh_seed  for a request without one
 *   out         written on STATUS_OK; a view of what was lent
 *
 * logits and bias are read by numbers_read_array() or json_packed_read(); the other values are checked by
 * json_scan and read by cJSON, which allocates and is freed before this returns. Errors: STATUS_INVALID
 * (params.h, json_scan.h, json_packed.h), STATUS_TOO_LARGE for a parameter of more than
 * PARAMS_MAX_TEXT_BYTES, STATUS_NO_MEMORY, those of the lender.  Thread-safe.
 */
enum status json_decode(const char *body, size_t length, struct arena *arena, struct lender *lender,
                        uint64_t fresh_seed, struct sample_request *out, struct error *err);

#endif
