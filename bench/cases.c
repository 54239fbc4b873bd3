#include "bench/cases.h"

const struct sampling_case cases[CASES] = {
    {"greedy", 0, 0, 1, 1.6},       {"temperature", 0.8, 0, 1, 13},
    {"top_k_40", 0.8, 40, 1, 5},    {"top_k_40_top_p_95", 0.8, 40, 0.95, 6},
    {"top_p_95", 0.8, 0, 0.95, 18},
};

struct sample_request cases_request(const struct sampling_case *c, const float *logits, size_t batch_size,
                                    size_t vocab_size, const uint64_t *seed, const uint64_t *offset)
{
    return (struct sample_request){
        .logits = logits,
        .num_stacks = 1,
        .batch_size = batch_size,
        .vocab_size = vocab_size,
        .temperature = {&c->temperature, false},
        .top_k = {&c->top_k, false},
        .top_p = {&c->top_p, false},
        .seed = {seed, false},
        .offset = {offset, false},
        .n = 1,
    };
}
