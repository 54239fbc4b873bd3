#include "bench/cases.h"

#include "core/rules/chain.h"

#include <stdlib.h>

const struct sampling_case cases[CASES] = {
    {"greedy", 0, 0, 1, 1.6},       {"temperature", 0.8, 0, 1, 13},
    {"top_k_40", 0.8, 40, 1, 5},    {"top_k_40_top_p_95", 0.8, 40, 0.95, 6},
    {"top_p_95", 0.8, 0, 0.95, 18},
};

struct sample_request cases_request(const struct sampling_case *c, const float *logits, size_t batch_size,
                                    size_t vocab_size, const uint64_t *seed, const uint64_t *offset)
{
    struct sample_request request = {
        .logits = logits,
        .num_stacks = 1,
        .batch_size = batch_size,
        .vocab_size = vocab_size,
        .rule_values = {[SLOT_temperature] = RULE_NUMBER(&c->temperature),
                        [SLOT_top_k] = RULE_NUMBER(&c->top_k),
                        [SLOT_top_p] = RULE_NUMBER(&c->top_p)},
        .seed = {seed, false},
        .offset = {offset, false},
        .n = 1,
    };
    struct error err;
    if (chain_plan(&request, &err) != STATUS_OK)
        abort();
    return request;
}
