#include "proto/encode.h"

#include "proto/json_scan.h"
#include "proto/real.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest texts, each with the comma after it. */
#define ID_BYTES   sizeof "-2147483648,"
#define REAL_BYTES (REAL_MAX_BYTES + 1)
#define WORD_BYTES sizeof "\"18446744073709551615\","
#define ROW_BYTES  sizeof "[],"
#define NAME_BYTES 128 /* the names, braces and colons */

/* Writes behind each other; the caller has counted that they fit. */
struct writer {
    char *p;
};

static void put(struct writer *w, const char *text)
{
    size_t length = strlen(text);
    memcpy(w->p, text, length);
    w->p += length;
}

static void put_word(struct writer *w, uint64_t word)
{
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + word % 10);
        word /= 10;
    } while (word > 0);
    memcpy(w->p, digits + n, sizeof digits - n);
    w->p += sizeof digits - n;
}

static void put_seed(struct writer *w, uint64_t seed)
{
    const char *quote = seed > UINT64_C(1) << 53 ? "\"" : "";
    put(w, quote);
    put_word(w, seed);
    put(w, quote);
}

/* A JSON string of length bytes of text; what is not UTF-8 becomes U+FFFD. */
static void put_string(struct writer *w, const char *text, size_t length)
{
    put(w, "\"");
    for (const char *end = text + length; text < end;) {
        size_t bytes = json_utf8_length(text, end);
        if (bytes == 0)
            put(w, "\xef\xbf\xbd");
        else if (*text == '"' || *text == '\\')
            w->p += sprintf(w->p, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            w->p += sprintf(w->p, "\\u%04x", (unsigned)*text);
        else
            memcpy(w->p, text, bytes), w->p += bytes;
        text += bytes == 0 ? 1 : bytes;
    }
    put(w, "\"");
}

/* ---- the answer ---- */

static void put_ids(struct writer *w, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            *w->p++ = ',';
        put_word(w, (uint64_t)ids[i]);
    }
}

static void put_reals(struct writer *w, const double *reals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            *w->p++ = ',';
        w->p += real_write(w->p, reals[i]);
    }
}

/* How a table of rows is laid out: row r has counts[r] of its `stride` values, or all where counts is NULL.
 */
struct rows {
    size_t count, stride;
    const uint32_t *counts;
};

/* Begin row `row` of `"name":[[...],[...]]`; returns its number of values. */
static size_t open_row(struct writer *w, const char *name, const struct rows *rows, size_t row)
{
    if (row == 0)
        put(w, name);
    put(w, row == 0 ? "[[" : "],[");
    return rows->counts == NULL ? rows->stride : rows->counts[row];
}

static void put_id_rows(struct writer *w, const char *name, const int32_t *ids, struct rows rows)
{
    for (size_t row = 0; row < rows.count; row++) {
        size_t n = open_row(w, name, &rows, row);
        put_ids(w, ids + row * rows.stride, n);
    }
    put(w, "]]");
}

static void put_real_rows(struct writer *w, const char *name, const double *reals, struct rows rows)
{
    for (size_t row = 0; row < rows.count; row++) {
        size_t n = open_row(w, name, &rows, row);
        put_reals(w, reals + row * rows.stride, n);
    }
    put(w, "]]");
}

static void put_seeds(struct writer *w, const struct sample_request *request)
{
    put(w, ",\"seed\":");
    if (!request->seed.per_row) {
        put_seed(w, request->seed.values[0]);
        return;
    }
    for (size_t row = 0; row < request->batch_size; row++) {
        put(w, row == 0 ? "[" : ",");
        put_seed(w, request->seed.values[row]);
    }
    put(w, "]");
}

/* a + b * c, or SIZE_MAX */
static size_t add_product(size_t a, size_t b, size_t c)
{
    size_t product, sum;
    if (__builtin_mul_overflow(b, c, &product) || __builtin_add_overflow(a, product, &sum))
        return SIZE_MAX;
    return sum;
}

size_t encode_bound(const struct sample_request *request)
{
    size_t most =
        request->top_candidates < request->vocab_size ? request->top_candidates : request->vocab_size;
    size_t reals = request->logprobs ? REAL_BYTES : 0;
    size_t row =
        6 * ROW_BYTES + WORD_BYTES + request->n * (ID_BYTES + reals) + most * (ID_BYTES + REAL_BYTES + reals);
    size_t id = request->id == NULL ? 0 : strlen(request->id);
    return add_product(NAME_BYTES + 6 * id, request->batch_size, row);
}

size_t encode_answer(const struct sample_request *request, const struct sample_result *result, char *out)
{
    struct writer w = {out};
    struct rows draws = {request->batch_size, request->n, NULL};
    struct rows candidates = {request->batch_size, result->max_candidates, result->num_candidates};
    put(&w, "{");
    if (request->id != NULL) {
        put(&w, "\"id\":");
        put_string(&w, request->id, strlen(request->id));
        put(&w, ",");
    }
    put_id_rows(&w, "\"token_ids\":", result->token_ids, draws);
    put_seeds(&w, request);
    if (request->logprobs)
        put_real_rows(&w, ",\"logprobs\":", result->logprobs, draws);
    if (request->top_candidates > 0) {
        put_id_rows(&w, ",\"top_token_ids\":", result->top_token_ids, candidates);
        put_real_rows(&w, ",\"top_probs\":", result->top_probs, candidates);
        if (request->logprobs)
            put_real_rows(&w, ",\"top_logprobs\":", result->top_logprobs, candidates);
    }
    put(&w, "}");
    return (size_t)(w.p - out);
}

/* ---- ids alone ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ids are written as they lie in memory");

enum status encode_ids_check(const struct sample_request *request, struct error *err)
{
    const char *name = request->top_candidates > 0 ? "top_candidates"
                       : request->logprobs         ? "logprobs"
                       : request->id != NULL       ? "id"
                                                   : NULL;
    if (name == NULL)
        return STATUS_OK;
    error_set(err, STATUS_INVALID, "conflicting_parameters",
              "%s does not fit into an answer of token ids alone; leave it out, or accept application/json",
              name);
    return error_at(err, name, ERROR_NO_ROW);
}

size_t encode_ids_bound(const struct sample_request *request)
{
    return add_product(0, request->batch_size, request->n * sizeof(int32_t));
}

size_t encode_ids(const struct sample_request *request, const struct sample_result *result, char *out)
{
    size_t bytes = encode_ids_bound(request);
    memcpy(out, result->token_ids, bytes);
    return bytes;
}

/* ---- errors ---- */

static const char *type_of(enum status status)
{
    switch (status) {
    case STATUS_UNAUTHORIZED:
        return "authentication_error";
    case STATUS_OVERLOADED:
    case STATUS_NO_MEMORY:
        return "overloaded_error";
    case STATUS_TIMEOUT:
        return "timeout_error";
    case STATUS_INTERNAL:
        return "server_error";
    default:
        return "invalid_request_error";
    }
}

static void put_string_or_null(struct writer *w, const char *text)
{
    if (text == NULL)
        put(w, "null");
    else
        put_string(w, text, strlen(text));
}

size_t encode_error(const struct error *err, char *out, size_t size)
{
    assert(size >= ENCODE_ERROR_BYTES);
    struct writer w = {out};
    put(&w, "{\"error\":{\"message\":");
    put_string(&w, err->message, strlen(err->message));
    put(&w, ",\"type\":");
    put_string(&w, type_of(err->status), strlen(type_of(err->status)));
    put(&w, ",\"param\":");
    put_string_or_null(&w, err->param);
    put(&w, ",\"code\":");
    put_string_or_null(&w, err->code);
    put(&w, ",\"row\":");
    if (err->row == ERROR_NO_ROW)
        put(&w, "null");
    else
        put_word(&w, err->row);
    put(&w, "}}");
    return (size_t)(w.p - out);
}
