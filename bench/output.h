#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Measurements, one a line: as a JSON object, or as a row of a table whose heading is repeated where its
 * columns change.  Fields come in the order of the calls; names and texts need no escaping.
 */
struct output {
    bool json;
    size_t length, heading_length; /* of line and heading so far */
    char line[1024], heading[1024], last_heading[1024];
};

/* A width is what the column of a table takes; a NULL text and a NaN say that there is no such thing. */
void output_text(struct output *o, const char *name, int width, const char *value);
void output_count(struct output *o, const char *name, size_t value);
void output_number(struct output *o, const char *name, double value, int decimals);
void output_bool(struct output *o, const char *name, bool value);

/* Print the line, and begin the next. */
void output_end(struct output *o);

#endif
