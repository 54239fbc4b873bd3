#include "core/sampler.h"

#include "core/kernels/exact_math.h"
#include "core/row/candidates.h"
#include "core/row/distribution.h"
#include "core/row/draw.h"
#include "core/row/mix.h"
#include "core/row/rng.h"
#include "core/row/rowcheck.h"
#include "core/rules/chain.h"
#include "core/rules/draws/adaptive_p.h"
#include "core/rules/draws/mirostat.h"
#include "core/rules/draws/skew.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum status sampler_init(struct sampler *sampler, const struct kernels *kernels, struct error *err)
{
    sampler->kernels = kernels;
    return arena_init(&sampler->scratch, 1u << 20, err);
}

void sampler_fini(struct sampler *sampler)
{
    arena_fini(&sampler->scratch);
}

enum status sampler_reserve(struct sampler *sampler, const struct sample_request *request, struct error *err)
{
    arena_reset(&sampler->scratch);
    /* the rules and what they leave, then the draw and two reports: of the support and of the row */
    size_t n = request->vocab_size;
    size_t bytes = (mix_needed(request) ? mix_scratch_bytes(request) : 0) + support_room_bytes(n) +
                   chain_scratch_bytes(request) + draw_scratch_bytes(n) + 2 * distribution_scratch_bytes(n) +
                   request->n * (sizeof(float) + sizeof(double)) + 2 * ARENA_ALIGNMENT;
    if (request->candidate_ids != NULL)
        bytes += candidates_scratch_bytes(n) + 2 * (n * sizeof(float) + ARENA_ALIGNMENT);
    return arena_reserve(&sampler->scratch, bytes, err);
}

/* A row's logits as float32 and, where the request has candidates, their ids in ascending order. */
struct row_view {
    const float *z;     /* [vocab_size] */
    const int32_t *ids; /* [vocab_size] or NULL */
    const float *lanes; /* lane_max() of z, or NULL where it was not worked out yet, */
    bool clean;         /* and what it returned */
};

static float *lend_row(struct sampler *sampler, const struct sample_request *request)
{
    float *row = arena_alloc(&sampler->scratch, request->vocab_size, sizeof *row);
    assert(row != NULL);
    return row;
}

static float *lend_lanes(struct sampler *sampler, size_t vocab_size)
{
    float *lanes = arena_alloc(&sampler->scratch, kernels_blocks(vocab_size) * KERNELS_LANES, sizeof *lanes);
    assert(lanes != NULL);
    return lanes;
}

static enum status load_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                            struct row_view *out, struct error *err)
{
    size_t n = request->vocab_size;
    *out = (struct row_view){.z = (const float *)request->logits + row * n};
    if (mix_needed(request)) {
        struct mixed_row mixed = {lend_row(sampler, request), lend_lanes(sampler, n), false};
        if (mix_row(request, row, sampler->kernels, &sampler->scratch, &mixed, err) != STATUS_OK)
            return err->status;
        *out = (struct row_view){.z = mixed.z, .lanes = mixed.lanes, .clean = mixed.clean};
    }
    if (request->candidate_ids == NULL)
        return STATUS_OK;
    float *z = lend_row(sampler, request);
    int32_t *ids = arena_alloc(&sampler->scratch, n, sizeof *ids);
    assert(ids != NULL);
    const float *loaded = out->z;
    *out = (struct row_view){.z = z, .ids = ids};
    return candidates_order(loaded, request->candidate_ids + row * n, n, row, &sampler->scratch, z, ids, err);
}

/*
 * The row as a support of all its tokens, read once: largest logit, lane maxima, and whether it can be
 * sampled.  Where rules are going to set tokens, the room has a copy.
 */
static enum status open_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                            struct row_view *view, const struct support_room *room, struct support *out,
                            struct error *err)
{
    size_t n = request->vocab_size, num_lanes = kernels_blocks(n) * KERNELS_LANES;
    bool copies = view->lanes == NULL && chain_sets_tokens(&request->chain);
    if (view->lanes == NULL) {
        float *lanes = lend_lanes(sampler, n);
        view->clean = copies ? sampler->kernels->copy_lane_max(view->z, n, room->z, lanes)
                             : sampler->kernels->lane_max(view->z, n, lanes);
        view->lanes = lanes;
    }
    float max = view->clean ? sampler->kernels->max(view->lanes, num_lanes) : NAN;
    if (isfinite(max)) {
        *out = (struct support){.z = copies ? room->z : view->z,
                                .ids = view->ids,
                                .lanes = view->lanes,
                                .n = n,
                                .max = max,
                                .room = room};
        return STATUS_OK;
    }
    rowcheck_explain(view->z, n, row, err);
    return STATUS_UNSAMPLABLE;
}

/* Where a value first stands in a lane of a block. */
static size_t first_in_lane(const float *block, size_t lane, float value)
{
    size_t at = lane;
    while (block[at] != value)
        at += KERNELS_LANES;
    return at;
}

/* Where the largest logit stands, of equal ones the first: in the first block that has it, in one of its
 * lanes. */
static size_t argmax(struct sampler *sampler, const struct support *s)
{
    size_t num_lanes = kernels_blocks(s->n) * KERNELS_LANES;
    int *lanes = arena_alloc(&sampler->scratch, num_lanes, sizeof *lanes);
    assert(lanes != NULL);
    size_t count = sampler->kernels->find_between(s->lanes, num_lanes, s->max, INFINITY, lanes);
    size_t block = (size_t)lanes[0] / KERNELS_LANES, best = KERNELS_BLOCK;
    for (size_t i = 0; i < count && (size_t)lanes[i] / KERNELS_LANES == block; i++) {
        size_t at = first_in_lane(s->z + block * KERNELS_BLOCK, (size_t)lanes[i] % KERNELS_LANES, s->max);
        best = at < best ? at : best;
    }
    return block * KERNELS_BLOCK + best;
}

/* The n tokens of a row and their logits. */
struct drawn {
    int32_t *token_ids; /* [n] */
    float *z;           /* [n] */
};

static void take(const struct support *support, size_t at, uint32_t i, struct drawn drawn)
{
    drawn.token_ids[i] = support_id(support, at);
    drawn.z[i] = support->z[at];
}

static void draw_tokens(struct rule_row *r, struct drawn drawn)
{
    const struct sample_request *request = r->request;
    struct draw draw = {0};
    struct skewed skewed = {0};
    if (r->skew == 0)
        draw_init(&draw, &r->support, rule_row_scale(r), r->kernels, r->scratch);
    else
        skewed = skew_sort(r);
    struct rng_address address = {
        .seed = column_u64_at(&request->seed, r->index),
        .offset = column_u64_at(&request->offset, r->index),
        .stream = request->seed.per_row ? 0 : (uint32_t)r->index,
    };
    for (uint32_t i = 0; i < request->n; i++) {
        address.draw = i;
        double u = rng_uniform(&address);
        take(&r->support, r->skew == 0 ? draw_at(&draw, r->kernels, u) : skew_draw(&skewed, u), i, drawn);
    }
}

static void take_largest(struct sampler *sampler, struct support *support, uint32_t n, struct drawn drawn)
{
    support_lanes(support, sampler->kernels);
    size_t best = argmax(sampler, support);
    for (uint32_t i = 0; i < n; i++)
        take(support, best, i, drawn);
}

/* What the next step of this row goes on from. */
static void report_states(struct rule_row *r, struct drawn drawn, bool greedy, struct sample_result *result)
{
    const struct sample_request *request = r->request;
    if (result->mirostat_mu != NULL) {
        double *mu = &result->mirostat_mu[r->index];
        *mu = mirostat_mu(request, r->index);
        if (!greedy && rules[RULE_mirostat]->is_on(request, r->index)) {
            struct distribution p;
            distribution_init(&p, &r->support, r->temperature, r->kernels);
            *mu = mirostat_next(request, r->index, distribution_logprob(&p, drawn.z[0]));
        }
    }
    if (result->adaptive_state != NULL) {
        double *state = &result->adaptive_state[2 * r->index];
        adaptive_p_state(request, r->index, state);
        if (r->before != NULL) {
            struct support before = r->support;
            struct distribution p;
            before.z = r->before;
            before.max = r->before_max;
            distribution_init(&p, &before, r->before_temperature, r->kernels);
            float z = r->before[support_find(&r->support, drawn.token_ids[0])];
            adaptive_p_next(request, r->index, exact_exp(distribution_logprob(&p, z)), state);
        }
    }
}

/* Log-probabilities of the drawn tokens and the candidates, both of the given distribution over support. */
static void report_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                       const float *drawn_z, struct support *support, double temperature,
                       struct sample_result *result)
{
    struct distribution report;
    distribution_init(&report, support, temperature, sampler->kernels);
    for (uint32_t i = 0; request->logprobs && i < request->n; i++)
        result->logprobs[row * request->n + i] = distribution_logprob(&report, drawn_z[i]);
    size_t at = row * result->max_candidates;
    result->num_candidates[row] = (uint32_t)distribution_candidates(
        &report, result->max_candidates, sampler->kernels, &sampler->scratch, result->top_token_ids + at,
        result->top_probs + at, result->top_logprobs + at);
}

/* The row as it came is what raw reports are of. */
static enum status sample_support(struct sampler *sampler, const struct sample_request *request, size_t row,
                                  const struct row_view *view, struct support *whole,
                                  struct sample_result *result, struct error *err)
{
    struct rule_row r = {.request = request,
                         .index = row,
                         .kernels = sampler->kernels,
                         .scratch = &sampler->scratch,
                         .support = *whole,
                         .temperature = 1.0};
    struct drawn drawn = {result->token_ids + row * request->n,
                          arena_alloc(&sampler->scratch, request->n, sizeof *drawn.z)};
    assert(drawn.z != NULL);
    if (chain_run(&r, err) != STATUS_OK)
        return err->status;
    whole->z = view->z;
    bool greedy = chain_is_greedy(request, row);
    if (greedy)
        take_largest(sampler, &r.support, request->n, drawn);
    else
        draw_tokens(&r, drawn);
    report_states(&r, drawn, greedy, result);
    if (!request->logprobs && result->max_candidates == 0)
        return STATUS_OK;
    bool raw = greedy || request->logprobs_mode == LOGPROBS_RAW;
    for (uint32_t i = 0; raw && i < request->n; i++)
        drawn.z[i] = whole->z[support_find(whole, drawn.token_ids[i])];
    report_row(sampler, request, row, drawn.z, raw ? whole : &r.support, raw ? 1.0 : r.temperature, result);
    return STATUS_OK;
}

enum status sampler_run_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                            struct sample_result *result, struct error *err)
{
    arena_reset(&sampler->scratch);
    struct row_view view;
    struct support whole = {0};
    struct support_room room = support_room_lend(request->vocab_size, &sampler->scratch);
    if (load_row(sampler, request, row, &view, err) != STATUS_OK ||
        open_row(sampler, request, row, &view, &room, &whole, err) != STATUS_OK)
        return err->status;
    return sample_support(sampler, request, row, &view, &whole, result, err);
}

double sampler_cost_us(const struct sample_request *request)
{
    /* microseconds a token, as measured for a row of 128,256: a read pass, a copy, a stack of a mix, weights
     * of all, a nucleus or another rule of all, float64 */
    const double READ = 4e-5, COPY = 1.2e-4, MIX = 2e-4, WEIGHTS = 2e-4, RULE = 3e-4, EXACT = 1.5e-3;
    const double DRAW = 1.0, ROW = 1.0;
    double per_row = ROW + DRAW * request->n, per_token = READ;
    bool cut = false, draws = !chain_is_greedy(request, 0);
    for (size_t i = 0; i < request->chain.num_rules; i++) {
        unsigned rule = request->chain.rules[i];
        cut |= rule == RULE_top_k;
        draws |= rule == RULE_temperature && request->rule_values[SLOT_temperature].number.per_row;
        per_token += cut || rule == RULE_temperature ? 0 : RULE;
    }
    if (draws && !cut)
        per_token += WEIGHTS;
    if (mix_needed(request))
        per_token += request->mix != NULL ? MIX * (double)request->num_stacks : COPY;
    if (request->logprobs || request->top_candidates > 0)
        per_token += EXACT;
    return (double)request->batch_size * (per_row + per_token * (double)request->vocab_size);
}

enum status sampler_result_init(struct sample_result *result, const struct sample_request *request,
                                struct error *err)
{
    size_t rows = request->batch_size, draws = rows * request->n;
    size_t most =
        request->top_candidates < request->vocab_size ? request->top_candidates : request->vocab_size;
    size_t candidates = rows * most;
    *result = (struct sample_result){.max_candidates = most};
    result->token_ids = malloc(draws * sizeof *result->token_ids);
    result->logprobs = request->logprobs ? malloc(draws * sizeof *result->logprobs) : NULL;
    result->num_candidates = malloc(rows * sizeof *result->num_candidates);
    result->top_token_ids = malloc(candidates * sizeof *result->top_token_ids + 1);
    result->top_probs = malloc(candidates * sizeof *result->top_probs + 1);
    result->top_logprobs = malloc(candidates * sizeof *result->top_logprobs + 1);
    bool steers = chain_runs(&request->chain, RULE_mirostat);
    bool adapts = chain_runs(&request->chain, RULE_adaptive_p);
    result->mirostat_mu = steers ? malloc(rows * sizeof *result->mirostat_mu) : NULL;
    result->adaptive_state = adapts ? malloc(2 * rows * sizeof *result->adaptive_state) : NULL;
    if (result->token_ids == NULL || (steers && result->mirostat_mu == NULL) ||
        (adapts && result->adaptive_state == NULL) || (request->logprobs && result->logprobs == NULL) ||
        result->num_candidates == NULL || result->top_token_ids == NULL || result->top_probs == NULL ||
        result->top_logprobs == NULL) {
        sampler_result_fini(result);
        return error_set(err, STATUS_NO_MEMORY, "no_memory",
                         "cannot allocate an answer of %zu draws and %zu candidates", draws, candidates);
    }
    return STATUS_OK;
}

void sampler_result_fini(struct sample_result *result)
{
    free(result->token_ids);
    free(result->logprobs);
    free(result->num_candidates);
    free(result->top_token_ids);
    free(result->top_probs);
    free(result->top_logprobs);
    free(result->mirostat_mu);
    free(result->adaptive_state);
    *result = (struct sample_result){0};
}
