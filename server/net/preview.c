#include "server/net/preview.h"

#include "server/net/framing.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A page of memory is no smaller anywhere, so what begins on one may be read to its end. */
#define PAGE_BYTES ((uintptr_t)4096)

static enum status judge_query(const char *target, struct error *err)
{
    const char *query = strchr(target, '?');
    size_t fields = 1;
    for (const char *s = query; s != NULL && (s = strchr(s, '&')) != NULL; s++)
        fields++;
    if (fields <= PREVIEW_QUERY_FIELDS)
        return STATUS_OK;
    return error_set(err, STATUS_TOO_LARGE, "too_large",
                     "the query has %zu fields; it may have %d: values of rows are one field, with commas",
                     fields, PREVIEW_QUERY_FIELDS);
}

static enum status judge_length(const char *value, const char *end, size_t max_body_bytes, struct error *err)
{
    char text[64];
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    size_t length = (size_t)(end - value), digits = 0;
    while (digits < length && value[digits] >= '0' && value[digits] <= '9')
        digits++;
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), value);
    if (digits < length || digits == 0)
        return error_set(err, STATUS_INVALID, "malformed_header",
                         "Content-Length is \"%.40s\"; it must be a whole number", text);
    errno = 0;
    (void)strtoull(text, NULL, 10);
    if (errno == 0 && length < sizeof text)
        return STATUS_OK;
    return error_set(err, STATUS_TOO_LARGE, "too_large", "the body has %.30s bytes; max_body_bytes is %zu",
                     text, max_body_bytes);
}

/* One line of the header, without its end. */
static enum status judge_line(const char *line, const char *end, size_t max_body_bytes, struct error *err)
{
    static const char name[] = "Content-Length";
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (*line == ' ' || *line == '\t')
        return STATUS_OK; /* more of the line before */
    if (colon == NULL)
        return error_set(err, STATUS_INVALID, "malformed_header", "a header has no colon");
    if ((size_t)(colon - line) != strlen(name) || strncasecmp(line, name, strlen(name)) != 0)
        return STATUS_OK;
    return judge_length(colon + 1, end, max_body_bytes, err);
}

/*
 * What has come of the header.  libmicrohttpd parses in place, and hands out the target where it came in, the
 * line cut by zeros: target 0 version 0 0 (line CR LF)* ...  Behind what has come its memory is zero.
 */
static const char *find_header(const char *target, const char **end)
{
    static const char version[] = "HTTP/1."; /* and a digit */
    const char *behind = target + strlen(target) + 1;
    size_t length = strlen(version);
    if (!framing_is_in_place() || strncmp(behind, version, length) != 0 || behind[length] == '\0' ||
        behind[length + 1] != '\0' || behind[length + 2] != '\0')
        return NULL;
    const char *header = behind + length + 3; /* the byte before it is on a page that is there */
    uintptr_t left = PAGE_BYTES - 1 - ((uintptr_t)(header - 1) & (PAGE_BYTES - 1));
    const char *zero = memchr(header, 0, left);
    *end = zero == NULL ? header + left : zero;
    return header;
}

enum status preview_judge(const char *target, size_t max_body_bytes, struct error *err)
{
    const char *end, *line = find_header(target, &end), *feed;
    if (judge_query(target, err) != STATUS_OK)
        return err->status;
    for (; line != NULL && (feed = memchr(line, '\n', (size_t)(end - line))) != NULL; line = feed + 1) {
        const char *stop = feed > line && feed[-1] == '\r' ? feed - 1 : feed;
        if (stop == line)
            break; /* behind it is the body */
        if (judge_line(line, stop, max_body_bytes, err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}
