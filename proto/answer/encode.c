#include "proto/answer/encode.h"

#include "core/rules/chain.h"
#include "proto/answer/writer.h"
#include "proto/numbers/number_write.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROW_BYTES  sizeof "[],"
#define NAME_BYTES 192 /* the names, braces and colons */

static void put_seed(struct writer *w, uint64_t seed)
{
    const char *quote = seed > UINT64_C(1) << 53 ? "\"" : "";
    writer_put(w, quote);
    writer_word(w, seed);
    writer_put(w, quote);
}

/* ---- the answer ---- */

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
        writer_put(w, name);
    writer_put(w, row == 0 ? "[[" : "],[");
    return rows->counts == NULL ? rows->stride : rows->counts[row];
}

static void put_id_rows(struct writer *w, const char *name, const int32_t *ids, struct rows rows)
{
    for (size_t row = 0; row < rows.count; row++) {
        size_t n = open_row(w, name, &rows, row);
        writer_ids(w, ids + row * rows.stride, n);
    }
    writer_put(w, "]]");
}

static void put_real_rows(struct writer *w, const char *name, const double *reals, struct rows rows)
{
    for (size_t row = 0; row < rows.count; row++) {
        size_t n = open_row(w, name, &rows, row);
        writer_reals(w, reals + row * rows.stride, n);
    }
    writer_put(w, "]]");
}

static void put_seeds(struct writer *w, const struct sample_request *request)
{
    writer_put(w, ",\"seed\":");
    if (!request->seed.per_row) {
        put_seed(w, request->seed.values[0]);
        return;
    }
    for (size_t row = 0; row < request->batch_size; row++) {
        writer_put(w, row == 0 ? "[" : ",");
        put_seed(w, request->seed.values[row]);
    }
    writer_put(w, "]");
}

/* What the rows' next steps go on from. */
static void put_states(struct writer *w, const struct sample_request *request,
                       const struct sample_result *result)
{
    if (result->mirostat_mu != NULL) {
        writer_put(w, ",\"mirostat_mu\":[");
        writer_reals(w, result->mirostat_mu, request->batch_size);
        writer_put(w, "]");
    }
    if (result->adaptive_state != NULL)
        put_real_rows(w, ",\"adaptive_state\":", result->adaptive_state,
                      (struct rows){request->batch_size, 2, NULL});
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
    size_t reals = request->logprobs ? WRITER_REAL_BYTES : 0;
    size_t states = 3 * WRITER_REAL_BYTES; /* mirostat_mu and adaptive_state */
    size_t row = 7 * ROW_BYTES + WRITER_WORD_BYTES + states + request->n * (WRITER_ID_BYTES + reals) +
                 most * (WRITER_ID_BYTES + WRITER_REAL_BYTES + reals);
    size_t id = request->id == NULL ? 0 : strlen(request->id);
    return add_product(NAME_BYTES + 6 * id, request->batch_size, row);
}

size_t encode_answer(const struct sample_request *request, const struct sample_result *result, char *out)
{
    struct writer w = {out};
    struct rows draws = {request->batch_size, request->n, NULL};
    struct rows candidates = {request->batch_size, result->max_candidates, result->num_candidates};
    writer_put(&w, "{");
    if (request->id != NULL) {
        writer_put(&w, "\"id\":");
        writer_string(&w, request->id, strlen(request->id));
        writer_put(&w, ",");
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
    put_states(&w, request, result);
    writer_put(&w, "}");
    return (size_t)(w.p - out);
}

/* ---- ids alone ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ids are written as they lie in memory");

enum status encode_ids_check(const struct sample_request *request, struct error *err)
{
    const char *name = request->top_candidates > 0                    ? "top_candidates"
                       : request->logprobs                            ? "logprobs"
                       : request->id != NULL                          ? "id"
                       : chain_runs(&request->chain, RULE_mirostat)   ? "mirostat"
                       : chain_runs(&request->chain, RULE_adaptive_p) ? "adaptive_target"
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
        writer_put(w, "null");
    else
        writer_string(w, text, strlen(text));
}

size_t encode_error(const struct error *err, char *out, size_t size)
{
    assert(size >= ENCODE_ERROR_BYTES);
    struct writer w = {out};
    writer_put(&w, "{\"error\":{\"message\":");
    writer_string(&w, err->message, strlen(err->message));
    writer_put(&w, ",\"type\":");
    writer_string(&w, type_of(err->status), strlen(type_of(err->status)));
    writer_put(&w, ",\"param\":");
    put_string_or_null(&w, err->param);
    writer_put(&w, ",\"code\":");
    put_string_or_null(&w, err->code);
    writer_put(&w, ",\"row\":");
    if (err->row == ERROR_NO_ROW)
        writer_put(&w, "null");
    else
        writer_word(&w, err->row);
    writer_put(&w, "}}");
    return (size_t)(w.p - out);
}
