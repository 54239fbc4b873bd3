#include "proto/json/json_packed.h"

#include "proto/params/params.h"

#include <assert.h>
#include <nettle/base64.h>
#include <string.h>

/* A string's text between its quotes. */
struct text {
    const char *start, *end; /* NULL before it is read */
};

struct packed {
    struct json_scan *scan;
    const char *param;
    bool words;                    /* of 32 bits, not floats */
    struct text b64, dtype, shape; /* the last with its brackets */
    struct json_packed out;
};

static enum status fail(struct packed *p)
{
    return error_at(p->scan->err, p->param, ERROR_NO_ROW);
}

static enum status malformed(struct packed *p)
{
    error_set(p->scan->err, STATUS_INVALID, "malformed_base64",
              "%s.b64 is not base64 with padding: A-Z, a-z, 0-9, + and /, = at the end", p->param);
    return fail(p);
}

/* ---- base64 ---- */

/* The character that an escape stands for, if it is one of base64, else 0; *at moves behind it. */
static char unescape(const char **at)
{
    const char *p = *at + 1;
    if (*p != 'u') {
        *at = p + 1;
        return *p == '/' ? '/' : '\0';
    }
    unsigned unit = 0;
    for (size_t i = 1; i <= 4; i++) {
        char lower = (char)(p[i] | 0x20);
        unit = unit * 16 + (unsigned)(lower >= 'a' ? lower - 'a' + 10 : lower - '0');
    }
    *at = p + 5;
    return unit < 0x80 ? (char)unit : '\0';
}

/* The end of the characters from `at` that no escape interrupts. */
static const char *run_end(const char *at, const char *end)
{
    const char *escape = memchr(at, '\\', (size_t)(end - at));
    return escape == NULL ? end : escape;
}

/* Characters of the text, an escape being one: some writers put \/ for every slash. */
static size_t count_characters(struct text text)
{
    size_t count = 0;
    for (const char *at = text.start; at < text.end; count++) {
        const char *stop = run_end(at, text.end);
        count += (size_t)(stop - at);
        at = stop;
        if (at == text.end)
            break;
        unescape(&at);
    }
    return count;
}

/*
 * Decode text, known to have as many characters as `bytes` bytes make, into out.  nettle passes over white
 * space, but a text that has some comes out shorter.
 */
static bool decode(struct text text, uint8_t *out, size_t bytes)
{
    struct base64_decode_ctx ctx;
    size_t done = 0, more;
    base64_decode_init(&ctx);
    for (const char *at = text.start; at < text.end;) {
        const char *stop = run_end(at, text.end);
        if (!base64_decode_update(&ctx, &more, out + done, (size_t)(stop - at), at))
            return false;
        done += more;
        at = stop;
        if (at == text.end)
            break;
        char c = unescape(&at);
        if (!base64_decode_update(&ctx, &more, out + done, 1, &c))
            return false;
        done += more;
    }
    return base64_decode_final(&ctx) && done == bytes;
}

/* ---- members ---- */

/* The strings here are long and have no escapes, or few: the scanner need not look at each character. */
static enum status scan_text(struct packed *p, struct text *out)
{
    struct json_scan *s = p->scan;
    const char *start = s->p + 1;
    const char *quote = memchr(start, '"', (size_t)(s->end - start));
    if (quote == NULL || memchr(start, '\\', (size_t)(quote - start)) != NULL) {
        if (json_scan_string(s) != STATUS_OK)
            return fail(p);
        quote = s->p - 1;
    }
    s->p = quote + 1;
    *out = (struct text){start, quote};
    return STATUS_OK;
}

static enum status read_value(struct packed *p, struct text *out, char open, const char *what)
{
    struct json_scan *s = p->scan;
    const char *start = s->p;
    if (start < s->end && *start == '"' && open == '"')
        return scan_text(p, out);
    if (json_scan_value(s) != STATUS_OK)
        return fail(p);
    *out = (struct text){start, s->p};
    if (*start == open)
        return STATUS_OK;
    error_set(s->err, STATUS_INVALID, "wrong_type", "%s.%s must be %s", p->param, what,
              open == '"' ? "a string" : "a list of 1 to 3 whole numbers");
    return fail(p);
}

static enum status read_member(struct packed *p)
{
    static const char *const names[] = {"b64", "dtype", "shape"};
    struct text *const members[] = {&p->b64, &p->dtype, &p->shape};
    struct json_scan *s = p->scan;
    json_scan_space(s);
    const char *key = s->p + 1;
    if (json_scan_string(s) != STATUS_OK)
        return fail(p);
    size_t length = (size_t)(s->p - 1 - key), i = 0;
    while (i < 3 && !(strlen(names[i]) == length && memcmp(names[i], key, length) == 0))
        i++;
    json_scan_space(s);
    if (json_scan_expect(s, ':', "':'") != STATUS_OK)
        return fail(p);
    json_scan_space(s);
    if (i == 3) {
        error_set(s->err, STATUS_INVALID, "unknown_parameter",
                  "%s.%.*s is unknown; %s has b64, dtype and shape", p->param,
                  (int)json_utf8_prefix(key, length, 40), key, p->param);
        return fail(p);
    }
    if (members[i]->start != NULL) {
        error_set(s->err, STATUS_INVALID, "duplicate_parameter", "%s.%s is given twice", p->param, names[i]);
        return fail(p);
    }
    if (read_value(p, members[i], i == 2 ? '[' : '"', names[i]) != STATUS_OK)
        return s->err->status;
    json_scan_space(s);
    return STATUS_OK;
}

static enum status read_members(struct packed *p)
{
    struct json_scan *s = p->scan;
    s->p++;
    json_scan_space(s);
    if (s->p < s->end && *s->p == '}') {
        s->p++;
        return STATUS_OK;
    }
    for (;;) {
        if (read_member(p) != STATUS_OK)
            return s->err->status;
        if (s->p >= s->end || *s->p != ',')
            return json_scan_expect(s, '}', "',' or '}'") == STATUS_OK ? STATUS_OK : fail(p);
        s->p++;
    }
}

/* ---- what they say ---- */

static enum status find_dtype(struct packed *p)
{
    static const char *const words[] = {"i32", "u32", NULL};
    const char *const *names = p->words ? words : params_dtypes;
    size_t length = (size_t)(p->dtype.end - p->dtype.start);
    assert(p->dtype.start != NULL); /* check_complete() said so */
    for (unsigned i = 0; names[i] != NULL; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], p->dtype.start, length) == 0) {
            p->out.dtype = p->words ? DTYPE_F32 : (enum dtype)i; /* as wide as a word */
            return STATUS_OK;
        }
    }
    error_set(p->scan->err, STATUS_INVALID, "out_of_range", "%s.dtype is \"%.*s\"; it must be %s", p->param,
              (int)json_utf8_prefix(p->dtype.start, length, 40), p->dtype.start,
              p->words ? "\"i32\" or \"u32\"" : "\"f32\", \"f16\", \"bf16\" or \"f64\"");
    return fail(p);
}

/* One of the list's numbers; false when it is none, or not whole, or 0, or as large as no body. */
static bool read_size(const char **at, size_t *out)
{
    const char *first = *at;
    *out = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (size_t)(**at - '0'), out))
            return false;
    return *at > first && *out > 0;
}

static void skip_space(const char **at)
{
    while (**at == ' ' || **at == '\n' || **at == '\t' || **at == '\r')
        ++*at;
}

/* The text is valid JSON and ends with ']', before which every loop here stops. */
static bool read_sizes(struct text text, struct shape *out)
{
    const char *at = text.start;
    assert(at != NULL);
    out->rank = 0;
    do {
        at++;
        skip_space(&at);
        if (out->rank == NUMBERS_MAX_RANK || !read_size(&at, &out->dims[out->rank++]))
            return false;
        skip_space(&at);
    } while (*at == ',');
    return *at == ']';
}

/* shape, and the bytes that it and dtype make. */
static enum status find_size(struct packed *p, size_t *bytes)
{
    bool fits = read_sizes(p->shape, &p->out.shape);
    *bytes = dtype_bytes(p->out.dtype);
    for (size_t i = 0; fits && i < p->out.shape.rank; i++)
        fits = !__builtin_mul_overflow(*bytes, p->out.shape.dims[i], bytes) && *bytes <= SIZE_MAX / 2;
    if (fits)
        return STATUS_OK;
    error_set(p->scan->err, STATUS_INVALID, "out_of_range",
              "%s.shape must be a list of 1 to 3 whole numbers, none of them 0: [V], [B,V] or [M,B,V]",
              p->param);
    return fail(p);
}

static enum status check_complete(struct packed *p)
{
    const char *missing = p->b64.start == NULL     ? "b64"
                          : p->dtype.start == NULL ? "dtype"
                          : p->shape.start == NULL ? "shape"
                                                   : NULL;
    if (missing == NULL)
        return STATUS_OK;
    error_set(p->scan->err, STATUS_INVALID, "missing_parameter",
              "%s.%s is missing; an object must be {\"b64\":\"...\",\"dtype\":\"f32\",\"shape\":[B,V]}",
              p->param, missing);
    return fail(p);
}

static enum status unpack(struct packed *p, struct lender *lender)
{
    size_t bytes;
    if (check_complete(p) != STATUS_OK || find_dtype(p) != STATUS_OK || find_size(p, &bytes) != STATUS_OK)
        return p->scan->err->status;
    size_t characters = count_characters(p->b64), groups = bytes / 3 + (bytes % 3 != 0);
    if (characters % 4 != 0 || characters / 4 != groups) {
        error_set(p->scan->err, STATUS_INVALID, "wrong_length",
                  "%s.b64 has %zu characters; dtype and shape say %zu bytes, which are 4 * %zu characters",
                  p->param, characters, bytes, groups);
        return fail(p);
    }
    uint8_t *values = lender->lend(lender, 3 * groups, p->scan->err);
    if (values == NULL)
        return fail(p);
    if (!decode(p->b64, values, bytes))
        return malformed(p);
    p->out.values = values;
    return STATUS_OK;
}

enum status json_packed_read(struct json_scan *scan, struct lender *lender, const char *param,
                             struct json_packed *out)
{
    struct packed p = {.scan = scan, .param = param};
    if (read_members(&p) != STATUS_OK || unpack(&p, lender) != STATUS_OK)
        return scan->err->status;
    *out = p.out;
    return STATUS_OK;
}

enum status json_packed_read_words(struct json_scan *scan, struct lender *lender, const char *param,
                                   struct json_packed *out)
{
    struct packed p = {.scan = scan, .param = param, .words = true};
    if (read_members(&p) != STATUS_OK || unpack(&p, lender) != STATUS_OK)
        return scan->err->status;
    *out = p.out;
    if (out->shape.rank <= 2)
        return STATUS_OK;
    error_set(scan->err, STATUS_INVALID, "wrong_length", "%s.shape must be [W] or [B,W]", param);
    return error_at(scan->err, param, ERROR_NO_ROW);
}
