#ifndef CORE_ENGINES_H
#define CORE_ENGINES_H

#include "core/rules/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whose conventions hold: the order of the rules, the defaults of what was not sent, ties and crossing
 * tokens. Source: the engines' own results in tests/data/engines.
 */
enum engine {
    ENGINE_REFERENCE,
    ENGINE_LLAMA_CPP,
    ENGINE_VLLM,
    ENGINE_TRANSFORMERS,
    ENGINE_SGLANG,
    NUM_ENGINES
};

extern const char *const engine_names[NUM_ENGINES + 1]; /* NULL-terminated */

/* What a share of 0 means, of top_p and typical_p. */
enum at_zero { ZERO_IS_OFF, ZERO_KEEPS_ONE, ZERO_IS_REFUSED };

/* A default that differs from the reference's. */
struct engine_default {
    enum rule_slot slot;
    double value;
};

struct engine_column {
    const uint8_t *order; /* [num_order] enum rule_id, masks not among them */
    size_t num_order;
    const uint8_t *mirostat_order; /* [num_mirostat_order] what runs in its place with mirostat; or NULL */
    size_t num_mirostat_order;
    const struct engine_default *defaults; /* [num_defaults] */
    size_t num_defaults;
    enum at_zero top_p_zero, typical_p_zero;
    bool top_k_lower_id;      /* of tokens that tie at top_k those of lower ids stay; else all do */
    bool top_p_keep;          /* the token that crosses top_p stays; else it goes */
    bool top_p_of_all;        /* top_p is of the mass before top_k; else of what is left */
    bool truncates_greedy;    /* a greedy row takes the largest of what the rules before temperature left */
    bool counts_prompt;       /* frequency_penalty and presence_penalty look at the prompt, too */
    bool repeats_generated;   /* repetition_penalty looks at generated ids only */
    bool words_in_generated;  /* bad_words look at generated ids only */
    bool bias_last;           /* logit_bias comes after the penalties */
    double bias_limit;        /* the largest size of a bias */
    double greedy_below;      /* a lower temperature is greedy */
    double least_temperature; /* a lower one that is not greedy becomes this */
};

extern const struct engine_column engine_columns[NUM_ENGINES];

#endif
