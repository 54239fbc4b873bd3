#ifndef SERVER_EXPOSITION_H
#define SERVER_EXPOSITION_H

#include "server/observe/metrics.h"

/*
 * Metrics as text: for Prometheus, and for the README.
 * Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4)
 */
#define EXPOSITION_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

#define EXPOSITION_UNKNOWN UINT64_MAX

/*
 * Write the exposition.
 *
 *   readings  [NUM_METRICS], those from METRICS_FIRST_READ on, in their units; EXPOSITION_UNKNOWN leaves one
 *             out.
 *
 * Thread-safe; what is recorded meanwhile may be counted or not, but a histogram agrees with itself.
 */
void exposition_write(const struct metrics *metrics, const uint64_t readings[NUM_METRICS], FILE *out);

/* The table as Markdown: name, type, labels, meaning. */
void exposition_print_table(FILE *out);

#endif
