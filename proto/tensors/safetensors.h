#ifndef PROTO_SAFETENSORS_H
#define PROTO_SAFETENSORS_H

#include "proto/params/params.h"
#include "proto/tensors/lender.h"

#define SAFETENSORS_MAX_HEADER_BYTES ((size_t)1 << 20)

/* Bytes of the header, as a body says; 0 when it is too short to say. */
size_t safetensors_header_bytes(const char *body, size_t length);

/*
 * Read a request in the safetensors format: the parameters are tensors of their names (tensors.h), or texts
 * in __metadata__ as in a query.  What else is there is let be, unless it is nearly a parameter's name.
 *
 *   body    [length] bytes
 *   arena   empty; is given the room it needs and lends what out points at.  The caller frees it, after an
 *           error too
 *   lender  lends copies of arrays that do not lie aligned, halves of a bias as float32, and I64 ids as int32
 *   out     written on STATUS_OK; a view of body, arena and loans
 *
 * Stricter than some readers, as the format asks: offsets without holes or overlaps from 0 to the end, sizes
 * exact, no tensor twice, only spaces behind the header's object.
 * Errors: STATUS_INVALID (params.h, tensors.h, json_scan.h), malformed_safetensors, unsupported_dtype;
 * STATUS_TOO_LARGE for a header of more than SAFETENSORS_MAX_HEADER_BYTES; STATUS_NO_MEMORY; those of the
 * lender.  Thread-safe.
 * Source: https://github.com/huggingface/safetensors, "Format".
 */
enum status safetensors_decode(const char *body, size_t length, struct arena *arena, struct lender *lender,
                               uint64_t fresh_seed, struct sample_request *out, struct error *err);

#endif
