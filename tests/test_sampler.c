/* The meaning of a row: golden results, golden draws, real rows, and the corners of every parameter. */
#include "core/rules/chain.h"
#include "core/sampler.h"

#include "tests/support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* A request of one row and scalar parameters, with room for its columns. */
struct fixture {
    struct sample_request request;
    struct sample_result result;
    struct sampler sampler;
    struct error err;
    double temperature, top_k, top_p;
    uint64_t seed, offset;
};

static const struct kernels *table;

static void fixture_init(struct fixture *f, const float *logits, size_t vocab_size)
{
    *f = (struct fixture){.top_p = 1.0};
    f->request = (struct sample_request){
        .logits = logits,
        .num_stacks = 1,
        .batch_size = 1,
        .vocab_size = vocab_size,
        .rule_values = {[SLOT_temperature] = RULE_NUMBER(&f->temperature),
                        [SLOT_top_k] = RULE_NUMBER(&f->top_k),
                        [SLOT_top_p] = RULE_NUMBER(&f->top_p)},
        .seed = {&f->seed, false},
        .offset = {&f->offset, false},
        .n = 1,
    };
    ck_assert_int_eq(sampler_init(&f->sampler, table, &f->err), STATUS_OK);
}

static enum status fixture_run(struct fixture *f)
{
    sampler_result_fini(&f->result);
    if (chain_plan(&f->request, &f->err) != STATUS_OK)
        return f->err.status;
    ck_assert_int_eq(sampler_result_init(&f->result, &f->request, &f->err), STATUS_OK);
    ck_assert_int_eq(sampler_reserve(&f->sampler, &f->request, &f->err), STATUS_OK);
    for (size_t row = 0; row < f->request.batch_size; row++)
        if (sampler_run_row(&f->sampler, &f->request, row, &f->result, &f->err) != STATUS_OK)
            return f->err.status;
    return STATUS_OK;
}

static void fixture_fini(struct fixture *f)
{
    sampler_result_fini(&f->result);
    sampler_fini(&f->sampler);
}

static int compare_ids(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void check_kept(struct fixture *f, const cJSON *c, const char *name)
{
    const cJSON *ids = cJSON_GetObjectItem(c, "kept_token_ids"), *probs = cJSON_GetObjectItem(c, "probs");
    size_t kept = (size_t)cJSON_GetArraySize(ids);
    ck_assert_msg(f->result.num_candidates[0] == kept, "%s: %u kept, not %zu", name,
                  f->result.num_candidates[0], kept);
    int32_t sorted[1024];
    memcpy(sorted, f->result.top_token_ids, kept * sizeof *sorted);
    qsort(sorted, kept, sizeof *sorted, compare_ids);
    for (size_t i = 0; i < kept; i++) {
        int id = cJSON_GetArrayItem(ids, (int)i)->valueint;
        ck_assert_msg(sorted[i] == id, "%s: token %d kept instead of %d", name, sorted[i], id);
        double prob = cJSON_GetArrayItem(probs, (int)i)->valuedouble;
        for (size_t j = 0; j < kept; j++)
            if (f->result.top_token_ids[j] == id)
                ck_assert_msg(fabs(f->result.top_probs[j] - prob) <= 3e-6, "%s: token %d has %.9g, not %.9g",
                              name, id, f->result.top_probs[j], prob);
    }
}

START_TEST(golden_reference)
{
    cJSON *root = read_json("reference.json");
    const cJSON *c;
    int cases = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases"))
    {
        size_t n;
        float *row = json_row(cJSON_GetObjectItem(c, "logits"), &n);
        struct fixture f;
        fixture_init(&f, row, n);
        f.temperature = json_number(c, "temperature");
        f.top_k = json_number(c, "top_k");
        f.top_p = json_number(c, "top_p");
        f.request.top_candidates = 1024;
        const char *name = cJSON_GetObjectItem(c, "name")->valuestring;
        ck_assert_msg(fixture_run(&f) == STATUS_OK, "%s: %s", name, f.err.message);
        const cJSON *greedy = cJSON_GetObjectItem(c, "greedy_token_id");
        if (greedy != NULL)
            ck_assert_msg(f.result.token_ids[0] == greedy->valueint, "%s: %d", name, f.result.token_ids[0]);
        else
            check_kept(&f, c, name);
        fixture_fini(&f);
        free(row);
        cases++;
    }
    ck_assert_int_eq(cases, 451);
    cJSON_Delete(root);
}
END_TEST

static uint64_t word_of(const cJSON *item)
{
    return cJSON_IsString(item) ? strtoull(item->valuestring, NULL, 10) : (uint64_t)item->valuedouble;
}

/* A column of words from one value or an array; the caller frees the values. */
static struct column_u64 words_of(const cJSON *item)
{
    bool per_row = cJSON_IsArray(item);
    size_t n = per_row ? (size_t)cJSON_GetArraySize(item) : 1;
    uint64_t *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = word_of(per_row ? cJSON_GetArrayItem(item, (int)i) : item);
    return (struct column_u64){values, per_row};
}

static float *batch_of(const cJSON *rows, size_t *batch_size, size_t *vocab_size)
{
    *batch_size = (size_t)cJSON_GetArraySize(rows);
    *vocab_size = (size_t)cJSON_GetArraySize(cJSON_GetArrayItem(rows, 0));
    float *logits = malloc(*batch_size * *vocab_size * sizeof *logits);
    for (size_t b = 0; b < *batch_size; b++) {
        size_t n;
        float *row = json_row(cJSON_GetArrayItem(rows, (int)b), &n);
        ck_assert_uint_eq(n, *vocab_size);
        memcpy(logits + b * n, row, n * sizeof *row);
        free(row);
    }
    return logits;
}

START_TEST(golden_draws)
{
    cJSON *root = read_json("draws.json");
    const cJSON *c;
    int cases = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases"))
    {
        size_t batch_size, vocab_size;
        float *logits = batch_of(cJSON_GetObjectItem(c, "logits"), &batch_size, &vocab_size);
        struct fixture f;
        fixture_init(&f, logits, vocab_size);
        f.request.batch_size = batch_size;
        f.temperature = json_number(c, "temperature");
        f.top_k = json_number(c, "top_k");
        f.top_p = json_number(c, "top_p");
        f.request.n = (uint32_t)json_number(c, "n");
        f.request.seed = words_of(cJSON_GetObjectItem(c, "seed"));
        f.request.offset = words_of(cJSON_GetObjectItem(c, "offset"));
        ck_assert_int_eq(fixture_run(&f), STATUS_OK);
        const cJSON *rows = cJSON_GetObjectItem(c, "token_ids");
        for (size_t i = 0; i < batch_size * f.request.n; i++) {
            const cJSON *row = cJSON_GetArrayItem(rows, (int)(i / f.request.n));
            int expected = cJSON_GetArrayItem(row, (int)(i % f.request.n))->valueint;
            ck_assert_msg(f.result.token_ids[i] == expected, "case %d, draw %zu: %d, not %d", cases, i,
                          f.result.token_ids[i], expected);
        }
        free((void *)f.request.seed.values);
        free((void *)f.request.offset.values);
        fixture_fini(&f);
        free(logits);
        cases++;
    }
    ck_assert_int_eq(cases, 200);
    cJSON_Delete(root);
}
END_TEST

static void check_real_case(struct fixture *f, const cJSON *c, const char *file)
{
    f->temperature = json_number(c, "temperature");
    f->top_k = json_number(c, "top_k");
    f->top_p = json_number(c, "top_p");
    const cJSON *ids = cJSON_GetObjectItem(c, "token_ids"), *seed = cJSON_GetObjectItem(c, "seed");
    f->seed = seed == NULL ? 0 : (uint64_t)seed->valuedouble;
    f->request.n = (uint32_t)cJSON_GetArraySize(ids);
    f->request.top_candidates = f->temperature > 0 ? (uint32_t)f->request.vocab_size : 0;
    ck_assert_msg(fixture_run(f) == STATUS_OK, "%s: %s", file, f->err.message);
    for (uint32_t i = 0; i < f->request.n; i++)
        ck_assert_msg(f->result.token_ids[i] == cJSON_GetArrayItem(ids, (int)i)->valueint,
                      "%s T=%g k=%g p=%g: draw %u is %d", file, f->temperature, f->top_k, f->top_p, i,
                      f->result.token_ids[i]);
    const cJSON *within = cJSON_GetObjectItem(c, "kept_within");
    double kept = json_number(c, "kept"), slack = within == NULL ? 0 : within->valuedouble;
    if (f->temperature > 0)
        ck_assert_msg(fabs(f->result.num_candidates[0] - kept) <= slack, "%s T=%g k=%g p=%g: %u kept, not %g",
                      file, f->temperature, f->top_k, f->top_p, f->result.num_candidates[0], kept);
}

START_TEST(real_rows)
{
    cJSON *root = read_json("rows.json");
    const cJSON *row, *c;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(root, "rows"))
    {
        const char *file = cJSON_GetObjectItem(row, "file")->valuestring;
        size_t n;
        float *logits = real_row(file, &n);
        struct fixture f;
        fixture_init(&f, logits, n);
        cJSON_ArrayForEach(c, cJSON_GetObjectItem(row, "cases")) check_real_case(&f, c, file);
        fixture_fini(&f);
        free(logits);
    }
    cJSON_Delete(root);
}
END_TEST

/* ---- corners ---- */

/* Token of one draw, or -1 with the error left in f. */
static int32_t sample_one(struct fixture *f)
{
    return fixture_run(f) == STATUS_OK ? f->result.token_ids[0] : -1;
}

START_TEST(greedy_takes_the_lowest_id_of_a_tie)
{
    float z[] = {-0.0f, 0.0f, -1.0f, 0.0f}, later[5000];
    static const double temperatures[] = {0.0, -0.0, -3.0, 1e-300, 1e-46};
    struct fixture f;
    fixture_init(&f, z, 4);
    for (size_t i = 0; i < 5; i++) {
        f.temperature = temperatures[i];
        ck_assert_int_eq(sample_one(&f), 0);
    }
    for (size_t i = 0; i < 5000; i++)
        later[i] = (float)(i % 97);
    f.request.logits = later + 1; /* an odd alignment: the first 96 is then at 95 */
    f.request.vocab_size = 4999;
    ck_assert_int_eq(sample_one(&f), 95);
    later[4321] = later[4999] = 1000.0f;
    ck_assert_int_eq(sample_one(&f), 4320);
    fixture_fini(&f);
}
END_TEST

START_TEST(one_token_is_always_drawn)
{
    float z[] = {-7.5f};
    static const double temperatures[] = {0, 1e-45, 1e-38, 1, 1e38, 1e300}, ps[] = {0, 1e-300, 0.5, 1};
    struct fixture f;
    fixture_init(&f, z, 1);
    f.request.logprobs = true;
    for (size_t t = 0; t < 6; t++) {
        for (size_t p = 0; p < 4; p++) {
            f.temperature = temperatures[t];
            f.top_p = ps[p];
            f.top_k = 40;
            ck_assert_int_eq(sample_one(&f), 0);
            ck_assert_double_eq(f.result.logprobs[0], 0.0);
        }
    }
    fixture_fini(&f);
}
END_TEST

START_TEST(extreme_temperatures)
{
    float z[] = {1.0f, 3.0f, 3.0f, -INFINITY, 2.0f}, far[] = {-3e38f, 3e38f, 0.0f};
    struct fixture f;
    fixture_init(&f, z, 5);
    f.request.n = 1000;
    f.temperature = 1e-38; /* only the tie at the top is left */
    ck_assert_int_eq(fixture_run(&f), STATUS_OK);
    for (int i = 0; i < 1000; i++)
        ck_assert(f.result.token_ids[i] == 1 || f.result.token_ids[i] == 2);
    f.temperature = 1e38; /* flat, but a masked token stays masked */
    int seen[5] = {0};
    ck_assert_int_eq(fixture_run(&f), STATUS_OK);
    for (int i = 0; i < 1000; i++)
        seen[f.result.token_ids[i]]++;
    ck_assert(seen[3] == 0 && seen[0] > 190 && seen[1] > 190 && seen[2] > 190 && seen[4] > 190);
    fixture_fini(&f);

    fixture_init(&f, far, 3); /* z - max overflows float32; exp(-6e38 / 3e38) = 0.135 does not */
    f.temperature = 3e38;
    f.request.top_candidates = 3;
    f.request.n = 1000;
    int low = 0;
    ck_assert_int_eq(fixture_run(&f), STATUS_OK);
    for (int i = 0; i < 1000; i++)
        low += f.result.token_ids[i] == 0;
    double total = 1 + exp(-1) + exp(-2);
    ck_assert_double_eq_tol(f.result.top_probs[2], exp(-2) / total, 1e-6);
    ck_assert_int_gt(low, 50);
    ck_assert_int_lt(low, 140);
    fixture_fini(&f);
}
END_TEST

START_TEST(off_means_off)
{
    float z[] = {0.5f, 0.25f, 0.0f, -1.0f, -90.0f};
    static const double off[][2] = {{0, 1}, {0, 0}, {-1, 1}, {5, 1}, {1e300, 0}, {-1e300, -0.0}};
    struct fixture f;
    fixture_init(&f, z, 5);
    f.temperature = 1.0;
    f.request.top_candidates = 10;
    for (size_t i = 0; i < 6; i++) {
        f.top_k = off[i][0];
        f.top_p = off[i][1];
        ck_assert_int_eq(fixture_run(&f), STATUS_OK);
        ck_assert_uint_eq(f.result.num_candidates[0], 5);
    }
    fixture_fini(&f);
}
END_TEST

START_TEST(bad_rows_are_named)
{
    static const size_t lengths[] = {1, 2, 64, 300, 2048, 2500};
    static const float bad[] = {NAN, -NAN, INFINITY};
    float z[2500];
    struct fixture f;
    for (size_t l = 0; l < 6; l++) {
        size_t n = lengths[l];
        fixture_init(&f, z, n);
        for (size_t i = 0; i < n; i++)
            z[i] = (float)(i % 7);
        for (size_t at = 0; at<n; at += n> 300 ? 13 : 1) {
            for (size_t b = 0; b < 3; b++) {
                char where[32];
                snprintf(where, sizeof where, "at token %zu;", at);
                z[at] = bad[b];
                ck_assert_int_eq(fixture_run(&f), STATUS_UNSAMPLABLE);
                ck_assert_msg(strstr(f.err.message, where) != NULL, "%s", f.err.message);
                ck_assert(f.err.row == 0 && strcmp(f.err.param, "logits") == 0);
                z[at] = 0.0f;
            }
        }
        for (size_t i = 0; i < n; i++)
            z[i] = -INFINITY;
        ck_assert_int_eq(fixture_run(&f), STATUS_UNSAMPLABLE);
        ck_assert_ptr_nonnull(strstr(f.err.message, "masks every token"));
        z[n - 1] = -3.0e38f;
        ck_assert_int_eq(sample_one(&f), (int)n - 1);
        fixture_fini(&f);
    }
}
END_TEST

START_TEST(a_bad_bias_is_named)
{
    static const float bad[] = {NAN, INFINITY};
    float z[300] = {0}, bias[300] = {0};
    struct fixture f;
    fixture_init(&f, z, 300);
    f.request.bias = bias;
    for (size_t at = 0; at < 300; at += 13) {
        for (size_t b = 0; b < 4; b++) {
            bias[at] = bad[b % 2];
            z[at] = b < 2 ? 1.0f : -INFINITY;
            f.request.bias_rows = 1;
            ck_assert_int_eq(fixture_run(&f), STATUS_UNSAMPLABLE);
            ck_assert_msg(strncmp(f.err.message, "row 0 of bias is ", 17) == 0, "%s", f.err.message);
            ck_assert(f.err.row == 0 && strcmp(f.err.param, "bias") == 0);
            bias[at] = 0.0f;
        }
    }
    fixture_fini(&f);
}
END_TEST

START_TEST(logprobs_match_float64)
{
    float z[300];
    uint64_t state = 12;
    double total = 0, raw_total = 0, temperature = 0.7;
    for (size_t i = 0; i < 300; i++) {
        z[i] = next_logit(&state, 2.0);
        total += exp(z[i] / temperature);
        raw_total += exp(z[i]);
    }
    struct fixture f;
    fixture_init(&f, z, 300);
    f.temperature = temperature;
    f.request.n = 20;
    f.request.logprobs = true;
    f.request.top_candidates = 5;
    for (int mode = LOGPROBS_PROCESSED; mode <= LOGPROBS_RAW; mode++) {
        f.request.logprobs_mode = (enum logprobs_mode)mode;
        ck_assert_int_eq(fixture_run(&f), STATUS_OK);
        for (int i = 0; i < 20; i++) {
            double x = z[f.result.token_ids[i]];
            double expected = mode == LOGPROBS_RAW ? x - log(raw_total) : x / temperature - log(total);
            ck_assert_double_eq_tol(f.result.logprobs[i], expected, 1e-12);
        }
        for (int i = 0; i < 5; i++) {
            double x = z[f.result.top_token_ids[i]];
            double expected = mode == LOGPROBS_RAW ? exp(x) / raw_total : exp(x / temperature) / total;
            ck_assert_double_eq_tol(f.result.top_probs[i], expected, 1e-12);
            ck_assert_double_eq_tol(f.result.top_logprobs[i], log(expected), 1e-11);
        }
    }
    fixture_fini(&f);
}
END_TEST

/* Raw candidates are the row's likeliest, whether top_k and top_p kept them or not; a greedy row's too. */
START_TEST(raw_candidates_ignore_the_rules)
{
    float z[] = {1.0f, 4.0f, 3.0f, 2.0f};
    struct fixture f;
    fixture_init(&f, z, 4);
    f.top_k = 1;
    f.request.top_candidates = 3;
    static const int32_t likeliest[] = {1, 2, 3};
    for (int greedy = 0; greedy <= 1; greedy++) {
        f.temperature = greedy ? 0 : 0.5;
        f.request.logprobs_mode = greedy ? LOGPROBS_PROCESSED : LOGPROBS_RAW;
        ck_assert_int_eq(fixture_run(&f), STATUS_OK);
        ck_assert_uint_eq(f.result.num_candidates[0], 3);
        ck_assert_mem_eq(f.result.top_token_ids, likeliest, sizeof likeliest);
        ck_assert_double_eq_tol(f.result.top_probs[0], exp(4) / (exp(1) + exp(2) + exp(3) + exp(4)), 1e-12);
    }
    f.temperature = 0.5;
    f.request.logprobs_mode = LOGPROBS_PROCESSED;
    ck_assert_int_eq(fixture_run(&f), STATUS_OK);
    ck_assert_uint_eq(f.result.num_candidates[0], 1);
    fixture_fini(&f);
}
END_TEST

/* Any order of the candidates gives the same draws: those of a row where all other tokens are masked. */
START_TEST(candidates_are_a_row_with_gaps)
{
    enum { V = 3000, K = 700 };
    static float whole[V], z[K];
    static int32_t ids[K];
    uint64_t state = 33;
    for (size_t i = 0; i < V; i++)
        whole[i] = -INFINITY;
    for (size_t i = 0; i < K; i++)
        whole[(i * 1999 + 7) % V] = (float)(int)next_logit(&state, 3.0);
    static const double cases[][3] = {{0, 0, 1}, {1, 0, 1}, {1, 40, 0.9}, {0.7, 3, 1}};
    for (size_t c = 0; c < 4; c++) {
        for (size_t shuffle = 0; shuffle < 3; shuffle++) {
            for (size_t i = 0; i < K; i++) {
                size_t at = shuffle == 0 ? i : shuffle == 1 ? K - 1 - i : (i * 37) % K;
                ids[i] = (int32_t)((at * 1999 + 7) % V);
                z[i] = whole[ids[i]];
            }
            struct fixture f, g;
            fixture_init(&f, whole, V);
            fixture_init(&g, z, K);
            g.request.candidate_ids = ids;
            struct fixture *both[] = {&f, &g};
            for (size_t i = 0; i < 2; i++) {
                both[i]->temperature = cases[c][0];
                both[i]->top_k = cases[c][1];
                both[i]->top_p = cases[c][2];
                both[i]->request.n = 50;
                both[i]->request.logprobs = true;
                both[i]->request.top_candidates = 20;
                ck_assert_int_eq(fixture_run(both[i]), STATUS_OK);
            }
            ck_assert_mem_eq(f.result.token_ids, g.result.token_ids, 50 * sizeof(int32_t));
            for (size_t i = 0; i < 50; i++)
                ck_assert_double_eq_tol(f.result.logprobs[i], g.result.logprobs[i], 1e-12);
            ck_assert_uint_eq(f.result.num_candidates[0], g.result.num_candidates[0]);
            ck_assert_mem_eq(f.result.top_token_ids, g.result.top_token_ids,
                             f.result.num_candidates[0] * sizeof(int32_t));
            fixture_fini(&f);
            fixture_fini(&g);
        }
    }
}
END_TEST

START_TEST(bad_candidates_are_named)
{
    float z[] = {1.0f, 2.0f, 3.0f};
    int32_t twice[] = {5, 9, 5}, negative[] = {5, -1, 7};
    struct fixture f;
    fixture_init(&f, z, 3);
    f.request.candidate_ids = twice;
    ck_assert_int_eq(fixture_run(&f), STATUS_INVALID);
    ck_assert_str_eq(f.err.code, "duplicate_id");
    f.request.candidate_ids = negative;
    ck_assert_int_eq(fixture_run(&f), STATUS_INVALID);
    ck_assert_str_eq(f.err.code, "out_of_range");
    ck_assert_str_eq(f.err.param, "candidate_ids");
    fixture_fini(&f);
}
END_TEST

/* bfloat16 rows give what the same values give as float32, alone and mixed. */
START_TEST(halves_sample_like_floats)
{
    size_t n, length;
    float *wide = real_row("shell.bf16", &n);
    char *narrow = read_data("shell.bf16", &length);
    const float mix[] = {1.0f};
    for (int mixed = 0; mixed < 2; mixed++) {
        struct fixture f, g;
        fixture_init(&f, wide, n);
        fixture_init(&g, wide, n);
        g.request.logits = narrow;
        g.request.dtype = DTYPE_BF16;
        g.request.mix = mixed ? mix : NULL;
        f.temperature = g.temperature = 0.9;
        f.top_p = g.top_p = 0.97;
        f.request.n = g.request.n = 64;
        ck_assert_int_eq(fixture_run(&f), STATUS_OK);
        ck_assert_int_eq(fixture_run(&g), STATUS_OK);
        ck_assert_mem_eq(f.result.token_ids, g.result.token_ids, 64 * sizeof(int32_t));
        fixture_fini(&f);
        fixture_fini(&g);
    }
    free(wide);
    free(narrow);
}
END_TEST

/* Rows that rules, candidates and long lists all touch, so that scratch is used to its full size. */
START_TEST(every_table_gives_the_same_answer)
{
    size_t n = 70000;
    float *z = malloc(n * sizeof *z);
    static const double cases[][3] = {{1, 0, 1},   {0.7, 40, 1},       {0.7, 40, 0.95},     {1, 0, 0.95},
                                      {3, 0, 0.9}, {1, 30000, 0.99},   {0.01, 69999, 0.5},  {50, 0, 0.999},
                                      {0, 0, 1},   {1e38, 60000, 0.5}, {1e-40, 60000, 0.5}, {1, 3000, 0}};
    for (int shape = 0; shape < 3; shape++) {
        uint64_t state = 8;
        for (size_t i = 0; i < n; i++) {
            z[i] = shape == 2 ? 1.0f : next_logit(&state, 3.0);
            if (shape == 1)
                z[i] = next_word(&state) % 3 ? (float)(int)(8 * z[i]) / 8 : -INFINITY;
        }
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            struct fixture f[2];
            for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
                if (!(*t)->supported())
                    continue;
                table = *t;
                struct fixture *g = &f[*t != kernels_tables[0]];
                fixture_init(g, z, n);
                g->temperature = cases[c][0];
                g->top_k = cases[c][1];
                g->top_p = cases[c][2];
                g->seed = c;
                g->request.n = 64;
                g->request.logprobs = true;
                g->request.top_candidates = 1024;
                ck_assert_int_eq(fixture_run(g), STATUS_OK);
                ck_assert_mem_eq(g->result.token_ids, f[0].result.token_ids, 64 * sizeof(int32_t));
                ck_assert_mem_eq(g->result.logprobs, f[0].result.logprobs, 64 * sizeof(double));
                uint32_t kept = g->result.num_candidates[0];
                ck_assert_uint_eq(kept, f[0].result.num_candidates[0]);
                ck_assert_mem_eq(g->result.top_token_ids, f[0].result.top_token_ids, kept * sizeof(int32_t));
                ck_assert_mem_eq(g->result.top_probs, f[0].result.top_probs, kept * sizeof(double));
                if (g != &f[0])
                    fixture_fini(g);
            }
            fixture_fini(&f[0]);
        }
    }
    free(z);
}
END_TEST

/* The linker sends every allocation of core/ through here (see the Makefile). */
static size_t allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    allocations++;
    return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    allocations++;
    return __real_aligned_alloc(alignment, size);
}

/* Random parameters; whatever they are, a row of finite logits has a token. */
static void vary(struct fixture *f, uint64_t *state)
{
    static const double top_ks[] = {0, 1, 40, 1000, 20000}, top_ps[] = {0.01, 0.5, 0.95, 0.9999, 1};
    static const double temperatures[] = {0, 0.01, 0.8, 1, 50};
    f->top_k = top_ks[next_word(state) % 5];
    f->top_p = top_ps[next_word(state) % 5];
    f->temperature = temperatures[next_word(state) % 5];
    f->seed = next_word(state);
    f->request.logprobs = next_word(state) % 2 == 0;
    f->request.top_candidates = next_word(state) % 3 * 20;
}

START_TEST(shared_logits_sample_like_others)
{
    enum { V = 30000 };
    uint64_t state = 17;
    float *z = malloc(V * sizeof *z);
    for (size_t i = 0; i < V; i++)
        z[i] = next_word(&state) % 9 == 0 ? -INFINITY : next_logit(&state, 3.0);
    struct fixture own, shared;
    fixture_init(&own, z, V);
    for (int i = 0; i < 100; i++) {
        vary(&own, &state);
        own.request.top_candidates = 20;
        fixture_init(&shared, z, V);
        shared.request = own.request;
        shared.request.logits_are_shared = true;
        ck_assert_int_eq(fixture_run(&own), STATUS_OK);
        ck_assert_int_eq(fixture_run(&shared), STATUS_OK);
        ck_assert_int_eq(own.result.token_ids[0], shared.result.token_ids[0]);
        ck_assert_uint_eq(own.result.num_candidates[0], shared.result.num_candidates[0]);
        ck_assert_mem_eq(own.result.top_probs, shared.result.top_probs,
                         own.result.num_candidates[0] * sizeof *own.result.top_probs);
        fixture_fini(&shared);
    }
    fixture_fini(&own);
    free(z);
}
END_TEST

/* Another process that never leaves the logits alone. */
static pid_t start_scribbler(float *z, size_t n)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    for (uint64_t state = 5; child == 0;) {
        size_t at = next_word(&state) % n;
        switch (next_word(&state) % 64) {
        case 0:
            for (size_t i = 0; i < n; i++)
                z[i] = (float)(state % 3);
            break;
        case 1:
            memset(z + at, 0, (n - at) * sizeof *z);
            break;
        default:
            z[at] = next_logit(&state, 30.0);
        }
    }
    return child;
}

/* Logits that change while they are sampled give some token, or are refused. */
START_TEST(shared_logits_may_change)
{
    enum { V = 20000, STACKS = 2 };
    static const float mix[STACKS] = {1.5F, -0.5F};
    uint64_t state = 23;
    float *z =
        mmap(NULL, STACKS * V * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(z, MAP_FAILED);
    pid_t scribbler = start_scribbler(z, STACKS * V * sizeof(double) / sizeof *z);
    struct fixture f;
    fixture_init(&f, z, V);
    f.request.logits_are_shared = true;
    for (int i = 0; i < 2000; i++) {
        vary(&f, &state);
        f.request.dtype = (enum dtype)(i % 4);
        f.request.num_stacks = i % 2 == 0 ? 1 : STACKS;
        f.request.mix = i % 2 == 0 ? NULL : mix;
        if (fixture_run(&f) == STATUS_OK) {
            ck_assert_int_ge(f.result.token_ids[0], 0);
            ck_assert_int_lt(f.result.token_ids[0], V);
        } else {
            ck_assert_int_eq(f.err.status, STATUS_UNSAMPLABLE);
        }
    }
    kill(scribbler, SIGKILL);
    waitpid(scribbler, NULL, 0);
    fixture_fini(&f);
    munmap(z, STACKS * V * sizeof(double));
}
END_TEST

START_TEST(sampling_a_row_allocates_nothing)
{
    static float z[2][50000];
    uint64_t state = 21;
    for (size_t i = 0; i < 50000; i++) {
        z[0][i] = next_logit(&state, 3.0);
        z[1][i] = next_logit(&state, 0.01);
    }
    static const double cases[][3] = {{0, 0, 1},       {1, 0, 1},    {1, 40, 0.9},
                                      {1, 20000, 0.9}, {1, 0, 0.95}, {9, 0, 0.99}};
    const float mix[] = {1.5f, -0.5f};
    for (size_t c = 0; c < 12; c++) {
        struct fixture f;
        fixture_init(&f, z[0], 50000);
        f.temperature = cases[c % 6][0];
        f.top_k = cases[c % 6][1];
        f.top_p = cases[c % 6][2];
        f.request.logprobs = true;
        f.request.top_candidates = 1024;
        f.request.mix = c < 6 ? NULL : mix;
        f.request.num_stacks = c < 6 ? 1 : 2;
        f.request.bias = c < 6 ? NULL : z[1];
        f.request.bias_rows = c < 6 ? 0 : 1;
        ck_assert_int_eq(sampler_result_init(&f.result, &f.request, &f.err), STATUS_OK);
        ck_assert_int_eq(sampler_reserve(&f.sampler, &f.request, &f.err), STATUS_OK);
        size_t before = allocations;
        enum status status = sampler_run_row(&f.sampler, &f.request, 0, &f.result, &f.err);
        size_t after = allocations;
        ck_assert_int_eq(status, STATUS_OK);
        ck_assert_uint_eq(after, before);
        ck_assert_uint_gt(before, 0); /* the counter counts */
        fixture_fini(&f);
    }
}
END_TEST

static void select_table(void)
{
    const char *why;
    table = kernels_select("auto", &why);
}

int main(void)
{
    Suite *suite = suite_create("sampler");
    TCase *golden = tcase_create("golden"), *corners = tcase_create("corners");
    tcase_set_timeout(golden, 300);
    tcase_set_timeout(corners, 300);
    tcase_add_checked_fixture(golden, select_table, NULL);
    tcase_add_checked_fixture(corners, select_table, NULL);
    tcase_add_test(golden, golden_reference);
    tcase_add_test(golden, golden_draws);
    tcase_add_test(golden, real_rows);
    tcase_add_test(corners, greedy_takes_the_lowest_id_of_a_tie);
    tcase_add_test(corners, one_token_is_always_drawn);
    tcase_add_test(corners, extreme_temperatures);
    tcase_add_test(corners, off_means_off);
    tcase_add_test(corners, bad_rows_are_named);
    tcase_add_test(corners, a_bad_bias_is_named);
    tcase_add_test(corners, logprobs_match_float64);
    tcase_add_test(corners, raw_candidates_ignore_the_rules);
    tcase_add_test(corners, candidates_are_a_row_with_gaps);
    tcase_add_test(corners, bad_candidates_are_named);
    tcase_add_test(corners, halves_sample_like_floats);
    tcase_add_test(corners, every_table_gives_the_same_answer);
    tcase_add_test(corners, shared_logits_sample_like_others);
    tcase_add_test(corners, shared_logits_may_change);
    tcase_add_test(corners, sampling_a_row_allocates_nothing);
    suite_add_tcase(suite, golden);
    suite_add_tcase(suite, corners);
    return run_suite(suite);
}
