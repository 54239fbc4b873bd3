/*
 * libFuzzer target of core/sampler.c: the input spells out a request (problem.h).
 *
 * Every row is sampled by every kernel table of this CPU, which must agree bit for bit whatever the scratch
 * held before, and the answer is held to the rules computed a second time, plainly and in float64.  A row
 * is refused if and only if it has NaN, +inf or no unmasked token.  Nothing is allocated meanwhile.
 */
#include "core/mix.h"
#include "core/rng.h"
#include "core/sampler.h"
#include "tests/problem.h"
#include "tests/rules.h"

#include <stdio.h>

#define MAX_TABLES  8
#define EXACT_SLACK 1e-9 /* of what is reported, which is float64 too */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "failed: %s\n", what);
    abort();
}

static void *room(size_t count, size_t size)
{
    void *block = malloc(count * size + 1);
    require(block != NULL, "memory");
    return block;
}

/* ---- allocations while a row is sampled, where the sanitizers' runtime can tell ---- */

__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                                      size_t),
                                                                    void (*on_free)(const volatile void *));

static _Thread_local bool sampling;
static size_t allocations;

static void on_malloc(const volatile void *block, size_t size)
{
    (void)block, (void)size;
    allocations += sampling;
}

static void on_free(const volatile void *block)
{
    (void)block;
}

static void setup(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    mix_setup();
    if (__sanitizer_install_malloc_and_free_hooks != NULL)
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

/* ---- one row against the rules ---- */

struct row {
    const struct sample_request *request;
    const struct sample_result *result;
    size_t index;
};

static double uniform_of(const struct row *row, uint32_t draw)
{
    const struct sample_request *r = row->request;
    struct rng_address address = {
        .seed = column_u64_at(&r->seed, row->index),
        .offset = column_u64_at(&r->offset, row->index),
        .stream = r->seed.per_row ? 0 : (uint32_t)row->index,
        .draw = draw,
    };
    return rng_uniform(&address);
}

static void check_draws(const struct row *row, const struct rules *rules, bool greedy)
{
    const int32_t *ids = row->result->token_ids + row->index * row->request->n;
    for (uint32_t i = 0; i < row->request->n; i++) {
        require(ids[i] >= 0 && (size_t)ids[i] < rules->n, "an id in the vocabulary");
        if (greedy) {
            require(ids[i] == rules->order[0], "the largest logit, the lowest id on a tie");
            continue;
        }
        require((size_t)rules->rank[ids[i]] < rules->most, "a token that top_k and top_p keep");
        require(rules_exponent(rules, ids[i]) * M_LOG2E >= -126.01, "a token of non-zero weight");
        if (rules->least != rules->most)
            continue;
        double u = uniform_of(row, i), before = ids[i] == 0 ? 0.0 : rules->running[ids[i] - 1];
        require(before / rules->total <= u + RULES_SLACK &&
                    rules->running[ids[i]] / rules->total >= u - RULES_SLACK,
                "the token at u of the running weight");
    }
}

static bool near(double a, double b)
{
    return fabs(a - b) <= EXACT_SLACK * (1.0 + fabs(b));
}

static void check_logprobs(const struct row *row, const struct rules *rules)
{
    const int32_t *ids = row->result->token_ids + row->index * row->request->n;
    const double *logprobs = row->result->logprobs + row->index * row->request->n;
    for (uint32_t i = 0; i < row->request->n; i++) {
        require(logprobs[i] <= 0.0 && logprobs[i] > -INFINITY, "a log-probability");
        if (rules->least == rules->most)
            require(near(logprobs[i], rules_logprob(rules, ids[i])), "the log-probability of the token");
    }
}

static void check_candidates(const struct row *row, const struct rules *rules)
{
    size_t most = row->result->max_candidates, count = row->result->num_candidates[row->index];
    const int32_t *ids = row->result->top_token_ids + row->index * most;
    const double *probs = row->result->top_probs + row->index * most;
    const double *logprobs = row->result->top_logprobs + row->index * most;
    double sum = 0.0;
    require(count <= most && count <= rules->most, "candidates that are kept");
    for (size_t i = 0; i < count; i++) {
        require(ids[i] == rules->order[i], "candidates by falling logit, lower id first");
        require(probs[i] > 0.0 && (i == 0 || probs[i] <= probs[i - 1]), "falling probabilities above 0");
        require(logprobs[i] <= 0.0, "a candidate's log-probability");
        sum += probs[i];
        if (rules->least != rules->most)
            continue;
        double prob = rules_weight(rules, ids[i]) / rules->total;
        require(fabs(probs[i] - prob) <= EXACT_SLACK * prob + DBL_MIN, "a candidate's probability");
        require(near(logprobs[i], rules_logprob(rules, ids[i])),
                "the logarithm of a candidate's probability");
    }
    require(sum <= 1.0 + EXACT_SLACK, "probabilities of at most 1");
    if (count < most && count < rules->least)
        require(rules_weight(rules, rules->order[count]) / rules->total < DBL_MIN,
                "every candidate that is kept");
}

/* Log-probabilities and candidates. */
static void check_report(const struct row *row, const struct rules *rules)
{
    if (row->request->logprobs)
        check_logprobs(row, rules);
    if (row->result->max_candidates > 0)
        check_candidates(row, rules);
}

static void check_sampled(const struct row *row, const float *z)
{
    const struct sample_request *r = row->request;
    double temperature = column_at(&r->temperature, row->index);
    bool greedy = (float)temperature <= 0.0f;
    struct rules rules;
    if (!greedy) {
        rules_init(&rules, z, r->vocab_size, temperature, column_at(&r->top_k, row->index),
                   column_at(&r->top_p, row->index));
        check_draws(row, &rules, false);
        if (r->logprobs_mode == LOGPROBS_PROCESSED)
            check_report(row, &rules);
        rules_fini(&rules);
    }
    if (greedy || r->logprobs_mode == LOGPROBS_RAW) {
        rules_init(&rules, z, r->vocab_size, 1.0, 0, 1);
        if (greedy)
            check_draws(row, &rules, true);
        check_report(row, &rules);
        rules_fini(&rules);
    }
}

static bool all_below_infinity(const float *z, size_t n)
{
    bool below = true;
    for (size_t i = 0; i < n; i++)
        below &= z[i] < INFINITY;
    return below;
}

static bool is_samplable(const float *z, size_t n)
{
    bool unmasked = false;
    for (size_t i = 0; i < n; i++)
        unmasked |= z[i] > -INFINITY;
    return unmasked && all_below_infinity(z, n);
}

static const float *stack_row(const struct sample_request *r, size_t stack, size_t row)
{
    return r->logits + (stack * r->batch_size + row) * r->vocab_size;
}

/* What mixing makes of one token, against the sum in float64; not where float32 may overflow. */
static void check_mixed_token(const struct sample_request *r, size_t row, size_t id, float mixed)
{
    double sum = 0.0, size = 0.0;
    bool masked = false;
    for (size_t m = 0; m < r->num_stacks; m++) {
        double z = stack_row(r, m, row)[id], weight = r->mix == NULL ? 1.0 : r->mix[m];
        masked |= z == -INFINITY && weight != 0.0;
        double part = z == -INFINITY ? 0.0 : weight * z;
        sum += part;
        size += fabs(part);
    }
    double bias = r->bias == NULL ? 0.0 : r->bias[(r->bias_rows == 1 ? 0 : row) * r->vocab_size + id];
    masked |= bias == -INFINITY;
    bias = masked ? 0.0 : bias;
    size += fabs(bias);
    if (!(size < 0.99 * FLT_MAX))
        return;
    if (masked)
        require(mixed == -INFINITY, "a masked token stays masked");
    else
        require(fabs(mixed - (sum + bias)) <= 0x1p-21 * size + 0x1p-140, "the sum of the stacks");
}

/* The row as it is sampled, in z[vocab_size]; false when a stack has NaN or +inf. */
static bool mix(const struct sample_request *r, size_t row, float *z)
{
    struct arena scratch;
    struct error err;
    bool clean = true;
    for (size_t m = 0; m < r->num_stacks; m++)
        clean &= all_below_infinity(stack_row(r, m, row), r->vocab_size);
    require(arena_init(&scratch, mix_scratch_bytes(r), &err) == STATUS_OK, "memory");
    enum status status = mix_row(r, row, &scratch, z, &err);
    require(r->mix == NULL || status == (clean ? STATUS_OK : STATUS_UNSAMPLABLE),
            "stacks are looked through");
    for (size_t id = 0; status == STATUS_OK && clean && id < r->vocab_size; id++)
        check_mixed_token(r, row, id, z[id]);
    arena_fini(&scratch);
    return status == STATUS_OK;
}

/* ---- sampling ---- */

/* A worker's sampler for this table, which lives as long as the process. */
static struct sampler *sampler_of(size_t table)
{
    static struct sampler samplers[MAX_TABLES];
    struct error err;
    require(table < MAX_TABLES, "room for every table");
    if (samplers[table].kernels == NULL)
        require(sampler_init(&samplers[table], kernels_tables[table], &err) == STATUS_OK, "a sampler");
    return &samplers[table];
}

/* Sample one row in scratch that holds this byte, as far as most rows use it. */
static enum status sample(size_t table, const struct sample_request *r, size_t row, int byte,
                          struct sample_result *result, struct error *err)
{
    struct sampler *sampler = sampler_of(table);
    size_t used = 128 * r->vocab_size + ((size_t)1 << 16);
    require(sampler_reserve(sampler, r, err) == STATUS_OK, "scratch");
    memset(sampler->scratch.base, byte, used < sampler->scratch.capacity ? used : sampler->scratch.capacity);
    sampling = true;
    enum status status = sampler_run_row(sampler, r, row, result, err);
    sampling = false;
    require(allocations == 0, "nothing is allocated while a row is sampled");
    return status;
}

static void require_same(const struct sample_request *r, size_t a_row, const struct sample_result *a,
                         size_t b_row, const struct sample_result *b)
{
    size_t n = r->n, most = a->max_candidates, count = most == 0 ? 0 : a->num_candidates[a_row];
    require(memcmp(a->token_ids + a_row * n, b->token_ids + b_row * n, n * sizeof *a->token_ids) == 0,
            "the same tokens");
    if (a->logprobs != NULL)
        require(memcmp(a->logprobs + a_row * n, b->logprobs + b_row * n, n * sizeof *a->logprobs) == 0,
                "the same log-probabilities");
    require(most == 0 || count == b->num_candidates[b_row], "as many candidates");
    a_row *= most;
    b_row *= most;
    require(memcmp(a->top_token_ids + a_row, b->top_token_ids + b_row, count * sizeof(int32_t)) == 0 &&
                memcmp(a->top_probs + a_row, b->top_probs + b_row, count * sizeof(double)) == 0 &&
                memcmp(a->top_logprobs + a_row, b->top_logprobs + b_row, count * sizeof(double)) == 0,
            "the same candidates");
}

/* The other tables, against what the first made of the row. */
static void check_tables(const struct sample_request *r, size_t row, enum status status,
                         const struct error *err, const struct sample_result *result)
{
    struct sample_result other;
    struct error fault;
    require(sampler_result_init(&other, r, &fault) == STATUS_OK, "memory");
    for (size_t t = 1; kernels_tables[t] != NULL; t++) {
        if (!kernels_tables[t]->supported())
            continue;
        require(sample(t, r, row, 0xff, &other, &fault) == status, "the same status from every table");
        if (status == STATUS_OK)
            require_same(r, row, result, row, &other);
        else
            require(strcmp(fault.message, err->message) == 0, "the same error from every table");
    }
    sampler_result_fini(&other);
}

/* A row with a seed of its own, sampled by itself: its place in the batch does not count. */
static void check_alone(const struct problem *p, size_t row, const struct sample_result *result)
{
    struct problem alone = *p;
    struct sample_request *r = &alone.request;
    struct sample_result other;
    struct error err;
    size_t n = r->vocab_size;
    float *logits = room(r->num_stacks * n, sizeof *logits);
    for (size_t m = 0; m < r->num_stacks; m++)
        memcpy(logits + m * n, stack_row(&p->request, m, row), n * sizeof *logits);
    r->logits = logits;
    r->batch_size = 1;
    if (r->bias_rows > 1)
        r->bias += row * n;
    r->bias_rows = r->bias_rows > 1 ? 1 : r->bias_rows;
    double temperature = column_at(&r->temperature, row), top_k = column_at(&r->top_k, row);
    double top_p = column_at(&r->top_p, row);
    uint64_t seed = column_u64_at(&r->seed, row), offset = column_u64_at(&r->offset, row);
    r->temperature = (struct column){&temperature, false};
    r->top_k = (struct column){&top_k, false};
    r->top_p = (struct column){&top_p, false};
    r->seed = (struct column_u64){&seed, true};
    r->offset = (struct column_u64){&offset, false};
    require(sampler_result_init(&other, r, &err) == STATUS_OK, "memory");
    require(sample(0, r, 0, 0x7f, &other, &err) == STATUS_OK, "alone as in the batch");
    require_same(r, row, result, 0, &other);
    sampler_result_fini(&other);
    free(logits);
}

static void check_row(const struct problem *p, size_t index, struct sample_result *result)
{
    const struct sample_request *r = &p->request;
    struct row row = {r, result, index};
    struct error err = {.status = STATUS_OK};
    float *z = room(r->vocab_size, sizeof *z);
    bool samplable = mix(r, index, z) && is_samplable(z, r->vocab_size);
    enum status status = sample(0, r, index, 0x00, result, &err);
    require(status == (samplable ? STATUS_OK : STATUS_UNSAMPLABLE), "a row is refused for its logits alone");
    if (samplable)
        check_sampled(&row, z);
    else
        require(err.status == status && err.row == index && err.param != NULL && err.message[0] != '\0',
                "an error that names the row");
    check_tables(r, index, status, &err, result);
    if (samplable && r->batch_size > 1 && r->seed.per_row)
        check_alone(p, index, result);
    free(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem;
    struct sample_result result;
    struct error err;
    setup();
    problem_init(&problem, data, size);
    require(sampler_result_init(&result, &problem.request, &err) == STATUS_OK, "memory");
    for (size_t row = 0; row < problem.request.batch_size; row++)
        check_row(&problem, row, &result);
    sampler_result_fini(&result);
    problem_fini(&problem);
    return 0;
}
