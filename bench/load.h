#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench/cases.h"
#include "bench/timing.h"
#include "core/kernels/kernels.h"

/*
 * The same batch sampled again and again, each time at another offset.  One contestant is the thread that
 * measures; the others are pools whose queue never runs dry, as a busy server's: each batch that is done is
 * handed in again until there were enough.
 */
struct load_batch {
    const struct sampling_case *sampling;
    const float *logits; /* [batch_size, vocab_size], the caller's */
    size_t batch_size, vocab_size;
    unsigned bits; /* out: what reading it found */
};

struct load_direct;
struct load_pool;

struct load_direct *load_direct_create(const struct kernels *kernels);
void load_direct_destroy(struct load_direct *load);
struct timing_entry load_direct_entry(struct load_direct *load, const struct load_batch *batch);

/* The token of row 0 in the last run. */
int load_direct_token(const struct load_direct *load);

struct load_pool *load_pool_create(const struct kernels *kernels, size_t workers);
void load_pool_destroy(struct load_pool *load);
struct timing_entry load_pool_entry(struct load_pool *load, const struct load_batch *batch);

/* Reading the batch once, on the thread that measures. */
struct timing_entry load_read_entry(struct load_batch *batch);

#endif
