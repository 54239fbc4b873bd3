#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include "bench/cases.h"
#include "bench/timing.h"

/*
 * The same row sampled by the same rules, as one would write it first.  Batches of one row.
 *
 *   blas  isamax, saxpy, sscal and sasum, a loop of libm's expf
 *   sort  plain loops in their place
 *
 * Both sort the whole row by qsort where a rule cuts it, and only there.
 */
struct baseline_token {
    float z;
    int32_t id;
};

struct baseline {
    const struct sampling_case *sampling;
    const float *logits; /* [vocab_size] */
    size_t vocab_size;
    float *work;                   /* [vocab_size] */
    struct baseline_token *sorted; /* [vocab_size] */
    int32_t token_id;              /* out: of the last run */
};

/* The caller keeps logits until baseline_fini(). */
void baseline_init(struct baseline *b, const struct sampling_case *sampling, const float *logits,
                   size_t vocab_size);
void baseline_fini(struct baseline *b);

/* Whether there is a rule to sort for. */
bool baseline_cuts(const struct baseline *b);

struct timing_entry baseline_blas_entry(struct baseline *b);
struct timing_entry baseline_sort_entry(struct baseline *b);

/* u of repeat i, the sampler's at the same offset. */
double baseline_uniform(size_t repeat);

/* b->sorted = the row by falling logit, lower id first on a tie. */
void baseline_sort_row(struct baseline *b);

/* Tokens of b->sorted that top_k leaves, ties at the cutoff included. */
size_t baseline_top_k(const struct baseline *b);

/* Of b->sorted[n] with weights w[n] in that order, how many top_p leaves. */
size_t baseline_top_p(const struct baseline *b, const float *w, size_t n, double total);

/* Where a running sum of w[n] passes u * total. */
size_t baseline_draw(const float *w, size_t n, double target);

#endif
