#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* The words for them, in the order of the enums, NULL last. */
extern const char *const log_level_names[];
extern const char *const log_format_names[];

#define LOG_LINE_BYTES 2048 /* the longest line, newline included: below PIPE_BUF, so lines never mix */

/* One key=value of an event.  The text is borrowed for the call. */
struct log_field {
    const char *key; /* [a-z0-9_]+ */
    enum { LOG_FIELD_TEXT, LOG_FIELD_INT, LOG_FIELD_UINT, LOG_FIELD_REAL, LOG_FIELD_BOOL } kind;
    union {
        const char *text; /* any bytes; NULL is written as an empty text */
        int64_t integer;
        uint64_t whole;
        double real;
        bool truth;
    } value;
};

static inline struct log_field log_text(const char *key, const char *text)
{
    return (struct log_field){key, LOG_FIELD_TEXT, {.text = text}};
}

static inline struct log_field log_int(const char *key, int64_t integer)
{
    return (struct log_field){key, LOG_FIELD_INT, {.integer = integer}};
}

static inline struct log_field log_uint(const char *key, uint64_t whole)
{
    return (struct log_field){key, LOG_FIELD_UINT, {.whole = whole}};
}

static inline struct log_field log_real(const char *key, double real)
{
    return (struct log_field){key, LOG_FIELD_REAL, {.real = real}};
}

static inline struct log_field log_bool(const char *key, bool truth)
{
    return (struct log_field){key, LOG_FIELD_BOOL, {.truth = truth}};
}

/*
 * Set what is written and how; before the first thread starts.  Side effects, so that a log nobody
 * reads cannot hurt the program: SIGPIPE is ignored, and file descriptors 0 to 2 that are closed are
 * opened on /dev/null (else a client's connection could become "stderr").
 */
void log_init(enum log_format format, enum log_level least);

/* Change the least level, at any time.  Thread-safe. */
void log_set_level(enum log_level least);

/* Whether events of this level are written; for the caller whose fields are costly to gather. */
bool log_enabled(enum log_level level);

/*
 * Write one event as one line to stderr, in one write(2).
 *
 *   event   what happened, in a few words
 *   fields  [count] its particulars; those that do not fit in LOG_LINE_BYTES are left out and the line
 *           says truncated=true.  Bytes that are not UTF-8, and controls, are escaped.
 *
 * Never fails and never waits: a line that stderr cannot take at once is dropped, and the next one
 * that is written says how many (lost=N).  Thread-safe.
 */
void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t count);

/* The same with the fields, if any, in place: log_info("listening", log_text("address", text)). */
#define log_debug(event, ...) log_event(LOG_DEBUG, event, ##__VA_ARGS__)
#define log_info(event, ...)  log_event(LOG_INFO, event, ##__VA_ARGS__)
#define log_warn(event, ...)  log_event(LOG_WARN, event, ##__VA_ARGS__)
#define log_error(event, ...) log_event(LOG_ERROR, event, ##__VA_ARGS__)

/* The leading element, which is skipped, lets the list be empty. */
#define log_event(level, event, ...)                                                                         \
    log_write((level), (event), (const struct log_field[]){{0}, ##__VA_ARGS__} + 1,                          \
              sizeof((const struct log_field[]){{0}, ##__VA_ARGS__}) / sizeof(struct log_field) - 1)

/*
 * Format the line that log_write() would write at time_ms (milliseconds since 1970, UTC), without
 * the lost count; for tests.  Returns its length, newline included, NUL not.
 */
size_t log_line(char line[LOG_LINE_BYTES + 1], enum log_format format, int64_t time_ms, enum log_level level,
                const char *event, const struct log_field *fields, size_t count);

#endif
