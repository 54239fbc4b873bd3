#include "server/observe/log.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const log_level_names[] = {"debug", "info", "warn", "error", NULL};
const char *const log_format_names[] = {"text", "json", NULL};

#define TAIL_BYTES 32 /* kept free for ",\"truncated\":true}\n" */

static enum log_format log_format_in_force = LOG_TEXT;
static atomic_int least_level = LOG_INFO;
static atomic_uint lost_lines;

/* A line under construction.  Once full, nothing more is added. */
struct line {
    char *bytes;
    size_t length, capacity;
    enum log_format format;
    bool full;
};

static void add(struct line *line, const char *bytes, size_t length)
{
    if (line->full || length > line->capacity - line->length) {
        line->full = true;
        return;
    }
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
}

static void add_text(struct line *line, const char *text)
{
    add(line, text, strlen(text));
}

/* Length of the UTF-8 sequence at s (RFC 3629: shortest form, no surrogates), 0 if there is none. */
static size_t utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    size_t length = s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80) /* a NUL ends the scan here too */
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

/* One character that may not stand for itself: a control, a quote, a backslash or a stray byte. */
static void add_escaped(struct line *line, unsigned char byte)
{
    char escape[8];
    if (byte == '"' || byte == '\\')
        snprintf(escape, sizeof escape, "\\%c", byte);
    else if (line->format == LOG_TEXT)
        snprintf(escape, sizeof escape, "\\x%02x", byte);
    else if (byte >= 0x80)
        snprintf(escape, sizeof escape, "\\ufffd"); /* JSON has no way to write a lone byte */
    else
        snprintf(escape, sizeof escape, "\\u%04x", byte);
    add_text(line, escape);
}

static void add_quoted(struct line *line, const char *text)
{
    add_text(line, "\"");
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        size_t length = utf8_length(s);
        if (length == 0 || *s < 0x20 || *s == 0x7F || *s == '"' || *s == '\\')
            add_escaped(line, *s++);
        else {
            add(line, (const char *)s, length);
            s += length;
        }
    }
    add_text(line, "\"");
}

/* In text form a value of plain characters needs no quotes. */
static bool is_plain(const char *text)
{
    for (const char *s = text; *s != '\0'; s++)
        if (*s <= ' ' || *s >= 0x7F || strchr("\"\\=", *s) != NULL)
            return false;
    return *text != '\0';
}

static void add_string(struct line *line, const char *text)
{
    if (line->format == LOG_TEXT && is_plain(text))
        add_text(line, text);
    else
        add_quoted(line, text);
}

static void add_real(struct line *line, double real)
{
    char number[32];
    if (!isfinite(real)) { /* JSON has no such number */
        add_text(line, "null");
        return;
    }
    snprintf(number, sizeof number, "%.6g", real);
    add_text(line, number);
}

static void add_value(struct line *line, const struct log_field *field)
{
    char number[24];
    switch (field->kind) {
    case LOG_FIELD_TEXT:
        add_string(line, field->value.text == NULL ? "" : field->value.text);
        return;
    case LOG_FIELD_INT:
        snprintf(number, sizeof number, "%" PRId64, field->value.integer);
        add_text(line, number);
        return;
    case LOG_FIELD_UINT:
        snprintf(number, sizeof number, "%" PRIu64, field->value.whole);
        add_text(line, number);
        return;
    case LOG_FIELD_REAL:
        add_real(line, field->value.real);
        return;
    case LOG_FIELD_BOOL:
        add_text(line, field->value.truth ? "true" : "false");
        return;
    }
}

static void add_field(struct line *line, const struct log_field *field)
{
    bool json = line->format == LOG_JSON;
    add_text(line, json ? ",\"" : " ");
    add_text(line, field->key);
    add_text(line, json ? "\":" : "=");
    add_value(line, field);
}

/* ISO 8601, UTC: 2026-12-01T12:47:29.123Z */
static void format_time(char *text, size_t size, int64_t time_ms)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm utc;
    char whole[48] = "";
    if (gmtime_r(&seconds, &utc) != NULL)
        strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, size, "%s.%03dZ", whole, (int)(time_ms % 1000));
}

static void add_head(struct line *line, int64_t time_ms, enum log_level level, const char *event)
{
    char time_text[64];
    format_time(time_text, sizeof time_text, time_ms);
    if (line->format == LOG_TEXT) {
        add_text(line, time_text);
        add_text(line, " ");
        add_text(line, log_level_names[level]);
        add_text(line, " ");
        add_text(line, event);
        return;
    }
    add_text(line, "{\"time\":\"");
    add_text(line, time_text);
    add_text(line, "\",\"level\":\"");
    add_text(line, log_level_names[level]);
    add_text(line, "\",\"event\":");
    add_quoted(line, event);
}

size_t log_line(char bytes[LOG_LINE_BYTES + 1], enum log_format format, int64_t time_ms, enum log_level level,
                const char *event, const struct log_field *fields, size_t count)
{
    struct line line = {.bytes = bytes, .capacity = LOG_LINE_BYTES - TAIL_BYTES, .format = format};
    bool truncated = false;
    add_head(&line, time_ms, level, event);
    assert(!line.full); /* an event is a few words */
    for (size_t i = 0; i < count; i++) {
        size_t before = line.length;
        add_field(&line, &fields[i]);
        if (line.full) { /* half a field is worse than none */
            line.length = before;
            line.full = false;
            truncated = true;
        }
    }
    line.capacity = LOG_LINE_BYTES;
    if (truncated)
        add_text(&line, format == LOG_JSON ? ",\"truncated\":true" : " truncated=true");
    add_text(&line, format == LOG_JSON ? "}\n" : "\n");
    bytes[line.length] = '\0';
    return line.length;
}

void log_init(enum log_format format, enum log_level least)
{
    log_format_in_force = format;
    log_set_level(least);
    signal(SIGPIPE, SIG_IGN);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDWR) == -1)
            return; /* no /dev/null: nothing better to offer */
}

void log_set_level(enum log_level least)
{
    atomic_store_explicit(&least_level, (int)least, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&least_level, memory_order_relaxed);
}

/* A pipe that polls writable has PIPE_BUF bytes free, so a line then goes out whole and at once. */
static bool write_now(const char *bytes, size_t length)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&fd, 1, 0) != 1 || (fd.revents & POLLOUT) == 0)
        return false;
    return write(STDERR_FILENO, bytes, length) == (ssize_t)length;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define MAX_FIELDS 32 /* an event of more is a mistake in the program; the rest is left out */

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t count)
{
    if (!log_enabled(level))
        return;
    struct log_field all[MAX_FIELDS + 1];
    size_t used = 0;
    unsigned lost = atomic_exchange(&lost_lines, 0);
    if (lost > 0)
        all[used++] = log_uint("lost", lost);
    for (size_t i = 0; i < count && i < MAX_FIELDS; i++)
        all[used++] = fields[i];
    char line[LOG_LINE_BYTES + 1];
    size_t length = log_line(line, log_format_in_force, now_ms(), level, event, all, used);
    if (!write_now(line, length))
        atomic_fetch_add(&lost_lines, lost + 1);
}
