/*
 * The sampler on one batch at a time: on the measuring thread, through a pool of one worker and of two, and
 * for single rows with every table of kernels and beside the baselines; each as microseconds a row and as a
 * ratio to reading the row.
 */
#include "bench/samplerd_bench.h"

#include "bench/baseline.h"
#include "bench/load.h"
#include "bench/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECT 0 /* "workers": no pool at all */

#define SCALING_BATCH 64
#define SCALING_BAR   1.8 /* two workers to one */

static const size_t VOCAB_SIZES[] = {32000, 128256, 262144};
static const size_t BATCH_SIZES[] = {1, 8, 64};
#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* What is kept from batch to batch. */
struct bench {
    struct bench_options *options;
    struct load_direct *direct;
    struct load_pool *one, *two;
};

/* One batch's timings, in microseconds a row. */
struct group {
    struct load_batch batch;
    enum rows_kind rows;
    double read_us;
};

static void put_measured(struct bench *bench, const struct group *g, size_t workers, const char *kernels,
                         double us, double speedup)
{
    struct output *o = &bench->options->output;
    output_text(o, "case", 17, g->batch.sampling->name);
    output_text(o, "rows", 9, rows_name(g->rows));
    output_count(o, "vocab_size", g->batch.vocab_size);
    output_count(o, "batch_size", g->batch.batch_size);
    output_count(o, "workers", workers);
    output_text(o, "kernels", 7, kernels);
    output_number(o, "us_per_row", us, 3);
    output_number(o, "read_pass_us", g->read_us, 3);
    output_number(o, "ratio", us / g->read_us, 2);
    output_number(o, "speedup", speedup, 2);
}

static void put_bar(struct bench *bench, const char *what, double bar, bool holds)
{
    char text[32];
    snprintf(text, sizeof text, "%s %g", what, bar);
    output_text(&bench->options->output, "bar", 14, text);
    output_bool(&bench->options->output, "holds", holds);
    output_end(&bench->options->output);
}

/* No bar; in a table the line just ends. */
static void put_no_bar(struct bench *bench)
{
    output_text(&bench->options->output, "bar", 14, NULL);
    output_text(&bench->options->output, "holds", 5, NULL);
    output_end(&bench->options->output);
}

static void put_direct(struct bench *bench, const struct group *g, const char *kernels, double us)
{
    put_measured(bench, g, DIRECT, kernels, us, NAN);
    double bar = g->rows < ROWS_FLAT ? g->batch.sampling->real_bar : CASES_WORST_BAR;
    if (g->batch.batch_size == 1 && strcmp(kernels, "generic") != 0)
        put_bar(bench, "ratio <=", bar, us / g->read_us <= bar);
    else
        put_no_bar(bench);
}

static void put_pools(struct bench *bench, const struct group *g, double one_us, double two_us)
{
    put_measured(bench, g, 1, bench->options->kernels->name, one_us, 1);
    put_no_bar(bench);
    double speedup = one_us / two_us;
    put_measured(bench, g, 2, bench->options->kernels->name, two_us, speedup);
    if (g->batch.batch_size == SCALING_BATCH)
        put_bar(bench, "speedup >=", SCALING_BAR, speedup >= SCALING_BAR);
    else
        put_no_bar(bench);
}

static void put_baseline(struct bench *bench, const struct group *g, const char *name, double us)
{
    put_measured(bench, g, DIRECT, name, us, NAN);
    put_no_bar(bench);
}

/* All must agree where there is one right answer. */
static void check_greedy(const struct group *g, int ours, const struct baseline *blas,
                         const struct baseline *sort)
{
    if (g->batch.sampling->temperature <= 0 && (ours != blas->token_id || ours != sort->token_id))
        timing_fail("greedy on %s rows of %zu: %d, by BLAS %d, by sorting %d", rows_name(g->rows),
                    g->batch.vocab_size, ours, blas->token_id, sort->token_id);
}

static void measure(struct bench *bench, struct group *g)
{
    enum { READ, OURS, ONE, TWO };
    struct timing_entry entries[] = {
        [READ] = load_read_entry(&g->batch),
        [OURS] = load_direct_entry(bench->direct, &g->batch),
        [ONE] = load_pool_entry(bench->one, &g->batch),
        [TWO] = load_pool_entry(bench->two, &g->batch),
    };
    timing_compare(entries, LENGTH(entries), bench->options->budget_ms);
    double rows = (double)g->batch.batch_size;
    g->read_us = entries[READ].median_us / rows;
    put_direct(bench, g, bench->options->kernels->name, entries[OURS].median_us / rows);
    put_pools(bench, g, entries[ONE].median_us / rows, entries[TWO].median_us / rows);
}

/* The tables of kernels that other CPUs would use. */
static void measure_other_tables(struct bench *bench, struct group *g)
{
    enum { READ, OURS };
    const char *why;
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        if (*t == bench->options->kernels || kernels_select((*t)->name, &why) == NULL)
            continue;
        struct load_direct *direct = load_direct_create(*t);
        struct timing_entry entries[] = {
            [READ] = load_read_entry(&g->batch),
            [OURS] = load_direct_entry(direct, &g->batch),
        };
        timing_compare(entries, LENGTH(entries), bench->options->budget_ms);
        g->read_us = entries[READ].median_us;
        put_direct(bench, g, (*t)->name, entries[OURS].median_us);
        load_direct_destroy(direct);
    }
}

static void measure_baselines(struct bench *bench, struct group *g)
{
    enum { READ, OURS, BLAS, SORT };
    struct baseline blas, sort;
    baseline_init(&blas, g->batch.sampling, g->batch.logits, g->batch.vocab_size);
    baseline_init(&sort, g->batch.sampling, g->batch.logits, g->batch.vocab_size);
    struct timing_entry entries[] = {
        [READ] = load_read_entry(&g->batch),
        [OURS] = load_direct_entry(bench->direct, &g->batch),
        [BLAS] = baseline_blas_entry(&blas),
        [SORT] = baseline_sort_entry(&sort),
    };
    timing_compare(entries, LENGTH(entries), bench->options->budget_ms);
    check_greedy(g, load_direct_token(bench->direct), &blas, &sort);
    g->read_us = entries[READ].median_us;
    put_baseline(bench, g, "blas", entries[BLAS].median_us);
    put_baseline(bench, g, "sort", entries[SORT].median_us);
    baseline_fini(&blas);
    baseline_fini(&sort);
}

static bool wanted(const char *only, const char *name)
{
    return only == NULL || strcmp(only, name) == 0;
}

/* A batch of several mixes the real rows; single rows are measured one by one. */
static bool worth_it(enum rows_kind rows, size_t batch_size)
{
    if (rows == ROWS_REAL)
        return batch_size > 1;
    return rows > ROWS_REAL || batch_size == 1;
}

static void measure_cases(struct bench *bench, enum rows_kind rows, size_t vocab_size, size_t batch_size)
{
    float *logits = rows_make(rows, batch_size, vocab_size);
    for (size_t i = 0; i < CASES; i++) {
        if (!wanted(bench->options->only_case, cases[i].name))
            continue;
        struct load_batch batch = {
            .sampling = &cases[i], .logits = logits, .batch_size = batch_size, .vocab_size = vocab_size};
        struct group g = {.batch = batch, .rows = rows};
        measure(bench, &g);
        if (batch_size == 1 && bench->options->all_tables)
            measure_other_tables(bench, &g);
        if (batch_size == 1)
            measure_baselines(bench, &g);
    }
    free(logits);
}

static void measure_vocabulary(struct bench *bench, size_t vocab_size)
{
    for (size_t b = 0; b < LENGTH(BATCH_SIZES); b++)
        for (enum rows_kind rows = 0; rows < ROWS_KINDS; rows++)
            if (worth_it(rows, BATCH_SIZES[b]) && wanted(bench->options->only_rows, rows_name(rows)))
                measure_cases(bench, rows, vocab_size, BATCH_SIZES[b]);
}

void bench_core(struct bench_options *options)
{
    struct bench bench = {
        .options = options,
        .direct = load_direct_create(options->kernels),
        .one = load_pool_create(options->kernels, 1),
        .two = load_pool_create(options->kernels, 2),
    };
    if (options->only_vocab_size > 0)
        measure_vocabulary(&bench, options->only_vocab_size);
    for (size_t v = 0; options->only_vocab_size == 0 && v < LENGTH(VOCAB_SIZES); v++)
        measure_vocabulary(&bench, VOCAB_SIZES[v]);
    load_pool_destroy(bench.one);
    load_pool_destroy(bench.two);
    load_direct_destroy(bench.direct);
}
