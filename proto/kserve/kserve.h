#ifndef PROTO_KSERVE_H
#define PROTO_KSERVE_H

#include "proto/kserve/kserve_answer.h"
#include "proto/params/params.h"
#include "proto/tensors/lender.h"

/* Of a request without Inference-Header-Content-Length: all of it is JSON. */
#define KSERVE_ALL_JSON SIZE_MAX

/* A body, and what else is needed to read it. */
struct kserve_body {
    const char *bytes; /* [length], and NUMBERS_PADDING more may be looked at */
    size_t length;
    size_t header_length;         /* bytes of the JSON, or KSERVE_ALL_JSON */
    struct kserve_memory *memory; /* NULL: inputs in shared memory are refused */
};

/*
 * Read an infer request of KServe v2 (Open Inference Protocol), with Triton's binary tensor data extension:
 * JSON, and behind it the bytes of those inputs that have no `data`, in their order.
 *
 *   arena    empty; is given the room it needs and lends what out points at.  The caller frees it, after an
 *            error too
 *   lender   lends FP32 data of the JSON, copies of inputs in shared memory other than logits and of arrays
 *            that do not lie aligned, and INT64 ids as int32
 *   out      written on STATUS_OK; a view of body, arena, loans and, of the logits alone, shared memory
 *   plan     what to answer: what was asked for or, without `outputs`, token_ids, seed and whatever the
 *            parameters imply.  To be given to kserve_unpin(), after an error too
 *
 * Inputs are parameters of the table by their names (tensors.h); a parameter of one value can also stand in
 * the request's `parameters`.  Those of Triton that schedule or name a sequence mean nothing here and are
 * left alone.  Of data in JSON only the order counts, the shape is that of `shape`; null masks a token.
 * Errors: STATUS_INVALID (params.h, tensors.h, json_scan.h, kserve_values.h), malformed_kserve,
 * unsupported_dtype; STATUS_TOO_LARGE; STATUS_NO_MEMORY; those of the lender.  Thread-safe.
 * Source: https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol and
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
 */
enum status kserve_decode(const struct kserve_body *body, struct arena *arena, struct lender *lender,
                          uint64_t fresh_seed, struct sample_request *out, struct kserve_plan *plan,
                          struct error *err);

/* Whether the logits that were sampled were the client's.  Errors: as kserve_memory.check(). */
enum status kserve_check_logits(const struct kserve_plan *plan, struct kserve_memory *memory,
                                struct error *err);

/* Let go of the shared memory that the logits are in and that outputs would go to. */
void kserve_unpin(struct kserve_plan *plan, struct kserve_memory *memory);

#endif
