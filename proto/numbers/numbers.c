#include "proto/numbers/numbers.h"

#include "proto/numbers/decimal.h"
#include "proto/numbers/number_fast.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 128 /* of "logits[2][17]", and of what is said about it */

struct reader {
    const char *start;
    const char *p; /* the byte in question */
    const char *end;
    float *out; /* [capacity] */
    size_t count, capacity;
    size_t rank;
    size_t dims[NUMBERS_MAX_RANK]; /* 0 until the first list of that depth ends */
    size_t at[NUMBERS_MAX_RANK];   /* index of the value in question, at each depth */
    const char *param;
    struct error *err;
};

const char *numbers_read_double(const char *text, const char *end, double *out)
{
    struct decimal d;
    const char *stop = decimal_scan(text, end, &d);
    if (stop != NULL)
        *out = decimal_to_double(&d);
    return stop;
}

const char *numbers_foreign_word(const char *text, const char *end)
{
    static const char *const words[] = {"NaN", "-NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "-inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(end - text) >= length && memcmp(text, words[i], length) == 0)
            return words[i];
    }
    return NULL;
}

size_t numbers_count_bound(const char *text, size_t length)
{
    enum { CHUNK = 128 }; /* a byte holds its count: sixteen or more at once in a vector */
    size_t commas = 0, i = 0;
    for (; i + CHUNK <= length; i += CHUNK) {
        uint8_t n = 0;
        for (size_t j = 0; j < CHUNK; j++)
            n = (uint8_t)(n + (text[i + j] == ','));
        commas += n;
    }
    for (; i < length; i++)
        commas += text[i] == ',';
    return commas + 1;
}

/* ---- faults ---- */

static bool digit_at(const struct reader *r, const char *p)
{
    return p < r->end && *p >= '0' && *p <= '9';
}

static bool starts_with(const struct reader *r, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(r->end - r->p) >= length && memcmp(r->p, word, length) == 0;
}

/* Set the error "<path> <what><detail>"; the path has `depth` indices. */
static enum status fault(struct reader *r, size_t depth, const char *code, const char *what,
                         const char *detail)
{
    char path[PATH_SIZE];
    size_t n = (size_t)snprintf(path, sizeof path, "%s", r->param);
    for (size_t i = 0; i < depth && n < sizeof path; i++)
        n += (size_t)snprintf(path + n, sizeof path - n, "[%zu]", r->at[i]);
    error_set(r->err, STATUS_INVALID, code, "%s %s%s", path, what, detail);
    return error_at(r->err, r->param, r->rank == 2 && depth > 0 ? r->at[0] : ERROR_NO_ROW);
}

static enum status malformed(struct reader *r, size_t depth, const char *reason)
{
    char detail[PATH_SIZE];
    if (r->p >= r->end) {
        r->p = r->end;
        reason = "the text ends";
    }
    snprintf(detail, sizeof detail, "%s at byte %zu of the array", reason, (size_t)(r->p - r->start));
    return fault(r, depth, "malformed_json", "is not valid JSON: ", detail);
}

/* Say where a number that decimal_scan refused goes wrong, and move there. */
static const char *number_fault(struct reader *r)
{
    if (*r->p == '-' && !digit_at(r, ++r->p))
        return "a digit must follow '-'";
    if (*r->p == '0' && digit_at(r, r->p + 1))
        return "leading zero";
    while (digit_at(r, r->p))
        r->p++;
    if (r->p < r->end && *r->p == '.') {
        if (!digit_at(r, ++r->p))
            return "a digit must follow '.'";
        while (digit_at(r, r->p))
            r->p++;
    }
    r->p++; /* the 'e' */
    if (r->p < r->end && (*r->p == '+' || *r->p == '-'))
        r->p++;
    return "the exponent has no digit";
}

/* What kind of JSON value starts at r->p, with its article; NULL for none. */
static const char *kind(const struct reader *r)
{
    if (r->p >= r->end)
        return NULL;
    switch (*r->p) {
    case '"':
        return "a string";
    case '{':
        return "an object";
    case '[':
        return "an array";
    case 't':
        return starts_with(r, "true") ? "true" : NULL;
    case 'f':
        return starts_with(r, "false") ? "false" : NULL;
    case 'n':
        return starts_with(r, "null") ? "null" : NULL;
    default:
        return digit_at(r, r->p) || *r->p == '-' ? "a number" : NULL;
    }
}

/* The value at r->p is neither a number nor null. */
static enum status value_fault(struct reader *r)
{
    char what[PATH_SIZE];
    const char *word = numbers_foreign_word(r->p, r->end), *type = kind(r);
    if (word != NULL) {
        snprintf(what, sizeof what, "is %s, which JSON does not have; ", word);
        return fault(r, r->rank, "malformed_json", what, "null stands for a masked token");
    }
    if (digit_at(r, r->p) || (r->p < r->end && *r->p == '-'))
        return malformed(r, r->rank, number_fault(r));
    if (type == NULL)
        return malformed(r, r->rank, "a number or null is missing");
    snprintf(what, sizeof what, "is %s; ", type);
    return fault(r, r->rank, "wrong_type", what, "it must be a number or null");
}

/* An array `depth` deep has another length than those before it. */
static enum status length_fault(struct reader *r, size_t depth, size_t length)
{
    char what[PATH_SIZE];
    snprintf(what, sizeof what, "has %zu %s%s; those before it have %zu", length,
             depth + 1 == r->rank ? "number" : "row", length == 1 ? "" : "s", r->dims[depth]);
    return fault(r, depth, "wrong_length", what, "");
}

/* The caller broke its promise about the capacity. */
static enum status room_fault(struct reader *r)
{
    error_set(r->err, STATUS_INTERNAL, "internal", "%s has more than the %zu numbers there is room for",
              r->param, r->capacity);
    return error_at(r->err, r->param, ERROR_NO_ROW);
}

/* ---- arrays ---- */

/* Read null or any number; NULL if neither is at p. */
static const char *read_value(const char *p, const char *end, float *out)
{
    struct decimal d;
    if (end - p >= 4 && memcmp(p, "null", 4) == 0) {
        *out = -INFINITY;
        return p + 4;
    }
    const char *stop = decimal_scan(p, end, &d);
    if (stop != NULL)
        *out = decimal_to_float(&d);
    return stop;
}

static inline const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* After the item at[depth]: step over ',' and return true, or over ']' and return false. */
static bool next_item(struct reader *r, size_t depth, enum status *status)
{
    char c = r->p < r->end ? *r->p : '\0';
    *status = STATUS_OK;
    if (c == ',' || c == ']')
        r->p++;
    else
        *status = malformed(r, depth + 1, "',' or ']' is missing after it");
    return c == ',';
}

/* Read the numbers of an innermost array up to its ']'; their number goes to *length. */
static enum status read_numbers(struct reader *r, size_t *length)
{
    const char *p = r->p, *end = r->end;
    float *first = r->out + r->count, *out = first, *limit = r->out + r->capacity;
    enum status status;
    for (;; p++) {
        r->p = p = skip_space(p, end);
        r->at[r->rank - 1] = (size_t)(out - first);
        if (out == limit)
            return room_fault(r);
        const char *stop = number_fast_read(p, out);
        if (stop == NULL)
            stop = read_value(p, end, out);
        if (stop == NULL)
            return value_fault(r);
        out++;
        p = skip_space(stop, end);
        if (p >= end || *p != ',')
            break;
    }
    r->p = p;
    next_item(r, r->rank - 1, &status);
    *length = (size_t)(out - first);
    r->count += *length;
    return status;
}

static enum status read_list(struct reader *r, size_t depth);

/* Read the arrays of an array up to its ']'; their number goes to *length. */
static enum status read_lists(struct reader *r, size_t depth, size_t *length)
{
    enum status status;
    *length = 0;
    do {
        r->at[depth] = (*length)++;
        r->p = skip_space(r->p, r->end);
        status = read_list(r, depth + 1);
        if (status != STATUS_OK)
            return status;
        r->p = skip_space(r->p, r->end);
    } while (next_item(r, depth, &status));
    return status;
}

/* Step over the '[' of an array with at least one item. */
static enum status open_list(struct reader *r, size_t depth)
{
    char what[PATH_SIZE];
    const char *type = kind(r);
    if (type == NULL)
        return malformed(r, depth, "'[' is missing");
    if (*r->p != '[') {
        snprintf(what, sizeof what, "is %s; ", type);
        return fault(r, depth, "wrong_type", what, "it must be an array");
    }
    const char *first = skip_space(r->p + 1, r->end);
    if (first < r->end && *first == ']')
        return fault(r, depth, "wrong_length", "is empty", "");
    r->p = first;
    return STATUS_OK;
}

/* Read the array at r->p, which is `depth` arrays deep, and hold it to the length of those before it. */
static enum status read_list(struct reader *r, size_t depth)
{
    const char *start = r->p;
    size_t length = 0;
    enum status status = open_list(r, depth);
    if (status != STATUS_OK)
        return status;
    status = depth + 1 == r->rank ? read_numbers(r, &length) : read_lists(r, depth, &length);
    if (status != STATUS_OK)
        return status;
    if (r->dims[depth] == 0)
        r->dims[depth] = length;
    if (r->dims[depth] == length)
        return STATUS_OK;
    r->p = start;
    return length_fault(r, depth, length);
}

/* Count the '[' that open the text, into r->rank. */
static enum status find_rank(struct reader *r)
{
    const char *p = r->p;
    for (; p < r->end && *p == '['; p = skip_space(p + 1, r->end))
        if (++r->rank > NUMBERS_MAX_RANK) {
            r->p = p;
            return fault(r, 0, "wrong_length", "is nested too deep; it may be up to three arrays deep", "");
        }
    return STATUS_OK;
}

enum status numbers_read_array(const char **cursor, const char *end, float *out, size_t capacity,
                               struct shape *shape, const char *param, struct error *err)
{
    struct reader r = {.start = *cursor,
                       .p = *cursor,
                       .end = end,
                       .out = out,
                       .capacity = capacity,
                       .param = param,
                       .err = err};
    enum status status = find_rank(&r);
    if (status == STATUS_OK)
        status = read_list(&r, 0);
    *cursor = r.p;
    if (status != STATUS_OK)
        return status;
    shape->rank = r.rank;
    memcpy(shape->dims, r.dims, sizeof r.dims);
    return STATUS_OK;
}
