#include "bench/timing.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MIN_ROUNDS 5
#define MAX_ROUNDS 99
#define ROUND_US   1000.0 /* thousands of times what reading the clock costs */
#define WARM_US    5000.0

static double clock_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double run_us(const struct timing_entry *entry, size_t repeats)
{
    clockid_t clock = entry->elsewhere ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
    double start = clock_us(clock);
    entry->run(entry->context, repeats);
    return (clock_us(clock) - start) / (double)repeats;
}

/* The first run pays for page faults and cold tables; then twice as many fill a round, until they do: a
 * pool's first repeat costs more than the next. */
static void calibrate(struct timing_entry *entry)
{
    double least_us = entry->round_us > 0 ? entry->round_us : ROUND_US;
    run_us(entry, 1);
    entry->repeats = 1;
    for (;; entry->repeats *= 2) {
        entry->median_us = run_us(entry, entry->repeats); /* roughly, so far */
        if (entry->median_us * (double)entry->repeats >= least_us)
            return;
    }
}

/* What ran before has taken the caches: a run that is not counted brings them back, unless it is so long that
 * it sees to that itself. */
static double round_us(const struct timing_entry *entry)
{
    if (entry->median_us < WARM_US)
        run_us(entry, 1);
    return run_us(entry, entry->repeats);
}

void timing_compare(struct timing_entry *entries, size_t n, double budget_ms)
{
    static double samples[TIMING_MAX_ENTRIES][MAX_ROUNDS];
    for (size_t i = 0; i < n; i++)
        calibrate(&entries[i]);

    size_t rounds = 0;
    double start = clock_us(CLOCK_MONOTONIC);
    for (;
         rounds < MIN_ROUNDS || (rounds < MAX_ROUNDS && clock_us(CLOCK_MONOTONIC) - start < 1e3 * budget_ms);
         rounds++)
        for (size_t i = 0; i < n; i++)
            samples[i][rounds] = round_us(&entries[i]);

    for (size_t i = 0; i < n; i++) {
        qsort(samples[i], rounds, sizeof samples[i][0], compare_doubles);
        entries[i].median_us = samples[i][rounds / 2];
    }
}

/* CPU seconds of all processes together. */
static double cpu_all(void)
{
    double user, nice, system, ticks = (double)sysconf(_SC_CLK_TCK);
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return NAN;
    int n =
        fscanf(file, "cpu %lf %lf %lf", &user, &nice, &system); /* NOLINT(cert-err34-c): the kernel's own */
    fclose(file);
    return n == 3 ? (user + nice + system) / ticks : NAN;
}

double timing_others(void)
{
    static double first_us, first_others;
    double others = cpu_all() - 1e-6 * clock_us(CLOCK_PROCESS_CPUTIME_ID), us = clock_us(CLOCK_MONOTONIC);
    if (first_us == 0) {
        first_us = us;
        first_others = others;
        return 0;
    }
    return (others - first_others) / (1e-6 * (us - first_us));
}

void timing_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "samplerd-bench: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(EXIT_FAILURE);
}

void *timing_alloc(size_t count, size_t size)
{
    size_t bytes = (count * size + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    if (memory == NULL)
        timing_fail("cannot allocate %zu bytes", bytes);
    return memory;
}
