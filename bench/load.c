#include "bench/load.h"

#include "bench/rows.h"
#include "core/pool.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

static const uint64_t SEED = 7;

struct load_direct {
    struct sampler sampler;
    struct sample_request request;
    struct sample_result result;
    uint64_t offset;
};

struct turn {
    struct pool_job job; /* first, so that a pool_job is a turn */
    struct load_pool *load;
    struct sample_request request;
    struct sample_result result;
    uint64_t offset;
};

#define TURNS         8       /* batches handed in at once */
#define POOL_ROUND_US 10000.0 /* the system moves threads between CPUs a few hundred times a second */

struct load_pool {
    struct pool *pool;
    struct turn turns[TURNS];
    atomic_long unsubmitted, unfinished; /* batches of this round */
    sem_t finished;
};

static void sample_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                       struct sample_result *result)
{
    struct error err;
    if (sampler_run_row(sampler, request, row, result, &err) != STATUS_OK)
        timing_fail("%s", err.message);
}

static void reserve(struct sampler *sampler, const struct sample_request *request)
{
    struct error err;
    if (sampler_reserve(sampler, request, &err) != STATUS_OK)
        timing_fail("%s", err.message);
}

static void renew_result(struct sample_result *result, const struct sample_request *request)
{
    struct error err;
    sampler_result_fini(result);
    if (sampler_result_init(result, request, &err) != STATUS_OK)
        timing_fail("%s", err.message);
}

struct load_direct *load_direct_create(const struct kernels *kernels)
{
    struct error err;
    struct load_direct *load = timing_alloc(1, sizeof *load);
    *load = (struct load_direct){0};
    if (sampler_init(&load->sampler, kernels, &err) != STATUS_OK)
        timing_fail("%s", err.message);
    return load;
}

void load_direct_destroy(struct load_direct *load)
{
    sampler_result_fini(&load->result);
    sampler_fini(&load->sampler);
    free(load);
}

static void run_direct(void *context, size_t repeats)
{
    struct load_direct *load = context;
    for (size_t i = 0; i < repeats; i++) {
        load->offset = i;
        for (size_t row = 0; row < load->request.batch_size; row++)
            sample_row(&load->sampler, &load->request, row, &load->result);
    }
}

struct timing_entry load_direct_entry(struct load_direct *load, const struct load_batch *b)
{
    load->request = cases_request(b->sampling, b->logits, b->batch_size, b->vocab_size, &SEED, &load->offset);
    renew_result(&load->result, &load->request);
    reserve(&load->sampler, &load->request);
    return (struct timing_entry){.run = run_direct, .context = load};
}

int load_direct_token(const struct load_direct *load)
{
    return load->result.token_ids[0];
}

static size_t open_turn(struct pool_job *job, struct sampler *sampler)
{
    (void)sampler;
    return ((struct turn *)job)->request.batch_size;
}

static void run_turn_row(struct pool_job *job, size_t row, struct sampler *sampler)
{
    struct turn *turn = (struct turn *)job;
    reserve(sampler, &turn->request);
    sample_row(sampler, &turn->request, row, &turn->result);
}

/* Hand a batch in, unless this round has had enough. */
static void submit(struct turn *turn)
{
    struct error err;
    if (atomic_fetch_sub(&turn->load->unsubmitted, 1) <= 0)
        return;
    turn->offset += TURNS;
    if (pool_submit(turn->load->pool, &turn->job, &err) != STATUS_OK)
        timing_fail("%s", err.message);
}

static void close_turn(struct pool_job *job, struct sampler *sampler)
{
    (void)sampler;
    struct load_pool *load = ((struct turn *)job)->load;
    submit((struct turn *)job);
    if (atomic_fetch_sub(&load->unfinished, 1) == 1)
        sem_post(&load->finished);
}

struct load_pool *load_pool_create(const struct kernels *kernels, size_t workers)
{
    struct error err;
    struct load_pool *load = timing_alloc(1, sizeof *load);
    *load = (struct load_pool){0};
    sem_init(&load->finished, 0, 0);
    if (pool_create(workers, TURNS, kernels, &load->pool, &err) != STATUS_OK)
        timing_fail("%s", err.message);
    return load;
}

void load_pool_destroy(struct load_pool *load)
{
    pool_destroy(load->pool);
    for (size_t i = 0; i < TURNS; i++)
        sampler_result_fini(&load->turns[i].result);
    sem_destroy(&load->finished);
    free(load);
}

static void run_pool(void *context, size_t repeats)
{
    struct load_pool *load = context;
    atomic_store(&load->unfinished, (long)repeats);
    atomic_store(&load->unsubmitted, (long)repeats);
    for (size_t i = 0; i < TURNS; i++)
        submit(&load->turns[i]);
    while (sem_wait(&load->finished) != 0) { /* interrupted */
    }
}

struct timing_entry load_pool_entry(struct load_pool *load, const struct load_batch *b)
{
    for (size_t i = 0; i < TURNS; i++) {
        struct turn *turn = &load->turns[i];
        turn->job = (struct pool_job){.open = open_turn, .row = run_turn_row, .close = close_turn};
        turn->load = load;
        turn->offset = i;
        turn->request =
            cases_request(b->sampling, b->logits, b->batch_size, b->vocab_size, &SEED, &turn->offset);
        renew_result(&turn->result, &turn->request);
    }
    return (struct timing_entry){
        .run = run_pool, .context = load, .elsewhere = true, .round_us = POOL_ROUND_US};
}

static void run_read(void *context, size_t repeats)
{
    struct load_batch *b = context;
    for (size_t i = 0; i < repeats; i++)
        for (size_t row = 0; row < b->batch_size; row++)
            b->bits |= rows_read(b->logits + row * b->vocab_size, b->vocab_size);
}

struct timing_entry load_read_entry(struct load_batch *batch)
{
    return (struct timing_entry){.run = run_read, .context = batch};
}
