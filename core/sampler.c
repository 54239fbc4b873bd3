#include "core/sampler.h"

#include "core/row/candidates.h"
#include "core/row/distribution.h"
#include "core/row/draw.h"
#include "core/row/mix.h"
#include "core/row/rng.h"
#include "core/row/rowcheck.h"
#include "core/row/select.h"

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
    /* what top_k keeps lent, then what top_p adds, then the draw and two reports: of the support and of the
     * row */
    size_t n = request->vocab_size;
    size_t bytes = (mix_needed(request) ? mix_scratch_bytes(request) : 0) + 2 * select_scratch_bytes(n) +
                   draw_scratch_bytes(n) + 2 * distribution_scratch_bytes(n) + request->n * sizeof(float);
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

/* The row as a support of all its tokens, read once: largest logit, lane maxima, and whether it can be
 * sampled. */
static enum status open_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                            struct row_view *view, struct support *out, struct error *err)
{
    size_t n = request->vocab_size, num_lanes = kernels_blocks(n) * KERNELS_LANES;
    if (view->lanes == NULL) {
        float *lanes = lend_lanes(sampler, n);
        view->clean = sampler->kernels->lane_max(view->z, n, lanes);
        view->lanes = lanes;
    }
    float max = view->clean ? sampler->kernels->max(view->lanes, num_lanes) : NAN;
    if (isfinite(max)) {
        *out = (struct support){.z = view->z, .ids = view->ids, .lanes = view->lanes, .n = n, .max = max};
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

static void draw_tokens(struct sampler *sampler, const struct sample_request *request, size_t row,
                        const struct support *support, struct weight_scale scale, struct drawn drawn)
{
    struct draw draw;
    draw_init(&draw, support, scale, sampler->kernels, &sampler->scratch);
    struct rng_address address = {
        .seed = column_u64_at(&request->seed, row),
        .offset = column_u64_at(&request->offset, row),
        .stream = request->seed.per_row ? 0 : (uint32_t)row,
    };
    for (uint32_t i = 0; i < request->n; i++) {
        address.draw = i;
        size_t at = draw_at(&draw, sampler->kernels, rng_uniform(&address));
        drawn.token_ids[i] = support_id(support, at);
        drawn.z[i] = support->z[at];
    }
}

static void take_largest(struct sampler *sampler, const struct support *whole, uint32_t n, struct drawn drawn)
{
    size_t best = argmax(sampler, whole);
    for (uint32_t i = 0; i < n; i++) {
        drawn.token_ids[i] = support_id(whole, best);
        drawn.z[i] = whole->max;
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

/* top_k and top_p of this row; support becomes what is left. */
static void apply_rules(struct sampler *sampler, const struct sample_request *request, size_t row,
                        struct weight_scale scale, struct support *support)
{
    double top_k = column_at(&request->top_k, row), top_p = column_at(&request->top_p, row);
    if (top_k > 0 && top_k < (double)support->n)
        select_top_k(support, (size_t)top_k, sampler->kernels, &sampler->scratch);
    if (top_p > 0 && top_p < 1)
        select_top_p(support, top_p, scale, sampler->kernels, &sampler->scratch);
}

static void sample_support(struct sampler *sampler, const struct sample_request *request, size_t row,
                           const struct support *whole, struct sample_result *result)
{
    struct support support = *whole;
    double temperature = column_at(&request->temperature, row);
    struct drawn drawn = {result->token_ids + row * request->n,
                          arena_alloc(&sampler->scratch, request->n, sizeof *drawn.z)};
    assert(drawn.z != NULL);
    bool greedy = (float)temperature <= 0.0f;
    if (greedy) {
        take_largest(sampler, whole, request->n, drawn);
    } else {
        struct weight_scale scale = weight_scale_make(whole->max, temperature);
        apply_rules(sampler, request, row, scale, &support);
        draw_tokens(sampler, request, row, &support, scale, drawn);
    }
    if (!request->logprobs && result->max_candidates == 0)
        return;
    bool raw = greedy || request->logprobs_mode == LOGPROBS_RAW;
    if (raw)
        support = *whole;
    report_row(sampler, request, row, drawn.z, &support, raw ? 1.0 : temperature, result);
}

enum status sampler_run_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                            struct sample_result *result, struct error *err)
{
    arena_reset(&sampler->scratch);
    struct row_view view;
    struct support whole = {0};
    if (load_row(sampler, request, row, &view, err) != STATUS_OK ||
        open_row(sampler, request, row, &view, &whole, err) != STATUS_OK)
        return err->status;
    sample_support(sampler, request, row, &whole, result);
    return STATUS_OK;
}

double sampler_cost_us(const struct sample_request *request)
{
    /* microseconds a token, as measured for a row of 128,256: a read pass, a copy, a stack of a mix, weights
     * of all, a nucleus of all, float64 */
    const double READ = 4e-5, COPY = 1.2e-4, MIX = 2e-4, WEIGHTS = 2e-4, NUCLEUS = 3e-4, EXACT = 1.5e-3;
    const double DRAW = 1.0, ROW = 1.0;
    double per_row = ROW + DRAW * request->n, per_token = READ;
    bool cut = request->top_k.per_row || request->top_k.values[0] > 0;
    bool draws = request->temperature.per_row || request->temperature.values[0] > 0;
    bool nucleus = request->top_p.per_row || request->top_p.values[0] < 1;
    if (draws && !cut)
        per_token += WEIGHTS + (nucleus ? NUCLEUS : 0);
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
    if (result->token_ids == NULL || (request->logprobs && result->logprobs == NULL) ||
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
    *result = (struct sample_result){0};
}
