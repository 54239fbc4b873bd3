#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Timings that may be compared: everything in one table is run in turn, round after round, so that a slower
 * spell of the machine meets all of it alike, and each is judged by its median round.  CPU time, where it can
 * be had, leaves out what other processes take away.
 */
struct timing_entry {
    void (*run)(void *context, size_t repeats); /* do the same thing `repeats` times, >= 1 */
    void *context;
    bool elsewhere;   /* on other threads: timed by the wall's clock, not by the calling thread's CPU time */
    double round_us;  /* least length of a round; 0: a millisecond */
    double median_us; /* out: of one repeat */
    size_t repeats;   /* out: in one round, a power of two */
};

#define TIMING_MAX_ENTRIES 16

/*
 * Time entries [n], n <= TIMING_MAX_ENTRIES, for about budget_ms, at least 5 rounds and at most 99.  The
 * first run of each is not counted.
 */
void timing_compare(struct timing_entry *entries, size_t n, double budget_ms);

/*
 * CPUs that other processes have kept busy on average since the first call, which returns 0; NaN where the
 * system does not say.  A share of one CPU is enough to spoil a comparison of one worker with two.
 */
double timing_others(void);

/* End the program: the benchmark itself failed. */
void timing_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* malloc of count * size bytes, aligned to a cache line, or timing_fail(). */
void *timing_alloc(size_t count, size_t size);

#endif
