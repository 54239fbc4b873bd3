#ifndef CORE_REPORT_H
#define CORE_REPORT_H

#include "core/rank.h"
#include "core/support.h"

/*
 * Probabilities as the user reads them: of softmax(z / temperature) over a support, in float64 throughout.
 */
struct report {
    struct support *support;
    double rate;  /* 1 / temperature */
    double total; /* sum of exp((z - max) / temperature), >= 1 */
    double log_total;
};

size_t report_scratch_bytes(size_t n);

void report_init(struct report *report, struct support *support, double temperature,
                 const struct kernels *kernels);

/* ln of the probability of a token with logit z; -INFINITY for a masked one. */
double report_logprob(const struct report *report, float z);

/*
 * The likeliest tokens of non-zero probability, at most `most` of them, by falling probability, lower id
 * first on a tie: ids, probs and logprobs [most].  Returns how many.
 */
size_t report_candidates(const struct report *report, size_t most, const struct kernels *kernels,
                         struct arena *scratch, int32_t *ids, double *probs, double *logprobs);

#endif
