#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "core/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * What the server counts, as Prometheus reads it (text format 0.0.4).
 *
 * One table says each metric's name, type, unit, labels, buckets and meaning; recording, the exposition and
 * the README's table come from it.  Every label has a fixed list of values, so nothing that a client sends
 * can make a series.  Recording is a few relaxed atomic additions in memory that threads rarely share: no
 * lock, no allocation.
 */
struct metrics;

enum metric {
    /* recorded */
    METRIC_HTTP_REQUESTS,
    METRIC_HTTP_REQUEST_DURATION,
    METRIC_HTTP_REQUEST_BODY,
    METRIC_HTTP_RESPONSE_BODY,
    METRIC_STAGE_DURATION,
    METRIC_ROWS,
    METRIC_RULE_ROWS,
    METRIC_BATCH_ROWS,
    METRIC_TOKENS,
    METRIC_REJECTIONS,
    METRIC_CONNECTIONS_REFUSED,
    METRIC_TLS_FAILURES,
    /* read when they are asked for */
    METRIC_IN_FLIGHT,
    METRIC_CONNECTIONS,
    METRIC_CONNECTIONS_LIMIT,
    METRIC_QUEUE,
    METRIC_QUEUE_LIMIT,
    METRIC_BUFFERS,
    METRIC_BUFFERS_LIMIT,
    METRIC_REGIONS,
    METRIC_REGIONS_LIMIT,
    METRIC_BUILD_INFO,
    METRIC_PROCESS_CPU,
    METRIC_PROCESS_MEMORY,
    METRIC_PROCESS_OPEN_FDS,
    METRIC_PROCESS_MAX_FDS,
    METRIC_PROCESS_START,
    METRIC_PROCESS_THREADS,
    NUM_METRICS
};
#define METRICS_FIRST_READ METRIC_IN_FLIGHT

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* What is recorded; nanoseconds are shown as seconds. */
enum metric_unit { METRIC_PLAIN, METRIC_NANOSECONDS };

enum metric_label {
    LABEL_NONE,
    LABEL_ROUTE,
    LABEL_METHOD,
    LABEL_CODE,
    LABEL_STAGE, /* in the order of enum stage */
    LABEL_MEDIA,
    LABEL_DTYPE,      /* in the order of enum dtype */
    LABEL_RULE,       /* in the order of enum rule_id */
    LABEL_REASON,     /* the code of an error's answer */
    LABEL_TLS_REASON, /* why a handshake failed */
    LABEL_LIMIT,      /* what a connection was refused for */
    LABEL_VERSION,
    LABEL_KERNELS,
    LABEL_COMPILER,
    NUM_LABELS
};
#define METRICS_MAX_LABELS 3

struct metric_family {
    const char *name;
    enum metric_type type;
    enum metric_unit unit;
    enum metric_label labels[METRICS_MAX_LABELS]; /* LABEL_NONE behind the last */
    bool sparse;            /* only series that were recorded are shown: most combinations never come */
    const uint64_t *bounds; /* of a histogram: [num_bounds] ascending, inclusive, in its unit */
    size_t num_bounds;
    const char *help;
};

extern const struct metric_family metrics_table[NUM_METRICS];

#define METRICS_MAX_ROUTES 32

/*
 * Start counting from nothing.
 *
 *   route_at  value of the label route at a place, NULL behind the last; METRICS_MAX_ROUTES are taken at
 * most, and "other" is added behind them kernels   name of the instruction set in use
 *
 * What they return outlives the metrics.  Errors: STATUS_NO_MEMORY.
 */
enum status metrics_create(const char *(*route_at)(size_t place), const char *kernels, struct metrics **out,
                           struct error *err);
void metrics_destroy(struct metrics *metrics);

/* The place of a value in its label's list; of an unknown one, the last, which is "other". */
size_t metrics_label(enum metric_label label, const char *value);

/* The same of an HTTP code; 0, when nothing was answered, is "none". */
size_t metrics_code(unsigned code);

/* A label's name as the exposition has it. */
const char *metrics_label_name(enum metric_label label);

/* A label's value by its place, and how many it has. */
const char *metrics_label_value(const struct metrics *metrics, enum metric_label label, size_t place);
size_t metrics_num_values(const struct metrics *metrics, enum metric_label label);

/* A series by the places of its labels' values, in the order of the table; 0 for labels it has not. */
size_t metrics_series(const struct metrics *metrics, enum metric metric, size_t first, size_t second,
                      size_t third);

/* Count, in a METRIC_COUNTER.  Thread-safe, wait-free. */
void metrics_add(struct metrics *metrics, enum metric metric, size_t series, uint64_t amount);

/* Count a value, in a METRIC_HISTOGRAM.  Thread-safe, wait-free. */
void metrics_observe(struct metrics *metrics, enum metric metric, size_t series, uint64_t value);

/* Series that a metric has, recorded or not. */
size_t metrics_num_series(const struct metrics *metrics, enum metric metric);

/*
 * One number of a series: a counter's only one is 0; a histogram's are its buckets, not cumulated, the one
 * above every bound at num_bounds, and its sum at num_bounds + 1.  Thread-safe; what is recorded meanwhile
 * may be in it or not.
 */
uint64_t metrics_value(const struct metrics *metrics, enum metric metric, size_t series, size_t which);

/* When metrics_create() was called, in nanoseconds since 1970. */
uint64_t metrics_started(const struct metrics *metrics);

#endif
