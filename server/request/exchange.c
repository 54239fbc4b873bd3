#include "server/request/exchange.h"

#include "core/row/rng.h"
#include "proto/answer/encode.h"
#include "proto/json/json.h"
#include "proto/numbers/numbers.h"
#include "proto/tensors/npy.h"
#include "proto/tensors/safetensors.h"
#include "server/request/placement.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(BUFFERS_PADDING >= NUMBERS_PADDING, "the number reader looks that far ahead");

static struct exchange *exchange_of(struct pool_job *job)
{
    return (struct exchange *)((char *)job - offsetof(struct exchange, job));
}

/* One of the loans, of which a request asks for a few: LENDER_MOST says how many. */
static void *lend_buffer(struct lender *lender, size_t bytes, struct error *err)
{
    struct exchange *x = (struct exchange *)((char *)lender - offsetof(struct exchange, lender));
    size_t limit = buffers_limit(x->buffers);
    assert(x->num_loans < LENDER_MOST);
    struct buffer *loan = &x->loans[x->num_loans];
    if (bytes > limit - x->length) /* it would never fit, however long the client waits */
        error_set(err, STATUS_TOO_LARGE, "too_large",
                  "the body of %zu bytes and the %zu that it is decoded to are more than max_inflight_bytes, "
                  "which is %zu",
                  x->length, bytes, limit);
    else if (buffers_take(x->buffers, bytes, loan, err) == STATUS_OK)
        x->num_loans++;
    return loan->data;
}

static void return_loans(struct exchange *x)
{
    while (x->num_loans > 0)
        buffers_give(x->buffers, &x->loans[--x->num_loans]);
}

void exchange_init(struct exchange *x, struct buffers *buffers, size_t max_answer_bytes)
{
    *x = (struct exchange){
        .buffers = buffers, .max_answer_bytes = max_answer_bytes, .lender.lend = lend_buffer};
    pthread_mutex_init(&x->mutex, NULL);
}

void exchange_fini(struct exchange *x)
{
    sampler_result_fini(&x->result);
    kserve_unpin(&x->plan, x->memory);
    arena_fini(&x->arena);
    return_loans(x);
    buffers_give(x->buffers, &x->body);
    buffers_give(x->buffers, &x->answer);
    free(x->error_answer);
    pthread_mutex_destroy(&x->mutex);
}

void exchange_answer_error(struct exchange *x)
{
    x->status = x->error.status;
    buffers_give(x->buffers, &x->answer);
    if (x->error_answer == NULL)
        x->error_answer = malloc(ENCODE_ERROR_BYTES);
    if (x->error_answer != NULL)
        x->answer_length = (x->plain_errors ? kserve_answer_error : encode_error)(&x->error, x->error_answer,
                                                                                  ENCODE_ERROR_BYTES);
}

static enum status refuse_query(struct exchange *x)
{
    if (x->num_fields == 0)
        return STATUS_OK;
    return error_set(&x->error, STATUS_INVALID, "unexpected_query",
                     "%.80s is in the query; a %s request has all its parameters in the body",
                     x->fields[0].key,
                     x->media == MEDIA_JSON     ? "JSON"
                     : x->media == MEDIA_KSERVE ? "KServe"
                                                : "safetensors");
}

static enum status decode_json(struct exchange *x, uint64_t seed)
{
    if (arena_init(&x->arena, json_arena_bytes(x->length), &x->error) != STATUS_OK)
        return x->error.status;
    return json_decode(x->body.data, x->length, &x->arena, &x->lender, seed, &x->request, &x->error);
}

static enum status decode_raw(struct exchange *x, uint64_t seed)
{
    if (arena_init(&x->arena, query_arena_bytes(x->fields, x->num_fields), &x->error) != STATUS_OK)
        return x->error.status;
    if (x->media == MEDIA_NPY)
        return npy_decode(x->fields, x->num_fields, x->body.data, x->length, &x->arena, &x->lender, seed,
                          &x->request, &x->error);
    return raw_decode(x->fields, x->num_fields, x->body.data, x->length, &x->arena, seed, &x->request,
                      &x->error);
}

static enum status decode_kserve(struct exchange *x, uint64_t seed)
{
    struct kserve_body body = {x->body.data, x->length, x->header_length, x->memory};
    return kserve_decode(&body, &x->arena, &x->lender, seed, &x->request, &x->plan, &x->error);
}

static enum status decode_media(struct exchange *x, uint64_t seed)
{
    if (x->media == MEDIA_RAW || x->media == MEDIA_NPY)
        return decode_raw(x, seed);
    if (refuse_query(x) != STATUS_OK)
        return x->error.status;
    if (x->media == MEDIA_JSON)
        return decode_json(x, seed);
    if (x->media == MEDIA_KSERVE)
        return decode_kserve(x, seed);
    return safetensors_decode(x->body.data, x->length, &x->arena, &x->lender, seed, &x->request, &x->error);
}

static size_t answer_bound(const struct exchange *x)
{
    if (x->media == MEDIA_KSERVE)
        return kserve_answer_bound(&x->request, &x->plan);
    return x->form == ANSWER_IDS ? encode_ids_bound(&x->request) : encode_bound(&x->request);
}

/* Refuse an answer that would be too large before anything is sampled for it. */
static enum status check_answer_size(struct exchange *x)
{
    size_t bound = answer_bound(x), inflight = buffers_limit(x->buffers);
    bool by_answer = x->max_answer_bytes <= inflight;
    size_t limit = by_answer ? x->max_answer_bytes : inflight;
    if (bound <= limit)
        return STATUS_OK;
    return error_set(&x->error, STATUS_TOO_LARGE, "too_large",
                     "the answer may take %zu bytes; %s is %zu: ask for fewer rows, draws or candidates",
                     bound, by_answer ? "max_answer_bytes" : "max_inflight_bytes", limit);
}

static enum status decode(struct exchange *x)
{
    uint64_t seed;
    if (rng_fresh_seed(&seed, &x->error) != STATUS_OK)
        return x->error.status;
    enum status status = decode_media(x, seed);
    if (status == STATUS_OK && x->form == ANSWER_IDS)
        status = encode_ids_check(&x->request, &x->error);
    if (status != STATUS_OK || check_answer_size(x) != STATUS_OK)
        return x->error.status;
    return sampler_result_init(&x->result, &x->request, &x->error);
}

static void decode_once(struct exchange *x)
{
    if (x->decoded)
        return;
    x->status = decode(x);
    x->decoded = true;
    if (x->status == STATUS_OK)
        timeline_end(&x->timeline, STAGE_PARSE);
}

static enum status late(struct error *err)
{
    return error_set(err, STATUS_TIMEOUT, "deadline_exceeded",
                     "the deadline of the request passed before it was answered");
}

static size_t open_exchange(struct pool_job *job, struct sampler *sampler)
{
    (void)sampler;
    struct exchange *x = exchange_of(job);
    timeline_end(&x->timeline, STAGE_QUEUE);
    if (atomic_load(&x->expired))
        x->status = late(&x->error);
    else
        decode_once(x);
    return x->status == STATUS_OK ? x->request.batch_size : 0;
}

/* Keep the error of the lowest row, so that the answer does not depend on which worker was first. */
static void keep_error(struct exchange *x, const struct error *err)
{
    pthread_mutex_lock(&x->mutex);
    if (x->status == STATUS_OK || err->row < x->error.row) {
        x->error = *err;
        x->status = err->status;
    }
    pthread_mutex_unlock(&x->mutex);
}

static void run_row(struct pool_job *job, size_t row, struct sampler *sampler)
{
    struct exchange *x = exchange_of(job);
    struct error err;
    if (atomic_load_explicit(&x->expired, memory_order_relaxed)) {
        late(&err);
        keep_error(x, &err);
        return;
    }
    if (sampler_reserve(sampler, &x->request, &err) != STATUS_OK ||
        sampler_run_row(sampler, &x->request, row, &x->result, &err) != STATUS_OK)
        keep_error(x, &err);
}

static size_t write_answer(struct exchange *x, char *out)
{
    if (x->media == MEDIA_KSERVE)
        return kserve_answer_encode(&x->request, &x->result, &x->plan, out, &x->answer_header_length);
    return x->form == ANSWER_IDS ? encode_ids(&x->request, &x->result, out)
                                 : encode_answer(&x->request, &x->result, out);
}

static enum status encode(struct exchange *x)
{
    size_t bound = answer_bound(x);
    if (buffers_take(x->buffers, bound, &x->answer, &x->error) != STATUS_OK)
        return x->error.status;
    x->answer_length = write_answer(x, x->answer.data);
    assert(x->answer_length <= bound);
    if (x->media == MEDIA_KSERVE)
        return kserve_answer_share(&x->request, &x->plan, x->memory, x->answer.data + x->answer_length,
                                   &x->error);
    return STATUS_OK;
}

/* The body and its numbers have served, so the answer may use their room in the budget. */
static void finish(struct exchange *x)
{
    if (timeline_has(&x->timeline, STAGE_PARSE))
        timeline_end(&x->timeline, STAGE_SAMPLE);
    if (kserve_check_logits(&x->plan, x->memory, &x->error) != STATUS_OK) /* whatever came of them */
        x->status = x->error.status;
    return_loans(x);
    buffers_give(x->buffers, &x->body);
    if (x->status == STATUS_OK)
        x->status = encode(x);
    if (x->status != STATUS_OK)
        exchange_answer_error(x);
}

static void close_exchange(struct pool_job *job, struct sampler *sampler)
{
    (void)sampler;
    struct exchange *x = exchange_of(job);
    finish(x);
    x->done(x);
}

enum status exchange_submit(struct exchange *x, struct pool *pool, struct error *err)
{
    x->job.open = open_exchange;
    x->job.row = run_row;
    x->job.close = close_exchange;
    return pool_submit(pool, &x->job, err);
}

bool exchange_expire(struct exchange *x, struct pool *pool)
{
    atomic_store(&x->expired, true);
    if (!pool_withdraw(pool, &x->job))
        return false;
    late(&x->error);
    return_loans(x);
    buffers_give(x->buffers, &x->body);
    exchange_answer_error(x);
    return true;
}

bool exchange_try(struct exchange *x, struct sampler *sampler, double budget_us)
{
    double decode_us = x->decoded ? 0.0 : placement_decode_us(x);
    if (decode_us > budget_us)
        return false;
    decode_once(x);
    if (x->status == STATUS_OK && decode_us + sampler_cost_us(&x->request) > budget_us)
        return false;
    for (size_t row = 0; x->status == STATUS_OK && row < x->request.batch_size; row++)
        run_row(&x->job, row, sampler);
    finish(x);
    return true;
}
