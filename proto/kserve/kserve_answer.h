#ifndef PROTO_KSERVE_ANSWER_H
#define PROTO_KSERVE_ANSWER_H

#include "core/request.h"
#include "proto/kserve/kserve_memory.h"

/*
 * Answers of KServe v2 (kserve.h): a JSON header, and behind it the bytes of those outputs that were asked
 * for in binary, little-endian and row-major, in the order of the header.
 */

#define KSERVE_MODEL   "sampler"
#define KSERVE_VERSION "1"

/* What a request can ask for. */
enum kserve_output {
    KSERVE_TOKEN_IDS,      /* INT32 [B, n] */
    KSERVE_SEED,           /* UINT64 [1], or [B] where each row was sent its own */
    KSERVE_LOGPROBS,       /* FP32 [B, n] */
    KSERVE_TOP_TOKEN_IDS,  /* INT32 [B, top_candidates]; -1 behind the last */
    KSERVE_TOP_PROBS,      /* FP32 [B, top_candidates]; 0 behind the last */
    KSERVE_MIROSTAT_MU,    /* FP64 [B], where any row runs mirostat */
    KSERVE_ADAPTIVE_STATE, /* FP64 [B, 2], where any row runs adaptive_p */
    KSERVE_OUTPUTS         /* how many there are */
};

/* "token_ids", and the output of that name; KSERVE_OUTPUTS for any other. */
const char *kserve_output_name(enum kserve_output output);
enum kserve_output kserve_find_output(const char *name);

/* "INT32" */
const char *kserve_output_type(enum kserve_output output);

/* The outputs that a request asked for, in its order, and the shared memory that it uses. */
struct kserve_plan {
    enum kserve_output outputs[KSERVE_OUTPUTS]; /* [count] */
    bool binary[KSERVE_OUTPUTS];                /* [count] whether its bytes are part of the answer */
    struct kserve_pin shared[KSERVE_OUTPUTS];   /* [count] where else its bytes go, if anywhere */
    size_t count;
    struct kserve_pin logits; /* where they lie, if in shared memory */
};

/* Bytes of the values of an output. */
size_t kserve_output_bytes(const struct sample_request *request, enum kserve_output output);

/* Bytes that kserve_answer_encode() writes at most; SIZE_MAX when they cannot be counted. */
size_t kserve_answer_bound(const struct sample_request *request, const struct kserve_plan *plan);

/*
 * Write the answer, without a NUL; returns how many bytes it has.  Behind it are those of outputs that go to
 * shared memory; all of it is at most kserve_answer_bound() bytes.
 *
 *   header_length  bytes of the JSON; 0 when no output is binary and all of it is JSON
 */
size_t kserve_answer_encode(const struct sample_request *request, const struct sample_result *result,
                            const struct kserve_plan *plan, char *out, size_t *header_length);

/* Write the outputs that go to shared memory, from behind the answer.  Errors: as kserve_memory.write(). */
enum status kserve_answer_share(const struct sample_request *request, const struct kserve_plan *plan,
                                struct kserve_memory *memory, const char *data, struct error *err);

/* Write {"error":"message"} into out[size], size >= ENCODE_ERROR_BYTES, without a NUL; returns its length. */
size_t kserve_answer_error(const struct error *err, char *out, size_t size);

#endif
