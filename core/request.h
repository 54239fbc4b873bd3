#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A numeric parameter: one value for every row, or one value a row.
 */
struct column {
    const double *values; /* [per_row ? batch_size : 1] */
    bool per_row;
};

/* The same for 64-bit words: seed and offset. */
struct column_u64 {
    const uint64_t *values; /* [per_row ? batch_size : 1] */
    bool per_row;
};

static inline double column_at(const struct column *c, size_t row)
{
    return c->values[c->per_row ? row : 0];
}

static inline uint64_t column_u64_at(const struct column_u64 *c, size_t row)
{
    return c->values[c->per_row ? row : 0];
}

/* What the numbers of raw logits are. */
enum dtype {
    DTYPE_F32,
    DTYPE_F16,  /* IEEE 754 binary16 */
    DTYPE_BF16, /* the upper half of a float32 */
    DTYPE_F64
};

static inline size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? 8 : dtype == DTYPE_F32 ? 4 : 2;
}

enum logprobs_mode {
    LOGPROBS_PROCESSED, /* of the distribution drawn from */
    LOGPROBS_RAW        /* of softmax(z), before any rule */
};

/*
 * What to sample.  Every pointer is a view into memory of the request, which outlives it; values are
 * finite and in range once a decoder of proto/ has returned STATUS_OK.
 */
struct sample_request {
    const void *logits; /* [num_stacks, batch_size, vocab_size] row-major; -INFINITY masks a token */
    enum dtype dtype;   /* of logits, which are made float32: from 16 bits exactly, from 64 to the nearest */

    /* another process may write to them at any time: the sampler reads each once, into its own memory */
    bool logits_are_shared;

    size_t num_stacks; /* 1 unless mix is given */
    size_t batch_size;
    size_t vocab_size;

    /*
     * [batch_size, vocab_size] the tokens that the logits are of, in any order, each once in a row; NULL when
     * they are 0 .. vocab_size - 1
     */
    const int32_t *candidate_ids;

    const float *mix;  /* [num_stacks] weights of the stacks, or NULL */
    const float *bias; /* [bias_rows, vocab_size] added to the logits, or NULL */
    size_t bias_rows;  /* 0, 1 (for all rows) or batch_size */

    struct column temperature; /* <= 0 means greedy */
    struct column top_k;       /* a whole number; <= 0 keeps all */
    struct column top_p;       /* 0 and 1 keep all */

    struct column_u64 seed;
    struct column_u64 offset;

    uint32_t n;              /* independent draws per row, >= 1 */
    uint32_t top_candidates; /* how many to report per row */
    bool logprobs;
    enum logprobs_mode logprobs_mode;

    const char *id; /* NUL-terminated UTF-8 to echo, or NULL */
};

/*
 * What was sampled; made by sampler_result_init().
 * max_candidates = min(top_candidates, vocab_size).
 */
struct sample_result {
    int32_t *token_ids;       /* [batch_size, n] in [0, vocab_size), or of candidate_ids */
    double *logprobs;         /* [batch_size, n] nats; NULL unless asked for */
    uint32_t *num_candidates; /* [batch_size] how many of max_candidates follow */
    int32_t *top_token_ids; /* [batch_size, max_candidates] by falling probability, lower id first on a tie */
    double *top_probs;      /* [batch_size, max_candidates] */
    double *top_logprobs;   /* [batch_size, max_candidates] nats */
    size_t max_candidates;
};

#endif
