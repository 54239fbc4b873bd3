#include "server/exchange.h"

#include "core/rng.h"
#include "proto/encode.h"
#include "proto/json.h"
#include "proto/numbers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(BUFFERS_PADDING >= NUMBERS_PADDING, "the number reader looks that far ahead");

static struct exchange *exchange_of(struct pool_job *job)
{
    return (struct exchange *)((char *)job - offsetof(struct exchange, job));
}

void exchange_init(struct exchange *x, struct buffers *buffers, size_t max_answer_bytes)
{
    *x = (struct exchange){.buffers = buffers, .max_answer_bytes = max_answer_bytes};
    pthread_mutex_init(&x->mutex, NULL);
}

void exchange_fini(struct exchange *x)
{
    sampler_result_fini(&x->result);
    arena_fini(&x->arena);
    buffers_give(x->buffers, &x->numbers);
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
        x->answer_length = encode_error(&x->error, x->error_answer, ENCODE_ERROR_BYTES);
}

static enum status decode_json(struct exchange *x, uint64_t seed)
{
    if (x->num_fields > 0)
        return error_set(&x->error, STATUS_INVALID, "unexpected_query",
                         "%.80s is in the query; a JSON request has all its parameters in the body",
                         x->fields[0].key);
    size_t most = numbers_count_bound(x->body.data, x->length), limit = buffers_limit(x->buffers);
    if (most > (limit - x->length) / sizeof(float)) /* it would never fit, however long the client waits */
        return error_set(
            &x->error, STATUS_TOO_LARGE, "too_large",
            "the body of %zu bytes and its %zu numbers take more than max_inflight_bytes, which is %zu",
            x->length, most, limit);
    if (buffers_take(x->buffers, most * sizeof(float), &x->numbers, &x->error) != STATUS_OK ||
        arena_init(&x->arena, json_arena_bytes(most), &x->error) != STATUS_OK)
        return x->error.status;
    return json_decode(x->body.data, x->length, &x->arena, (float *)(void *)x->numbers.data, most, seed,
                       &x->request, &x->error);
}

static enum status decode_raw(struct exchange *x, uint64_t seed)
{
    size_t bytes = raw_arena_bytes(x->fields, x->num_fields);
    if (arena_init(&x->arena, bytes, &x->error) != STATUS_OK)
        return x->error.status;
    return raw_decode(x->fields, x->num_fields, x->body.data, x->length, &x->arena, seed, &x->request,
                      &x->error);
}

/* Refuse an answer that would be too large before anything is sampled for it. */
static enum status check_answer_size(struct exchange *x)
{
    size_t bound = encode_bound(&x->request), inflight = buffers_limit(x->buffers);
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
    enum status status = x->media == MEDIA_JSON ? decode_json(x, seed) : decode_raw(x, seed);
    if (status != STATUS_OK || check_answer_size(x) != STATUS_OK)
        return x->error.status;
    return sampler_result_init(&x->result, &x->request, &x->error);
}

static void decode_once(struct exchange *x)
{
    if (!x->decoded)
        x->status = decode(x);
    x->decoded = true;
}

static size_t open_exchange(struct pool_job *job, struct sampler *sampler)
{
    (void)sampler;
    struct exchange *x = exchange_of(job);
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
    if (sampler_reserve(sampler, &x->request, &err) != STATUS_OK ||
        sampler_run_row(sampler, &x->request, row, &x->result, &err) != STATUS_OK)
        keep_error(x, &err);
}

static enum status encode(struct exchange *x)
{
    size_t bound = encode_bound(&x->request);
    if (buffers_take(x->buffers, bound, &x->answer, &x->error) != STATUS_OK)
        return x->error.status;
    x->answer_length = encode_answer(&x->request, &x->result, x->answer.data);
    assert(x->answer_length <= bound);
    return STATUS_OK;
}

/* The body and its numbers have served, so the answer may use their room in the budget. */
static void finish(struct exchange *x)
{
    buffers_give(x->buffers, &x->numbers);
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

/* Waking a worker and being woken again takes about as long as this. */
#define HANDOVER_US         20.0
#define HANDOVER_JSON_BYTES ((size_t)16 << 10)

bool exchange_try(struct exchange *x, struct sampler *sampler)
{
    if (x->media == MEDIA_JSON && x->length > HANDOVER_JSON_BYTES)
        return false;
    decode_once(x);
    if (x->status == STATUS_OK && sampler_cost_us(&x->request) > HANDOVER_US)
        return false;
    for (size_t row = 0; x->status == STATUS_OK && row < x->request.batch_size; row++)
        run_row(&x->job, row, sampler);
    finish(x);
    return true;
}
