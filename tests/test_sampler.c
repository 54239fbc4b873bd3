/* The meaning of a row: golden results, golden draws, real rows, and the corners of every parameter. */
#include "core/sampler.h"

#include "tests/support.h"

/* A request of one row and scalar parameters, with room for its columns. */
struct fixture {
    struct sample_request request;
    struct sample_result  result;
    struct sampler        sampler;
    struct error          err;
    double                temperature, top_k, top_p;
    uint64_t              seed, offset;
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
        .temperature = {&f->temperature, false},
        .top_k = {&f->top_k, false},
        .top_p = {&f->top_p, false},
        .seed = {&f->seed, false},
        .offset = {&f->offset, false},
        .n = 1,
    };
    ck_assert_int_eq(sampler_init(&f->sampler, table, &f->err), STATUS_OK);
}

static enum status fixture_run(struct fixture *f)
{
    sampler_result_fini(&f->result);
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
    ck_assert_msg(f->result.num_candidates[0] == kept, "%s: %u kept, not %zu", name, f->result.num_candidates[0], kept);
    int32_t sorted[1024];
    memcpy(sorted, f->result.top_token_ids, kept * sizeof *sorted);
    qsort(sorted, kept, sizeof *sorted, compare_ids);
    for (size_t i = 0; i < kept; i++) {
        int id = cJSON_GetArrayItem(ids, (int)i)->valueint;
        ck_assert_msg(sorted[i] == id, "%s: token %d kept instead of %d", name, sorted[i], id);
        double prob = cJSON_GetArrayItem(probs, (int)i)->valuedouble;
        for (size_t j = 0; j < kept; j++)
            if (f->result.top_token_ids[j] == id)
                ck_assert_msg(fabs(f->result.top_probs[j] - prob) <= 3e-6, "%s: token %d has %.9g, not %.9g", name, id,
                              f->result.top_probs[j], prob);
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
        ck_assert_msg(fabs(f->result.num_candidates[0] - kept) <= slack, "%s T=%g k=%g p=%g: %u kept, not %g", file,
                      f->temperature, f->top_k, f->top_p, f->result.num_candidates[0], kept);
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

int main(void)
{
    const char *why;
    table = kernels_select("auto", &why);
    Suite *suite = suite_create("sampler");
    TCase *golden = tcase_create("golden");
    tcase_set_timeout(golden, 300);
    tcase_add_test(golden, golden_reference);
    tcase_add_test(golden, golden_draws);
    tcase_add_test(golden, real_rows);
    suite_add_tcase(suite, golden);
    return run_suite(suite);
}
