#ifndef PROTO_ENCODE_H
#define PROTO_ENCODE_H

#include "core/base/status.h"
#include "core/request.h"

/* Bytes that encode_answer() writes at most; SIZE_MAX when they cannot be counted. */
size_t encode_bound(const struct sample_request *request);

/*
 * Write the answer as JSON, at most encode_bound() bytes, without a NUL; returns how many.
 *
 * {"id":"...","token_ids":[[0]],"seed":7,"logprobs":[[-0.1]],"top_token_ids":[[0,1]],"top_probs":[[0.9,0.1]],
 * "top_logprobs":[[-0.1,-2.3]]}; what was not asked for is left out.  Reals have 9 significant digits, in any
 * locale.
 */
size_t encode_answer(const struct sample_request *request, const struct sample_result *result, char *out);

/*
 * The answer as token ids and nothing else: int32 [batch_size, n], little-endian, row-major.
 *
 * encode_ids_check() refuses a request that asked for more than ids: STATUS_INVALID conflicting_parameters.
 * encode_ids() writes encode_ids_bound() bytes, SIZE_MAX when they cannot be counted, and returns how many.
 */
enum status encode_ids_check(const struct sample_request *request, struct error *err);
size_t encode_ids_bound(const struct sample_request *request);
size_t encode_ids(const struct sample_request *request, const struct sample_result *result, char *out);

/*
 * Write an error as JSON into out[size], size >= ENCODE_ERROR_BYTES, without a NUL; returns its length.
 * Text that is not UTF-8 is replaced.
 */
#define ENCODE_ERROR_BYTES ((size_t)4096)
size_t encode_error(const struct error *err, char *out, size_t size);

#endif
