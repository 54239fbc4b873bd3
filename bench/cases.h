#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "core/request.h"

/* A way to sample that is measured, and what it may cost, in read passes over the same row. */
struct sampling_case {
    const char *name;
    double temperature, top_k, top_p;
    double real_bar; /* on real rows */
};

#define CASES 5
extern const struct sampling_case cases[CASES];

/* On any row: flat and one-hot ones, where no rule finds a natural end. */
#define CASES_WORST_BAR 250.0

/* One draw a row of these logits; views into logits, c, seed and offset. */
struct sample_request cases_request(const struct sampling_case *c, const float *logits, size_t batch_size,
                                    size_t vocab_size, const uint64_t *seed, const uint64_t *offset);

#endif
