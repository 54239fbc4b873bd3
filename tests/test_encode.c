#include "proto/answer/encode.h"

#include "tests/support.h"

/* Write an answer and hold it to its bound and to JSON; the caller frees it. */
static char *encoded(const struct sample_request *request, const struct sample_result *result)
{
    size_t bound = encode_bound(request);
    char *out = malloc(bound + 1);
    size_t n = encode_answer(request, result, out);
    ck_assert_uint_le(n, bound);
    out[n] = '\0';
    cJSON *root = cJSON_Parse(out);
    ck_assert_msg(root != NULL, "%s", out);
    cJSON_Delete(root);
    return out;
}

static const uint64_t seeds[] = {7, UINT64_C(1) << 53, (UINT64_C(1) << 53) + 1, UINT64_MAX};

static struct sample_request one_row(void)
{
    return (struct sample_request){
        .num_stacks = 1, .batch_size = 1, .vocab_size = 4, .n = 1, .seed = {seeds, false}};
}

/* ---- the form ---- */

START_TEST(the_smallest_answer)
{
    int32_t ids[] = {0};
    struct sample_request request = one_row();
    char *out = encoded(&request, &(struct sample_result){.token_ids = ids});
    ck_assert_str_eq(out, "{\"token_ids\":[[0]],\"seed\":7}");
    free(out);
}
END_TEST

START_TEST(candidates)
{
    int32_t ids[] = {0}, top[] = {0, 1, -1};
    uint32_t counts[] = {2};
    double probs[] = {0.92414181997875655, 0.075858180021243546, NAN};
    struct sample_request request = one_row();
    request.top_candidates = 3;
    struct sample_result result = {.token_ids = ids,
                                   .num_candidates = counts,
                                   .top_token_ids = top,
                                   .top_probs = probs,
                                   .max_candidates = 3};
    char *out = encoded(&request, &result);
    ck_assert_str_eq(out, "{\"token_ids\":[[0]],\"seed\":7,\"top_token_ids\":[[0,1]],"
                          "\"top_probs\":[[0.92414182,0.07585818]]}");
    free(out);
}
END_TEST

START_TEST(all_there_is)
{
    int32_t ids[] = {1, 2, 3, INT32_MAX}, top[] = {1, 0, 3, -1};
    uint32_t counts[] = {2, 1};
    double logprobs[] = {-0.5, -1e-10, 0, -12.3456789012}, probs[] = {0.5, 0.25, 1, -1};
    double top_logprobs[] = {-0.69314718055994531, -1.3862943611198906, 0, NAN};
    struct sample_request request = one_row();
    request.batch_size = request.n = request.top_candidates = 2;
    request.seed.per_row = request.logprobs = true;
    request.id = "a\"\\\n\x7f\xc3\xa9";
    struct sample_result result = {ids, logprobs, counts, top, probs, top_logprobs, 2, NULL, NULL};
    char *out = encoded(&request, &result);
    ck_assert_str_eq(out, "{\"id\":\"a\\\"\\\\\\u000a\x7f\xc3\xa9\",\"token_ids\":[[1,2],[3,2147483647]],"
                          "\"seed\":[7,9007199254740992],\"logprobs\":[[-0.5,-1e-10],[0,-12.3456789]],"
                          "\"top_token_ids\":[[1,0],[3]],\"top_probs\":[[0.5,0.25],[1]],"
                          "\"top_logprobs\":[[-0.693147181,-1.38629436],[0]]}");
    free(out);
}
END_TEST

START_TEST(logprobs_without_candidates)
{
    int32_t ids[] = {3};
    double logprobs[] = {-2};
    struct sample_request request = one_row();
    request.logprobs = true;
    char *out = encoded(&request, &(struct sample_result){.token_ids = ids, .logprobs = logprobs});
    ck_assert_str_eq(out, "{\"token_ids\":[[3]],\"seed\":7,\"logprobs\":[[-2]]}");
    free(out);
}
END_TEST

static const char *const seed_texts[] = {"7", "9007199254740992", "\"9007199254740993\"",
                                         "\"18446744073709551615\""};

START_TEST(seeds_above_2_53_are_strings)
{
    int32_t ids[] = {0};
    char expected[64];
    struct sample_request request = one_row();
    request.seed.values = &seeds[_i];
    char *out = encoded(&request, &(struct sample_result){.token_ids = ids});
    snprintf(expected, sizeof expected, "{\"token_ids\":[[0]],\"seed\":%s}", seed_texts[_i]);
    ck_assert_str_eq(out, expected);
    free(out);
}
END_TEST

/* ---- ids alone ---- */

START_TEST(ids_alone)
{
    int32_t ids[] = {1, 2, 0x01020304, INT32_MAX};
    static const char expected[] = "\1\0\0\0\2\0\0\0\4\3\2\1\xff\xff\xff\x7f";
    char out[16];
    struct error err;
    struct sample_request request = one_row();
    request.batch_size = request.n = 2;
    ck_assert_int_eq(encode_ids_check(&request, &err), STATUS_OK);
    ck_assert_uint_eq(encode_ids_bound(&request), sizeof out);
    ck_assert_uint_eq(encode_ids(&request, &(struct sample_result){.token_ids = ids}, out), sizeof out);
    ck_assert_mem_eq(out, expected, sizeof out);
    request.batch_size = SIZE_MAX / 4;
    ck_assert_uint_eq(encode_ids_bound(&request), SIZE_MAX);
}
END_TEST

START_TEST(more_than_ids_is_refused)
{
    static const char *const names[] = {"top_candidates", "logprobs", "id"};
    struct error err;
    struct sample_request request = one_row();
    request.top_candidates = _i == 0;
    request.logprobs = _i == 1;
    request.id = _i == 2 ? "" : NULL;
    ck_assert_int_eq(encode_ids_check(&request, &err), STATUS_INVALID);
    ck_assert_str_eq(err.code, "conflicting_parameters");
    ck_assert_str_eq(err.param, names[_i]);
    ck_assert_ptr_nonnull(strstr(err.message, "does not fit"));
}
END_TEST

/* ---- the bound ---- */

#define MOST 5 /* rows, draws and candidates */

/* Every combination, each value as long as it can be. */
START_TEST(the_longest_answers_fit)
{
    int32_t ids[MOST * MOST];
    double reals[MOST * MOST];
    uint32_t counts[MOST];
    uint64_t words[MOST];
    char id[257] = "";
    for (size_t i = 0; i < MOST * MOST; i++) {
        ids[i] = INT32_MAX;
        reals[i] = -1.23456789e-300;
        counts[i % MOST] = MOST;
        words[i % MOST] = UINT64_MAX;
    }
    memset(id, 1, sizeof id - 1);
    struct sample_result result = {ids, reals, counts, ids, reals, reals, MOST, NULL, NULL};
    for (size_t i = 0; i < MOST * MOST * 8; i++) {
        struct sample_request request = one_row();
        request.vocab_size = MOST;
        request.batch_size = i % MOST + 1;
        request.n = (uint32_t)(i / MOST % MOST + 1);
        request.seed = (struct column_u64){words, i / MOST / MOST % 2 == 1};
        request.top_candidates = i / MOST / MOST / 2 % 2 == 1 ? 1024 : 0;
        request.logprobs = i / MOST / MOST / 4 == 1;
        request.id = id;
        free(encoded(&request, &result));
        request.id = NULL;
        free(encoded(&request, &result));
    }
}
END_TEST

START_TEST(the_bound_saturates)
{
    struct sample_request request = one_row();
    request.batch_size = SIZE_MAX / 100;
    request.n = request.top_candidates = 1024;
    request.vocab_size = SIZE_MAX;
    ck_assert_uint_eq(encode_bound(&request), SIZE_MAX);
    request.batch_size = SIZE_MAX;
    ck_assert_uint_eq(encode_bound(&request), SIZE_MAX);
}
END_TEST

/* ---- errors ---- */

static const char *error_text(const struct error *err)
{
    static char out[ENCODE_ERROR_BYTES + 1];
    size_t n = encode_error(err, out, ENCODE_ERROR_BYTES);
    ck_assert_uint_le(n, ENCODE_ERROR_BYTES);
    out[n] = '\0';
    cJSON *root = cJSON_Parse(out);
    ck_assert_msg(root != NULL, "%s", out);
    cJSON_Delete(root);
    return out;
}

START_TEST(errors)
{
    struct error err;
    error_set(&err, STATUS_INVALID, "out_of_range", "top_p is %g; it must be from 0 to 1", 1.7);
    error_at(&err, "top_p", ERROR_NO_ROW);
    ck_assert_str_eq(error_text(&err), "{\"error\":{\"message\":\"top_p is 1.7; it must be from 0 to 1\","
                                       "\"type\":\"invalid_request_error\",\"param\":\"top_p\","
                                       "\"code\":\"out_of_range\",\"row\":null}}");
    error_set(&err, STATUS_UNSAMPLABLE, NULL, "a\"b\\c\nd\x80%c\xc3\xa9\xf0\x9f", 1);
    error_at(&err, NULL, 12);
    ck_assert_str_eq(
        error_text(&err),
        "{\"error\":{\"message\":\"a\\\"b\\\\c\\u000ad\xef\xbf\xbd\\u0001\xc3\xa9\xef\xbf\xbd"
        "\xef\xbf\xbd\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null,\"row\":12}}");
}
END_TEST

static const struct {
    enum status status;
    const char *type;
} types[] = {
    {STATUS_INVALID, "invalid_request_error"},     {STATUS_UNSAMPLABLE, "invalid_request_error"},
    {STATUS_TOO_LARGE, "invalid_request_error"},   {STATUS_UNSUPPORTED, "invalid_request_error"},
    {STATUS_NOT_FOUND, "invalid_request_error"},   {STATUS_WRONG_METHOD, "invalid_request_error"},
    {STATUS_UNAUTHORIZED, "authentication_error"}, {STATUS_OVERLOADED, "overloaded_error"},
    {STATUS_NO_MEMORY, "overloaded_error"},        {STATUS_INTERNAL, "server_error"},
};

START_TEST(each_status_has_its_type)
{
    struct error err;
    char expected[64];
    error_set(&err, types[_i].status, "code", "message");
    snprintf(expected, sizeof expected, "\"type\":\"%s\"", types[_i].type);
    ck_assert_ptr_nonnull(strstr(error_text(&err), expected));
}
END_TEST

/* Any bytes give one line of JSON, and the longest fit. */
START_TEST(any_bytes)
{
    uint64_t state = 1;
    char param[65];
    for (int round = 0; round < 2000; round++) {
        struct error err;
        error_set(&err, STATUS_INVALID, "out_of_range", "x");
        memset(err.message, 0, sizeof err.message);
        for (size_t i = 0; i < sizeof err.message - 1; i++)
            err.message[i] = round == 0 ? 1 : (char)(next_word(&state) % 255 + 1);
        memset(param, round == 0 ? 1 : 0xff, sizeof param - 1);
        param[sizeof param - 1] = '\0';
        error_at(&err, param, SIZE_MAX - 1);
        ck_assert_ptr_null(strchr(error_text(&err), '\n'));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("encode");
    TCase *tcase = tcase_create("answers");
    tcase_add_test(tcase, the_smallest_answer);
    tcase_add_test(tcase, candidates);
    tcase_add_test(tcase, all_there_is);
    tcase_add_test(tcase, logprobs_without_candidates);
    tcase_add_loop_test(tcase, seeds_above_2_53_are_strings, 0, sizeof seeds / sizeof seeds[0]);
    tcase_add_test(tcase, the_longest_answers_fit);
    tcase_add_test(tcase, the_bound_saturates);
    tcase_add_test(tcase, ids_alone);
    tcase_add_loop_test(tcase, more_than_ids_is_refused, 0, 3);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("errors");
    tcase_add_test(tcase, errors);
    tcase_add_loop_test(tcase, each_status_has_its_type, 0, sizeof types / sizeof types[0]);
    tcase_add_test(tcase, any_bytes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
