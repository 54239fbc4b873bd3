/*
 * libFuzzer target of core/sampler.c: the input spells out a request (problem.h).
 *
 * Every row is sampled by every kernel table of this CPU, which must agree bit for bit whatever the scratch
 * held before, and the answer is held to the rules computed a second time, plainly and in float64.  A row
 * is refused if and only if it has NaN, +inf or no unmasked token, or candidate ids that it may not have.
 * With rules beside temperature, top_k and top_p, whose meaning other tests hold to the engines, the tokens
 * are those of the row that are not masked.  Nothing is allocated meanwhile.
 */
#include "core/row/mix.h"
#include "core/row/rng.h"
#include "core/rules/chain.h"
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
    float *z;     /* [vocab_size] as it is sampled, ids ascending */
    int32_t *ids; /* [vocab_size] */
};

/* Where a token of the answer stands in the row. */
static int32_t place_of(const struct row *row, int32_t id)
{
    size_t low = 0, high = row->request->vocab_size;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (row->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    require(low < row->request->vocab_size && row->ids[low] == id, "an id of the row");
    return (int32_t)low;
}

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

static void check_draws(const struct row *row, const struct rules *plain, bool greedy)
{
    for (uint32_t i = 0; i < row->request->n; i++) {
        int32_t at = place_of(row, row->result->token_ids[row->index * row->request->n + i]);
        if (greedy) {
            require(at == plain->order[0], "the largest logit, the lowest id on a tie");
            continue;
        }
        require((size_t)plain->rank[at] < plain->most, "a token that top_k and top_p keep");
        require(rules_exponent(plain, at) * M_LOG2E >= -126.01, "a token of non-zero weight");
        if (plain->least != plain->most)
            continue;
        double u = uniform_of(row, i), before = at == 0 ? 0.0 : plain->running[at - 1];
        require(before / plain->total <= u + RULES_SLACK &&
                    plain->running[at] / plain->total >= u - RULES_SLACK,
                "the token at u of the running weight");
    }
}

static bool near(double a, double b)
{
    return fabs(a - b) <= EXACT_SLACK * (1.0 + fabs(b));
}

static void check_logprobs(const struct row *row, const struct rules *plain)
{
    const int32_t *ids = row->result->token_ids + row->index * row->request->n;
    const double *logprobs = row->result->logprobs + row->index * row->request->n;
    for (uint32_t i = 0; i < row->request->n; i++) {
        require(logprobs[i] <= 0.0 && logprobs[i] > -INFINITY, "a log-probability");
        if (plain->least == plain->most)
            require(near(logprobs[i], rules_logprob(plain, place_of(row, ids[i]))),
                    "the log-probability of the token");
    }
}

static void check_candidates(const struct row *row, const struct rules *plain)
{
    size_t most = row->result->max_candidates, count = row->result->num_candidates[row->index];
    const int32_t *ids = row->result->top_token_ids + row->index * most;
    const double *probs = row->result->top_probs + row->index * most;
    const double *logprobs = row->result->top_logprobs + row->index * most;
    double sum = 0.0;
    require(count <= most && count <= plain->most, "candidates that are kept");
    for (size_t i = 0; i < count; i++) {
        int32_t at = place_of(row, ids[i]);
        require(at == plain->order[i], "candidates by falling logit, lower id first");
        require(probs[i] > 0.0 && (i == 0 || probs[i] <= probs[i - 1]), "falling probabilities above 0");
        require(logprobs[i] <= 0.0, "a candidate's log-probability");
        sum += probs[i];
        if (plain->least != plain->most)
            continue;
        double prob = rules_weight(plain, at) / plain->total;
        require(fabs(probs[i] - prob) <= EXACT_SLACK * prob + DBL_MIN, "a candidate's probability");
        require(near(logprobs[i], rules_logprob(plain, at)), "the logarithm of a candidate's probability");
    }
    require(sum <= 1.0 + EXACT_SLACK, "probabilities of at most 1");
    if (count < most && count < plain->least)
        require(rules_weight(plain, plain->order[count]) / plain->total < DBL_MIN,
                "every candidate that is kept");
}

/* Log-probabilities and candidates. */
static void check_report(const struct row *row, const struct rules *plain)
{
    if (row->request->logprobs)
        check_logprobs(row, plain);
    if (row->result->max_candidates > 0)
        check_candidates(row, plain);
}

static void check_sampled(const struct row *row)
{
    const struct sample_request *r = row->request;
    double temperature = rule_number(r, SLOT_temperature, row->index);
    bool greedy = (float)temperature <= 0.0f;
    struct rules plain;
    if (!greedy) {
        rules_init(&plain, row->z, r->vocab_size, temperature, rule_number(r, SLOT_top_k, row->index),
                   rule_number(r, SLOT_top_p, row->index));
        check_draws(row, &plain, false);
        if (r->logprobs_mode == LOGPROBS_PROCESSED)
            check_report(row, &plain);
        rules_fini(&plain);
    }
    if (greedy || r->logprobs_mode == LOGPROBS_RAW) {
        rules_init(&plain, row->z, r->vocab_size, 1.0, 0, 1);
        if (greedy)
            check_draws(row, &plain, true);
        check_report(row, &plain);
        rules_fini(&plain);
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

static const float *stack_row(const struct problem *p, size_t stack, size_t row)
{
    return p->wide + (stack * p->request.batch_size + row) * p->request.vocab_size;
}

/* Add a number of some weight to a sum; -INFINITY masks, unless its weight is 0.  Returns whether it masks.
 */
static bool add(double *sum, double weight, double z)
{
    *sum += z == -INFINITY ? 0.0 : weight * z;
    return z == -INFINITY && weight != 0.0;
}

/* What mixing makes of one token, to the last bit; false where it must be refused. */
static bool mix_token(const struct problem *p, size_t row, size_t at, float *out)
{
    const struct sample_request *r = &p->request;
    double sum = 0.0;
    bool masked = false, clean = true;
    for (size_t m = 0; m < r->num_stacks; m++) {
        float z = stack_row(p, m, row)[at];
        clean &= z < INFINITY;
        masked |= add(&sum, r->mix == NULL ? 1.0 : (double)r->mix[m], (double)z);
    }
    if (r->bias != NULL) {
        float bias = r->bias[(r->bias_rows == 1 ? 0 : row) * r->vocab_size + at];
        clean &= bias < INFINITY;
        masked |= add(&sum, 1.0, (double)bias);
    }
    *out = masked ? -INFINITY : (float)sum;
    return clean && (masked || !isinf(*out));
}

/* Put the row as it is sampled in row->z, but in the order it came; false when a stack has NaN or +inf. */
static bool mix(const struct problem *p, struct row *row)
{
    const struct sample_request *r = &p->request;
    struct arena scratch;
    struct error err;
    bool adds = r->mix != NULL || r->bias != NULL, clean = true;
    float *expected = room(r->vocab_size, sizeof *expected);
    for (size_t i = 0; i < r->vocab_size; i++)
        clean &= mix_token(p, row->index, i, &expected[i]);
    require(arena_init(&scratch, mix_scratch_bytes(r), &err) == STATUS_OK, "memory");
    struct mixed_row mixed = {.z = row->z};
    mixed.lanes = arena_alloc(&scratch, kernels_blocks(r->vocab_size) * KERNELS_LANES, sizeof *mixed.lanes);
    require(mixed.lanes != NULL, "room for lanes");
    enum status status = mix_row(r, row->index, kernels_tables[0], &scratch, &mixed, &err);
    require(!adds || status == (clean ? STATUS_OK : STATUS_UNSAMPLABLE),
            "what is added up is looked through");
    for (size_t i = 0; clean && i < r->vocab_size; i++)
        require(row->z[i] == expected[i], "the sum of the stacks and the bias");
    free(expected);
    arena_fini(&scratch);
    return status == STATUS_OK;
}

struct candidate {
    int32_t id;
    float z;
};

static int compare_candidates(const void *left, const void *right)
{
    int32_t a = ((const struct candidate *)left)->id, b = ((const struct candidate *)right)->id;
    return a < b ? -1 : a > b;
}

/* Put the row in the order of its ids; false when one is negative or comes twice. */
static bool put_in_order(struct row *row)
{
    const struct sample_request *r = row->request;
    size_t n = r->vocab_size;
    bool good = true;
    for (size_t i = 0; i < n; i++)
        row->ids[i] = (int32_t)i;
    if (r->candidate_ids == NULL)
        return true;
    struct candidate *all = room(n, sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = (struct candidate){r->candidate_ids[row->index * n + i], row->z[i]};
    qsort(all, n, sizeof *all, compare_candidates);
    for (size_t i = 0; i < n; i++) {
        row->z[i] = all[i].z;
        row->ids[i] = all[i].id;
        good &= all[i].id >= 0 && (i == 0 || all[i].id != all[i - 1].id);
    }
    free(all);
    return good;
}

static enum status expected_status(const struct problem *p, struct row *row)
{
    if (!mix(p, row))
        return STATUS_UNSAMPLABLE;
    if (!put_in_order(row))
        return STATUS_INVALID;
    return is_samplable(row->z, p->request.vocab_size) ? STATUS_OK : STATUS_UNSAMPLABLE;
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
    size_t bytes = n * dtype_bytes(r->dtype);
    char *logits = room(r->num_stacks, bytes);
    for (size_t m = 0; m < r->num_stacks; m++)
        memcpy(logits + m * bytes, (const char *)p->logits + (m * r->batch_size + row) * bytes, bytes);
    r->logits = logits;
    r->batch_size = 1;
    if (r->candidate_ids != NULL)
        r->candidate_ids += row * n;
    if (r->bias_rows > 1)
        r->bias += row * n;
    r->bias_rows = r->bias_rows > 1 ? 1 : r->bias_rows;
    static const enum rule_slot slots[] = {SLOT_temperature, SLOT_top_k, SLOT_top_p};
    double values[3];
    uint64_t seed = column_u64_at(&r->seed, row), offset = column_u64_at(&r->offset, row);
    for (size_t i = 0; i < 3; i++) {
        values[i] = rule_number(&p->request, slots[i], row);
        r->rule_values[slots[i]] = (struct rule_value)RULE_NUMBER(&values[i]);
    }
    require(chain_plan(r, &err) == STATUS_OK, "a plan");
    r->seed = (struct column_u64){&seed, true};
    r->offset = (struct column_u64){&offset, false};
    require(sampler_result_init(&other, r, &err) == STATUS_OK, "memory");
    require(sample(0, r, 0, 0x7f, &other, &err) == STATUS_OK, "alone as in the batch");
    require_same(r, row, result, 0, &other);
    sampler_result_fini(&other);
    free(logits);
}

/* Whatever the rules keep, a token is one of the row's, and was not masked before them. */
static void check_tokens(const struct row *row)
{
    const struct sample_request *r = row->request;
    for (uint32_t i = 0; i < r->n; i++) {
        int32_t token = row->result->token_ids[row->index * r->n + i];
        bool found = false;
        for (size_t at = 0; at < r->vocab_size && !found; at++)
            found =
                (r->candidate_ids == NULL ? (int32_t)at : row->ids[at]) == token && row->z[at] > -INFINITY;
        require(found, "a token of the row");
    }
}

static void check_row(const struct problem *p, size_t index, struct sample_result *result)
{
    const struct sample_request *r = &p->request;
    size_t n = r->vocab_size;
    struct row row = {r, result, index, room(n, sizeof(float)), room(n, sizeof(int32_t))};
    struct error err = {.status = STATUS_OK};
    enum status expected = expected_status(p, &row), status = sample(0, r, index, 0x00, result, &err);
    bool masked = p->has_rules && status == STATUS_UNSAMPLABLE && strcmp(err.code, "fully_masked") == 0;
    require(status == expected || masked, "a row is refused for its logits, its ids and masks alone");
    if (status == STATUS_OK && p->has_rules)
        check_tokens(&row);
    else if (status == STATUS_OK)
        check_sampled(&row);
    else
        require(err.status == status && err.row == index && err.param != NULL && err.message[0] != '\0',
                "an error that names the row");
    check_tables(r, index, status, &err, result);
    if (status == STATUS_OK && r->batch_size > 1 && r->seed.per_row)
        check_alone(p, index, result);
    free(row.z);
    free(row.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem;
    struct sample_result result;
    struct error err;
    setup();
    problem_init(&problem, data, size);
    if (chain_plan(&problem.request, &err) != STATUS_OK) {
        require(problem.has_rules && err.status == STATUS_INVALID && err.param != NULL, "a plan");
        problem_fini(&problem);
        return 0;
    }
    require(sampler_result_init(&result, &problem.request, &err) == STATUS_OK, "memory");
    for (size_t row = 0; row < problem.request.batch_size; row++)
        check_row(&problem, row, &result);
    sampler_result_fini(&result);
    problem_fini(&problem);
    return 0;
}
