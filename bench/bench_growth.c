/* How the cost of a row grows with the vocabulary, with the batch, and with the workers. */
#include "bench/samplerd_bench.h"

#include "bench/load.h"
#include "bench/rows.h"
#include "core/base/cpus.h"

#include <stdlib.h>

#define VOCAB_SIZE 128256 /* where another size grows */
#define BATCH_SIZE 64     /* where workers grow */

static void put(struct bench_options *options, const char *axis, enum rows_kind rows,
                const struct load_batch *b, size_t workers, const struct timing_entry *read,
                const struct timing_entry *ours)
{
    struct output *o = &options->output;
    double batch_size = (double)b->batch_size, us = ours->median_us / batch_size,
           read_us = read->median_us / batch_size;
    output_text(o, "axis", 10, axis);
    output_text(o, "case", 17, b->sampling->name);
    output_text(o, "rows", 9, rows_name(rows));
    output_count(o, "vocab_size", b->vocab_size);
    output_count(o, "batch_size", b->batch_size);
    output_count(o, "workers", workers);
    output_text(o, "kernels", 7, options->kernels->name);
    output_number(o, "us_per_row", us, 3);
    output_number(o, "ns_per_token", 1e3 * us / (double)b->vocab_size, 4);
    output_number(o, "read_pass_us", read_us, 3);
    output_number(o, "ratio", us / read_us, 2);
    output_end(o);
}

/* One case at one size, on the measuring thread. */
static void measure_direct(struct bench_options *options, struct load_direct *direct, const char *axis,
                           enum rows_kind rows, struct load_batch *batch)
{
    struct timing_entry entries[] = {load_read_entry(batch), load_direct_entry(direct, batch)};
    timing_compare(entries, 2, options->budget_ms);
    put(options, axis, rows, batch, 0, &entries[0], &entries[1]);
}

static void grow_vocabulary(struct bench_options *options, struct load_direct *direct, enum rows_kind rows,
                            const struct sampling_case *sampling)
{
    for (size_t vocab_size = 1024; vocab_size <= 1u << 20; vocab_size *= 2) {
        float *logits = rows_make(rows, 1, vocab_size);
        struct load_batch batch = {
            .sampling = sampling, .logits = logits, .batch_size = 1, .vocab_size = vocab_size};
        measure_direct(options, direct, "vocab_size", rows, &batch);
        free(logits);
    }
}

static void grow_batch(struct bench_options *options, struct load_direct *direct,
                       const struct sampling_case *sampling)
{
    float *logits = rows_make(ROWS_REAL, 256, VOCAB_SIZE);
    for (size_t batch_size = 1; batch_size <= 256; batch_size *= 2) {
        struct load_batch batch = {
            .sampling = sampling, .logits = logits, .batch_size = batch_size, .vocab_size = VOCAB_SIZE};
        measure_direct(options, direct, "batch_size", ROWS_REAL, &batch);
    }
    free(logits);
}

/* All pools in one comparison, since they are compared with each other. */
static void grow_workers(struct bench_options *options, const struct sampling_case *sampling)
{
    struct timing_entry entries[TIMING_MAX_ENTRIES];
    struct load_pool *pools[TIMING_MAX_ENTRIES];
    size_t most = 2 * cpus_usable();
    if (most > TIMING_MAX_ENTRIES - 1)
        most = TIMING_MAX_ENTRIES - 1;
    float *logits = rows_make(ROWS_REAL, BATCH_SIZE, VOCAB_SIZE);
    struct load_batch batch = {
        .sampling = sampling, .logits = logits, .batch_size = BATCH_SIZE, .vocab_size = VOCAB_SIZE};
    entries[0] = load_read_entry(&batch);
    for (size_t workers = 1; workers <= most; workers++) {
        pools[workers] = load_pool_create(options->kernels, workers);
        entries[workers] = load_pool_entry(pools[workers], &batch);
    }
    timing_compare(entries, most + 1, options->budget_ms);
    for (size_t workers = 1; workers <= most; workers++) {
        put(options, "workers", ROWS_REAL, &batch, workers, &entries[0], &entries[workers]);
        load_pool_destroy(pools[workers]);
    }
    free(logits);
}

void bench_growth(struct bench_options *options)
{
    struct load_direct *direct = load_direct_create(options->kernels);
    for (size_t i = 0; i < CASES; i++) {
        grow_vocabulary(options, direct, ROWS_CAPITAL, &cases[i]);
        grow_vocabulary(options, direct, ROWS_NEAR_FLAT, &cases[i]);
        grow_batch(options, direct, &cases[i]);
        grow_workers(options, &cases[i]);
    }
    load_direct_destroy(direct);
}
