#ifndef CORE_DISTRIBUTION_H
#define CORE_DISTRIBUTION_H

#include "core/row/rank.h"
#include "core/row/support.h"

/*
 * Probabilities as the user reads them: of softmax(z / temperature) over a support, in float64 throughout.
 */
struct distribution {
    struct support *support;
    double rate;  /* 1 / temperature */
    double total; /* sum of exp((z - max) / temperature), >= 1 */
    double log_total;
};

size_t distribution_scratch_bytes(size_t n);

void distribution_init(struct distribution *report, struct support *support, double temperature,
                       const struct kernels *kernels);

/* ln of the probability of a token with logit z; -INFINITY for a masked one. */
double distribution_logprob(const struct distribution *report, float z);

/*
 * The likeliest tokens of non-zero probability, at most `most` of them, by falling probability, lower id
 * first on a tie: ids, probs and logprobs [most].  Returns how many.
 */
size_t distribution_candidates(const struct distribution *report, size_t most, const struct kernels *kernels,
                               struct arena *scratch, int32_t *ids, double *probs, double *logprobs);

#endif
