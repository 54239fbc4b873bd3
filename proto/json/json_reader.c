#include "proto/json/json_reader.h"

#include <cjson/cJSON.h>
#include <string.h>

enum status json_reader_fail(struct json_reader *r, const char *reason)
{
    return error_set(r->scan.err, STATUS_INVALID, r->code, "%s: %s at byte %zu", r->complaint, reason,
                     (size_t)(r->scan.p - r->scan.start));
}

/* The text of a string with escapes, as cJSON has it. */
static enum status unescape(struct json_reader *r, const char *start, char *out)
{
    cJSON *item = cJSON_ParseWithLength(start, (size_t)(r->scan.p - start));
    if (item == NULL)
        return error_set(r->scan.err, STATUS_NO_MEMORY, "no_memory",
                         "cannot allocate memory for the request");
    memcpy(out, item->valuestring, strlen(item->valuestring) + 1); /* no longer than with its escapes */
    cJSON_Delete(item);
    return STATUS_OK;
}

enum status json_reader_string(struct json_reader *r, const char **out)
{
    const char *start = r->scan.p;
    if (json_scan_string(&r->scan) != STATUS_OK)
        return r->scan.err->status;
    size_t length = (size_t)(r->scan.p - start) - 2;
    char *text = r->texts + r->used;
    if (length >= r->room - r->used)
        return json_reader_fail(r, "more text in strings than is read");
    if (json_has_zero_byte(start, r->scan.p))
        return json_reader_fail(r, "a string with a zero byte");
    memcpy(text, start + 1, length);
    text[length] = '\0';
    if (memchr(text, '\\', length) != NULL && unescape(r, start, text) != STATUS_OK)
        return r->scan.err->status;
    r->used += strlen(text) + 1;
    *out = text;
    return STATUS_OK;
}

char json_reader_peek(struct json_reader *r)
{
    json_scan_space(&r->scan);
    return r->scan.p < r->scan.end ? *r->scan.p : '\0';
}

bool json_reader_null(struct json_reader *r)
{
    if (r->scan.end - r->scan.p < 4 || memcmp(r->scan.p, "null", 4) != 0)
        return false;
    r->scan.p += 4;
    return true;
}

enum status json_reader_size(struct json_reader *r, size_t *out)
{
    struct json_scan *s = &r->scan;
    const char *first = s->p;
    for (*out = 0; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (size_t)(*s->p - '0'), out))
            return json_reader_fail(r, "a number that is too large");
    bool plain = s->p - first == 1 || (s->p > first && *first != '0');
    return plain ? STATUS_OK : json_reader_fail(r, "a whole number is missing");
}

enum status json_reader_sizes(struct json_reader *r, size_t most, size_t *out, size_t *count)
{
    *count = 0;
    if (json_scan_expect(&r->scan, '[', "'['") != STATUS_OK)
        return r->scan.err->status;
    if (json_reader_peek(r) == ']') {
        r->scan.p++;
        return STATUS_OK;
    }
    for (;; r->scan.p++) {
        json_reader_peek(r);
        if (*count == most)
            return json_reader_fail(r, "a list that is too long");
        if (json_reader_size(r, &out[(*count)++]) != STATUS_OK)
            return r->scan.err->status;
        if (json_reader_peek(r) != ',')
            return json_scan_expect(&r->scan, ']', "',' or ']'");
    }
}

enum status json_reader_object(struct json_reader *r, void *out,
                               enum status (*member)(struct json_reader *r, const char *key, void *out))
{
    if (json_scan_expect(&r->scan, '{', "'{'") != STATUS_OK)
        return r->scan.err->status;
    if (json_reader_peek(r) == '}') {
        r->scan.p++;
        return STATUS_OK;
    }
    for (;; r->scan.p++) {
        const char *key = "";
        json_reader_peek(r);
        if (json_reader_string(r, &key) != STATUS_OK)
            return r->scan.err->status;
        json_reader_peek(r);
        if (json_scan_expect(&r->scan, ':', "':'") != STATUS_OK)
            return r->scan.err->status;
        json_reader_peek(r);
        if (member(r, key, out) != STATUS_OK)
            return r->scan.err->status;
        if (json_reader_peek(r) != ',')
            return json_scan_expect(&r->scan, '}', "',' or '}'");
    }
}
