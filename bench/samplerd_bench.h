#ifndef BENCH_SAMPLERD_BENCH_H
#define BENCH_SAMPLERD_BENCH_H

#include "bench/output.h"
#include "core/kernels/kernels.h"

/* What the command line asked for, and where measurements go. */
struct bench_options {
    const struct kernels *kernels;
    bool all_tables;  /* single rows with the other tables, too */
    double budget_ms; /* for each group of things that are compared */
    /* of core: measure these alone; NULL and 0 measure all */
    const char *only_case, *only_rows;
    size_t only_vocab_size;
    struct output output;
};

/* The subcommands; each prints as it measures, and ends the program when it cannot. */
void bench_core(struct bench_options *options);    /* every case, on every kind of row, against baselines */
void bench_rules(struct bench_options *options);   /* every rule, beside reading the row and temperature */
void bench_growth(struct bench_options *options);  /* against vocabulary, batch and workers */
void bench_numbers(struct bench_options *options); /* the reader of JSON numbers against others */

#endif
