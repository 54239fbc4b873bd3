#ifndef CORE_LIST_H
#define CORE_LIST_H

/*
 * Every rule with its parameters, a line each, in the order in which the reference runs them: masks and
 * biases, then penalties, then what reshapes and cuts.  history and prompt_tokens belong to no rule alone.
 */
/* clang-format off */
#define RULE_LIST(RULE, PARAM) \
    RULE(allowed_token_ids) PARAM(allowed_token_ids) \
    RULE(banned_token_ids) PARAM(banned_token_ids) \
    RULE(token_bitmask) PARAM(token_bitmask) \
    RULE(logit_bias) PARAM(logit_bias) \
    RULE(bad_words) PARAM(bad_words) \
    RULE(min_tokens) PARAM(min_tokens) PARAM(stop_token_ids) \
    RULE(history) PARAM(history) PARAM(prompt_tokens) PARAM(penalty_last_n) \
    RULE(repetition_penalty) PARAM(repetition_penalty) \
    RULE(frequency_penalty) PARAM(frequency_penalty) \
    RULE(presence_penalty) PARAM(presence_penalty) \
    RULE(dry) PARAM(dry_multiplier) PARAM(dry_base) PARAM(dry_allowed_length) PARAM(dry_last_n) \
        PARAM(dry_sequence_breakers) \
    RULE(no_repeat_ngram) PARAM(no_repeat_ngram_size) \
    RULE(top_n_sigma) PARAM(top_n_sigma) \
    RULE(temperature) PARAM(temperature) PARAM(dynatemp_range) PARAM(dynatemp_exponent) \
    RULE(smoothing) PARAM(smoothing_factor) PARAM(smoothing_curve) \
    RULE(top_k) PARAM(top_k) \
    RULE(top_p) PARAM(top_p) \
    RULE(min_p) PARAM(min_p) \
    RULE(typical_p) PARAM(typical_p) \
    RULE(top_a) PARAM(top_a) \
    RULE(tfs) PARAM(tfs) \
    RULE(epsilon_cutoff) PARAM(epsilon_cutoff) \
    RULE(eta_cutoff) PARAM(eta_cutoff) \
    RULE(top_h) PARAM(top_h) \
    RULE(p_less) PARAM(p_less) \
    RULE(xtc) PARAM(xtc_probability) PARAM(xtc_threshold) PARAM(xtc_protected_ids) \
    RULE(mirostat) PARAM(mirostat) PARAM(mirostat_tau) PARAM(mirostat_eta) PARAM(mirostat_mu) \
    RULE(adaptive_p) PARAM(adaptive_target) PARAM(adaptive_decay) PARAM(adaptive_state) \
    RULE(skew) PARAM(skew)
/* clang-format on */

#define LIST_NOTHING(name)
#define LIST_RULE(name) RULE_##name,
#define LIST_SLOT(name) SLOT_##name,

/* Where a rule stands in rules[] (rule.h), and in an order. */
enum rule_id { RULE_LIST(LIST_RULE, LIST_NOTHING) NUM_RULES };

/* Where the value of a parameter stands in the rule_values of a request. */
enum rule_slot { RULE_LIST(LIST_NOTHING, LIST_SLOT) NUM_SLOTS };

#endif
