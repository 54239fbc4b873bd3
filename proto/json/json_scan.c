#include "proto/json/json_scan.h"

#include "proto/numbers/numbers.h"

#include <stdio.h>
#include <string.h>

enum status json_scan_fail(struct json_scan *s, const char *reason)
{
    if (s->p >= s->end)
        reason = "it ends too early";
    error_set(s->err, STATUS_INVALID, "malformed_json", "%s is not valid JSON: %s at byte %zu",
              s->subject == NULL ? "the body" : s->subject, reason, (size_t)(s->p - s->start));
    return s->err->status;
}

void json_scan_space(struct json_scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
        s->p++;
}

void json_scan_mark(struct json_scan *s)
{
    if (s->end - s->p >= 3 && memcmp(s->p, "\xef\xbb\xbf", 3) == 0)
        s->p += 3;
}

enum status json_scan_expect(struct json_scan *s, char c, const char *what)
{
    if (s->p >= s->end || *s->p != c) {
        char reason[64];
        snprintf(reason, sizeof reason, "%s is missing", what);
        return json_scan_fail(s, reason);
    }
    s->p++;
    return STATUS_OK;
}

/* ---- strings ---- */

static bool continues(const char *p)
{
    return ((unsigned char)*p & 0xc0) == 0x80;
}

size_t json_utf8_length(const char *p, const char *end)
{
    unsigned char a = (unsigned char)p[0];
    if (a < 0x80)
        return 1;
    size_t length = a >= 0xc2 && a < 0xe0 ? 2 : a >= 0xe0 && a < 0xf0 ? 3 : a >= 0xf0 && a < 0xf5 ? 4 : 0;
    if (length == 0 || (size_t)(end - p) < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if (!continues(p + i))
            return 0;
    unsigned char b = (unsigned char)p[1];
    bool overlong = (a == 0xe0 && b < 0xa0) || (a == 0xf0 && b < 0x90);
    bool surrogate = a == 0xed && b >= 0xa0, too_high = a == 0xf4 && b >= 0x90;
    return overlong || surrogate || too_high ? 0 : length;
}

size_t json_utf8_prefix(const char *text, size_t length, size_t limit)
{
    size_t n = 0, next = 0;
    do {
        n += next;
        next = n < length ? json_utf8_length(text + n, text + length) : 0;
    } while (next > 0 && n + next <= limit);
    return n;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The four digits of a \u escape, or -1. */
static int hex_unit(const struct json_scan *s, const char *p)
{
    int unit = 0;
    if (s->end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_low_surrogate(int unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

/* After "\u": one unit, or a pair of surrogates. */
static enum status scan_unicode(struct json_scan *s)
{
    int unit = hex_unit(s, s->p);
    if (unit < 0)
        return json_scan_fail(s, "\\u needs four hexadecimal digits");
    if (is_low_surrogate(unit))
        return json_scan_fail(s, "a low surrogate stands alone");
    s->p += 4;
    if (unit < 0xd800 || unit >= 0xe000)
        return STATUS_OK;
    bool paired =
        s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u' && is_low_surrogate(hex_unit(s, s->p + 2));
    if (!paired)
        return json_scan_fail(s, "a high surrogate stands alone");
    s->p += 6;
    return STATUS_OK;
}

static enum status scan_escape(struct json_scan *s)
{
    s->p++; /* the backslash */
    if (s->p >= s->end || *s->p == '\0' || strchr("\"\\/bfnrtu", *s->p) == NULL)
        return json_scan_fail(s, "unknown escape");
    return *s->p++ == 'u' ? scan_unicode(s) : STATUS_OK;
}

enum status json_scan_string(struct json_scan *s)
{
    if (json_scan_expect(s, '"', "'\"'") != STATUS_OK)
        return s->err->status;
    while (s->p < s->end && *s->p != '"') {
        if (*s->p == '\\') {
            if (scan_escape(s) != STATUS_OK)
                return s->err->status;
            continue;
        }
        if ((unsigned char)*s->p < 0x20)
            return json_scan_fail(s, "a control character in a string");
        size_t length = json_utf8_length(s->p, s->end);
        if (length == 0)
            return json_scan_fail(s, "invalid UTF-8");
        s->p += length;
    }
    return json_scan_expect(s, '"', "the '\"' that ends a string");
}

bool json_has_zero_byte(const char *text, const char *end)
{
    for (const char *p = text; p + 5 < end; p++) {
        if (*p == '\\' && memcmp(p + 1, "u0000", 5) == 0)
            return true;
        p += *p == '\\'; /* an escaped backslash begins no other escape */
    }
    return false;
}

/* ---- numbers and words ---- */

static bool skip_digits(struct json_scan *s)
{
    const char *first = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > first;
}

static bool skip_one_of(struct json_scan *s, char a, char b)
{
    bool there = s->p < s->end && (*s->p == a || *s->p == b);
    s->p += there;
    return there;
}

static enum status scan_number(struct json_scan *s)
{
    const char *first = s->p;
    skip_one_of(s, '-', '-');
    const char *digits = s->p;
    if (!skip_digits(s))
        return json_scan_fail(s, "a digit is missing");
    if (*digits == '0' && s->p - digits > 1) {
        s->p = digits;
        return json_scan_fail(s, "leading zero");
    }
    if (skip_one_of(s, '.', '.') && !skip_digits(s))
        return json_scan_fail(s, "a digit is missing after '.'");
    if (skip_one_of(s, 'e', 'E')) {
        skip_one_of(s, '-', '+');
        if (!skip_digits(s))
            return json_scan_fail(s, "an exponent has no digit");
    }
    if ((size_t)(s->p - first) > JSON_MAX_NUMBER_BYTES)
        return error_set(
            s->err, STATUS_INVALID, "out_of_range",
            "a number at byte %zu has %zu characters; outside logits and bias at most %zu are read",
            (size_t)(first - s->start), (size_t)(s->p - first), JSON_MAX_NUMBER_BYTES);
    return STATUS_OK;
}

static enum status scan_word(struct json_scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(s->end - s->p) >= length && memcmp(s->p, words[i], length) == 0) {
            s->p += length;
            return STATUS_OK;
        }
    }
    return json_scan_fail(s, "a value is missing");
}

/* The text of a word that JSON does not have; p stays on it. */
static enum status refuse_word(struct json_scan *s, const char *word)
{
    char reason[64];
    snprintf(reason, sizeof reason, "%s, which JSON does not have,", word);
    return json_scan_fail(s, reason);
}

/* ---- structure ---- */

static enum status scan_at(struct json_scan *s, unsigned depth);

/* One item of a list, or one member of an object. */
static enum status scan_item(struct json_scan *s, char close, unsigned depth)
{
    json_scan_space(s);
    if (close == '}') {
        if (json_scan_string(s) != STATUS_OK)
            return s->err->status;
        json_scan_space(s);
        if (json_scan_expect(s, ':', "':'") != STATUS_OK)
            return s->err->status;
        json_scan_space(s);
    }
    if (scan_at(s, depth + 1) != STATUS_OK)
        return s->err->status;
    json_scan_space(s);
    return STATUS_OK;
}

static enum status scan_items(struct json_scan *s, char close, unsigned depth)
{
    s->p++;
    json_scan_space(s);
    if (skip_one_of(s, close, close))
        return STATUS_OK;
    do {
        if (scan_item(s, close, depth) != STATUS_OK)
            return s->err->status;
    } while (skip_one_of(s, ',', ','));
    return json_scan_expect(s, close, close == '}' ? "',' or '}'" : "',' or ']'");
}

static enum status scan_at(struct json_scan *s, unsigned depth)
{
    if (s->p >= s->end)
        return json_scan_fail(s, "");
    if (depth > JSON_MAX_DEPTH)
        return json_scan_fail(s, "values are nested deeper than 32");
    const char *foreign = numbers_foreign_word(s->p, s->end);
    if (foreign != NULL)
        return refuse_word(s, foreign);
    switch (*s->p) {
    case '"':
        return json_scan_string(s);
    case '[':
        return scan_items(s, ']', depth);
    case '{':
        return scan_items(s, '}', depth);
    default:
        return *s->p == '-' || (*s->p >= '0' && *s->p <= '9') ? scan_number(s) : scan_word(s);
    }
}

enum status json_scan_value(struct json_scan *s)
{
    return scan_at(s, 1);
}
