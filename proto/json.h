#ifndef PROTO_JSON_H
#define PROTO_JSON_H

#include "proto/params.h"

/* Arena that a request needs beside its lists of values: copies of names and an id, rounding. */
#define JSON_ARENA_BYTES ((size_t)16 << 10)

/* Arena bytes that json_decode() may need for a body with that many commas. */
size_t json_arena_bytes(size_t commas);

/*
 * Read a JSON body.
 *
 *   body        [length] bytes; NUMBERS_PADDING more can be read
 *   arena       lends what out points at, but the numbers; at least json_arena_bytes()
 *   numbers     [capacity] receives logits and bias; capacity >= numbers_count_bound(body, length)
 *   fresh_seed  for a request without one
 *   out         written on STATUS_OK; a view of arena and numbers
 *
 * logits and bias are read by numbers_read_array(); the other values are checked by json_scan and read by
 * cJSON, which allocates and is freed before this returns. Errors: STATUS_INVALID (params.h, json_scan.h),
 * STATUS_TOO_LARGE for a parameter of more than PARAMS_MAX_TEXT_BYTES, STATUS_NO_MEMORY.  Thread-safe.
 */
enum status json_decode(const char *body, size_t length, struct arena *arena, float *numbers, size_t capacity,
                        uint64_t fresh_seed, struct sample_request *out, struct error *err);

#endif
