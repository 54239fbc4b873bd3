#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

/* What the fuzz targets hold every request and every error to, and where their decoders have memory from. */

#include "core/request.h"
#include "core/rules/chain.h"
#include "proto/answer/encode.h"
#include "proto/params/query.h"
#include "proto/tensors/lender.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fuzz_require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "failed: %s\n", what);
    abort();
}

/* A copy as a server holds it, aligned and of just this length; the caller frees it. */
static inline char *fuzz_copy(const uint8_t *data, size_t size)
{
    void *copy = NULL;
    fuzz_require(posix_memalign(&copy, 64, size + (size == 0)) == 0, "memory");
    memcpy(copy, data, size);
    return copy;
}

/* An input that is a query, in lines `key=value` or `key` up to an empty line, and then a body. */
struct fuzz_query {
    char *text; /* what the fields point at */
    struct query_field fields[32];
    size_t count;
    char *body; /* [length] */
    size_t length;
};

static inline void fuzz_query_init(struct fuzz_query *q, const uint8_t *data, size_t size)
{
    q->text = malloc(size + 1);
    memcpy(q->text, data, size);
    q->text[size] = '\0';
    q->count = 0;
    char *rest = q->text, *end = q->text + size;
    while (q->count < sizeof q->fields / sizeof q->fields[0] && rest != NULL && *rest != '\0' &&
           *rest != '\n') {
        char *line = strsep(&rest, "\n"), *value = strchr(line, '=');
        if (value != NULL)
            *value++ = '\0';
        q->fields[q->count++] = (struct query_field){line, value};
    }
    const char *body = rest == NULL ? end : rest + (*rest == '\n');
    q->length = (size_t)(end - body);
    q->body = fuzz_copy((const uint8_t *)body, q->length);
}

static inline void fuzz_query_fini(struct fuzz_query *q)
{
    free(q->body);
    free(q->text);
}

/* Lends blocks of the exact size. */
struct fuzz_lender {
    struct lender lender; /* first: fuzz_lend() is called with it */
    void *loans[LENDER_MOST];
    size_t count, bytes;
};

static inline void *fuzz_lend(struct lender *lender, size_t bytes, struct error *err)
{
    struct fuzz_lender *l = (struct fuzz_lender *)lender;
    fuzz_require(l->count < LENDER_MOST, "few loans");
    l->bytes += bytes;
    void *loan = malloc(bytes);
    if (loan == NULL)
        error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot lend %zu bytes", bytes);
    else
        l->loans[l->count++] = loan;
    return loan;
}

static inline void fuzz_return_loans(struct fuzz_lender *l)
{
    while (l->count > 0)
        free(l->loans[--l->count]);
}

static inline void fuzz_check_column(const struct column *c, size_t rows, double min, double max)
{
    for (size_t i = 0; i < (c->per_row ? rows : 1); i++)
        fuzz_require(c->values[i] >= min && c->values[i] <= max, "a column in its range");
}

/* Whether text is one JSON value, as cJSON sees it. */
static inline void fuzz_check_json(const char *text, size_t length)
{
    const char *end;
    cJSON *root = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    fuzz_require(root != NULL && end == text + length, "an answer that is JSON");
    cJSON_Delete(root);
}

/* Answer the request with values of every length, and hold that to its bound. */
static inline void fuzz_check_answer(const struct sample_request *r)
{
    size_t most = r->top_candidates < r->vocab_size ? r->top_candidates : r->vocab_size;
    size_t draws = r->batch_size * r->n, candidates = r->batch_size * most, bound = encode_bound(r);
    size_t values = (draws > candidates ? draws : candidates) + 2 * r->batch_size; /* states, too */
    if (bound > (size_t)1 << 20)
        return;
    char *out = malloc(bound);
    int32_t *ids = malloc(values * sizeof *ids + 1);
    double *reals = malloc(values * sizeof *reals + 1);
    uint32_t *counts = malloc(r->batch_size * sizeof *counts);
    for (size_t i = 0; i < values; i++) {
        ids[i] = i % 2 == 0 ? INT32_MAX : (int32_t)i;
        reals[i] = i % 3 == 0 ? -1.23456789e-300 : -1.0 / (double)(i + 1);
    }
    for (size_t row = 0; row < r->batch_size; row++)
        counts[row] = (uint32_t)(row % 2 == 0 ? most : most / 2);
    struct sample_result result = {ids, r->logprobs ? reals : NULL, counts, ids, reals, reals, most, NULL,
                                   NULL};
    result.mirostat_mu = chain_runs(&r->chain, RULE_mirostat) ? reals : NULL;
    result.adaptive_state = chain_runs(&r->chain, RULE_adaptive_p) ? reals : NULL;
    size_t length = encode_answer(r, &result, out);
    fuzz_require(length <= bound, "an answer within its bound");
    fuzz_check_json(out, length);
    free(counts);
    free(reals);
    free(ids);
    free(out);
}

/* Numbers of rules are in range; lists have been checked by chain_plan(), which read them all. */
static inline void fuzz_check_rules(const struct sample_request *r)
{
    for (unsigned slot = 0; slot < NUM_SLOTS; slot++) {
        const struct rule_param *param = rule_param_of((enum rule_slot)slot);
        const struct rule_value *value = &r->rule_values[slot];
        if (!value->sent || param->kind > KIND_SWITCH)
            continue;
        fuzz_check_column(&value->number, r->batch_size, param->min, param->max);
        for (size_t row = 0; param->kind == KIND_WHOLE && row < r->batch_size; row++)
            fuzz_require(column_at(&value->number, row) == floor(column_at(&value->number, row)),
                         "a whole one");
    }
    for (size_t i = 0; i < r->chain.num_rules; i++)
        fuzz_require(r->chain.rules[i] < NUM_RULES, "rules");
}

static inline void fuzz_check_request(const struct sample_request *r)
{
    fuzz_require(r->logits != NULL && r->num_stacks >= 1 && r->batch_size >= 1 && r->vocab_size >= 1,
                 "logits");
    fuzz_require((r->mix != NULL) || r->num_stacks == 1, "one stack without mix");
    for (size_t i = 0; r->mix != NULL && i < r->num_stacks; i++)
        fuzz_require(isfinite(r->mix[i]), "finite weights");
    fuzz_require(r->bias_rows == 0 || r->bias_rows == 1 || r->bias_rows == r->batch_size, "bias");
    fuzz_require((r->bias != NULL) == (r->bias_rows > 0), "rows of the bias");
    int64_t sum = 0;
    for (size_t i = 0; r->candidate_ids != NULL && i < r->batch_size * r->vocab_size; i++)
        sum += r->candidate_ids[i];
    fuzz_require(sum <= (int64_t)INT32_MAX * (int64_t)(r->batch_size * r->vocab_size),
                 "ids that can be read");
    fuzz_check_rules(r);
    fuzz_require(r->n >= 1 && r->n <= 1024 && r->top_candidates <= 1024, "counts");
    fuzz_require(r->logprobs_mode == LOGPROBS_PROCESSED || r->logprobs_mode == LOGPROBS_RAW, "mode");
    fuzz_require(r->id == NULL || strlen(r->id) <= 256, "id");
    fuzz_check_answer(r);
}

/* All of the logits can be read where the request says they are. */
static inline void fuzz_check_logits(const struct sample_request *r)
{
    size_t bytes = r->num_stacks * r->batch_size * r->vocab_size * dtype_bytes(r->dtype);
    const unsigned char *at = r->logits;
    unsigned sum = 0;
    fuzz_require((uintptr_t)at % dtype_bytes(r->dtype) == 0, "aligned logits");
    for (size_t i = 0; i < bytes; i++)
        sum += at[i];
    fuzz_require(sum <= 255 * bytes, "logits that can be read");
}

static inline void fuzz_check_error(const struct error *err, enum status status)
{
    char out[ENCODE_ERROR_BYTES];
    fuzz_require(err->status == status && err->code != NULL, "a whole error");
    fuzz_require(memchr(err->message, '\0', sizeof err->message) != NULL && err->message[0] != '\0',
                 "a message");
    fuzz_check_json(out, encode_error(err, out, sizeof out));
}

/* What a decoder returned: a request as it must be, or why there is none. */
static inline void fuzz_check_outcome(enum status status, const struct sample_request *r,
                                      const struct error *err)
{
    if (status == STATUS_OK) {
        fuzz_check_request(r);
        fuzz_check_logits(r);
        return;
    }
    fuzz_require(status == STATUS_INVALID || status == STATUS_TOO_LARGE, "status");
    fuzz_check_error(err, status);
}

#endif
