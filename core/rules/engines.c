#include "core/rules/engines.h"

#include <math.h>

const char *const engine_names[NUM_ENGINES + 1] = {
    [ENGINE_REFERENCE] = "reference",       [ENGINE_LLAMA_CPP] = "llama.cpp", [ENGINE_VLLM] = "vllm",
    [ENGINE_TRANSFORMERS] = "transformers", [ENGINE_SGLANG] = "sglang",       [NUM_ENGINES] = NULL,
};

static const uint8_t reference_order[] = {
    RULE_repetition_penalty,
    RULE_frequency_penalty,
    RULE_presence_penalty,
    RULE_dry,
    RULE_no_repeat_ngram,
    RULE_top_n_sigma,
    RULE_temperature,
    RULE_smoothing,
    RULE_top_k,
    RULE_top_p,
    RULE_min_p,
    RULE_typical_p,
    RULE_top_a,
    RULE_tfs,
    RULE_epsilon_cutoff,
    RULE_eta_cutoff,
    RULE_top_h,
    RULE_p_less,
    RULE_xtc,
    RULE_mirostat,
    RULE_adaptive_p,
    RULE_skew,
};

static const uint8_t llama_cpp_order[] = {
    RULE_repetition_penalty,
    RULE_frequency_penalty,
    RULE_presence_penalty,
    RULE_dry,
    RULE_top_n_sigma,
    RULE_top_k,
    RULE_typical_p,
    RULE_top_p,
    RULE_min_p,
    RULE_xtc,
    RULE_temperature,
    RULE_adaptive_p,
};
static const uint8_t llama_cpp_mirostat_order[] = {RULE_temperature, RULE_mirostat};
static const struct engine_default llama_cpp_defaults[] = {
    {SLOT_temperature, 0.8}, {SLOT_top_k, 40},          {SLOT_top_p, 0.95},
    {SLOT_min_p, 0.05},      {SLOT_penalty_last_n, 64}, {SLOT_dry_last_n, 64},
};

static const uint8_t vllm_order[] = {
    RULE_repetition_penalty,
    RULE_frequency_penalty,
    RULE_presence_penalty,
    RULE_temperature,
    RULE_min_p,
    RULE_top_k,
    RULE_top_p,
};
static const struct engine_default warm_defaults[] = {{SLOT_temperature, 1}};

static const uint8_t transformers_order[] = {
    RULE_repetition_penalty,
    RULE_no_repeat_ngram,
    RULE_temperature,
    RULE_top_h,
    RULE_top_k,
    RULE_top_p,
    RULE_min_p,
    RULE_typical_p,
    RULE_epsilon_cutoff,
    RULE_eta_cutoff,
};
static const struct engine_default transformers_defaults[] = {{SLOT_temperature, 1}, {SLOT_top_k, 50}};

static const uint8_t sglang_order[] = {
    RULE_frequency_penalty,
    RULE_presence_penalty,
    RULE_repetition_penalty,
    RULE_temperature,
    RULE_top_k,
    RULE_top_p,
    RULE_min_p,
};

#define LENGTH(array)   (sizeof(array) / sizeof((array)[0]))
#define ORDER(array)    .order = (array), .num_order = LENGTH(array)
#define DEFAULTS(array) .defaults = (array), .num_defaults = LENGTH(array)

const struct engine_column engine_columns[NUM_ENGINES] = {
    [ENGINE_REFERENCE] = {ORDER(reference_order), .bias_limit = INFINITY},
    [ENGINE_LLAMA_CPP] = {ORDER(llama_cpp_order), DEFAULTS(llama_cpp_defaults),
                          .mirostat_order = llama_cpp_mirostat_order,
                          .num_mirostat_order = LENGTH(llama_cpp_mirostat_order),
                          .top_p_zero = ZERO_KEEPS_ONE, .typical_p_zero = ZERO_KEEPS_ONE,
                          .top_k_lower_id = true, .top_p_keep = true, .truncates_greedy = true,
                          .counts_prompt = true, .bias_limit = INFINITY},
    [ENGINE_VLLM] = {ORDER(vllm_order), DEFAULTS(warm_defaults), .top_p_zero = ZERO_IS_REFUSED,
                     .top_p_keep = true, .words_in_generated = true, .bias_limit = 100, .greedy_below = 1e-5,
                     .least_temperature = 0.01},
    [ENGINE_TRANSFORMERS] = {ORDER(transformers_order), DEFAULTS(transformers_defaults),
                             .top_p_zero = ZERO_KEEPS_ONE, .typical_p_zero = ZERO_IS_REFUSED,
                             .top_p_keep = true, .bias_limit = INFINITY},
    [ENGINE_SGLANG] = {ORDER(sglang_order), DEFAULTS(warm_defaults), .top_p_zero = ZERO_IS_REFUSED,
                       .top_k_lower_id = true, .top_p_keep = true, .top_p_of_all = true,
                       .repeats_generated = true, .bias_last = true, .bias_limit = INFINITY},
};
