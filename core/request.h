#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "core/rules/engines.h"
#include "core/rules/list.h"
#include "core/rules/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One 64-bit word for every row, or one a row: seed and offset. */
struct column_u64 {
    const uint64_t *values; /* [per_row ? batch_size : 1] */
    bool per_row;
};

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

/* Conventions that win over the engine's. */
enum top_k_ties { TOP_K_TIES_ENGINE, TOP_K_TIES_KEEP, TOP_K_TIES_LOWER_ID };
enum top_p_crossing { TOP_P_CROSSING_ENGINE, TOP_P_CROSSING_DROP, TOP_P_CROSSING_KEEP };

/* Rules in the order in which they run. */
struct chain {
    uint8_t rules[NUM_RULES]; /* [num_rules] enum rule_id */
    size_t num_rules;
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

    struct rule_value rule_values[NUM_SLOTS]; /* what the rules were given (rule.h), by enum rule_slot */
    enum engine engine;                       /* whose conventions hold */
    enum top_k_ties top_k_ties;
    enum top_p_crossing top_p_crossing;
    const uint8_t *order; /* [num_order] enum rule_id of the chain; NULL: the engine's */
    size_t num_order;
    struct chain chain; /* the rules that any row asks for, by chain_plan() (chain.h) */

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
    double *mirostat_mu;    /* [batch_size] for the next step; NULL where no row runs mirostat */
    double *adaptive_state; /* [batch_size, 2] for the next step; NULL where no row runs adaptive_p */
};

#endif
