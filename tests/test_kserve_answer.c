#include "proto/kserve/kserve_answer.h"

#include "proto/answer/encode.h"
#include "proto/kserve/kserve_meta.h"
#include "tests/support.h"

/* Two rows of two draws and three candidates, of which the second row has one. */
static int32_t token_ids[] = {1, 0, INT32_MAX, 2};
static double logprobs[] = {-0.5, -0.25, -1.5, -2};
static uint32_t num_candidates[] = {2, 1};
static int32_t top_token_ids[] = {1, 0, 9, 9};
static double top_probs[] = {0.75, 0.25, 1, 9};
static const uint64_t seeds[] = {7, UINT64_MAX};

static const struct sample_result result = {
    .token_ids = token_ids,
    .logprobs = logprobs,
    .num_candidates = num_candidates,
    .top_token_ids = top_token_ids,
    .top_probs = top_probs,
    .max_candidates = 2,
};

static struct sample_request request_of(bool seed_per_row)
{
    return (struct sample_request){.batch_size = 2,
                                   .vocab_size = 2,
                                   .n = 2,
                                   .top_candidates = 3,
                                   .seed = {seeds, seed_per_row},
                                   .id = "a\"b"};
}

static const struct kserve_plan in_json = {
    .outputs = {KSERVE_TOKEN_IDS, KSERVE_SEED, KSERVE_LOGPROBS, KSERVE_TOP_TOKEN_IDS, KSERVE_TOP_PROBS},
    .count = 5};

static const char json[] =
    "{\"id\":\"a\\\"b\",\"model_name\":\"sampler\",\"model_version\":\"1\",\"outputs\":["
    "{\"name\":\"token_ids\",\"datatype\":\"INT32\",\"shape\":[2,2],\"data\":[1,0,2147483647,2]},"
    "{\"name\":\"seed\",\"datatype\":\"UINT64\",\"shape\":[2],\"data\":[7,18446744073709551615]},"
    "{\"name\":\"logprobs\",\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[-0.5,-0.25,-1.5,-2]},"
    "{\"name\":\"top_token_ids\",\"datatype\":\"INT32\",\"shape\":[2,3],\"data\":[1,0,-1,9,-1,-1]},"
    "{\"name\":\"top_probs\",\"datatype\":\"FP32\",\"shape\":[2,3],\"data\":[0.75,0.25,0,1,0,0]}]}";

START_TEST(answers_in_json)
{
    char out[4096];
    struct sample_request request = request_of(true);
    size_t header, length = kserve_answer_encode(&request, &result, &in_json, out, &header);
    ck_assert_uint_le(length, kserve_answer_bound(&request, &in_json));
    ck_assert_uint_eq(header, 0);
    ck_assert_uint_eq(length, strlen(json));
    ck_assert_mem_eq(out, json, length);
}
END_TEST

/* Bytes come in the order of the header, and only for the outputs that it says. */
START_TEST(answers_in_bytes)
{
    static const struct kserve_plan plan = {
        .outputs = {KSERVE_TOP_PROBS, KSERVE_TOKEN_IDS, KSERVE_TOP_TOKEN_IDS, KSERVE_SEED},
        .binary = {true, false, true, true},
        .count = 4};
    static const char expected[] =
        "{\"id\":\"a\\\"b\",\"model_name\":\"sampler\",\"model_version\":\"1\",\"outputs\":["
        "{\"name\":\"top_probs\",\"datatype\":\"FP32\",\"shape\":[2,3],\"parameters\":{\"binary_data_size\":"
        "24}},"
        "{\"name\":\"token_ids\",\"datatype\":\"INT32\",\"shape\":[2,2],\"data\":[1,0,2147483647,2]},"
        "{\"name\":\"top_token_ids\",\"datatype\":\"INT32\",\"shape\":[2,3],"
        "\"parameters\":{\"binary_data_size\":24}},"
        "{\"name\":\"seed\",\"datatype\":\"UINT64\",\"shape\":[1],\"parameters\":{\"binary_data_size\":8}}]}";
    static const float probs[] = {0.75F, 0.25F, 0, 1, 0, 0};
    static const int32_t ids[] = {1, 0, -1, 9, -1, -1};
    char out[4096];
    struct sample_request request = request_of(false);
    size_t header, length = kserve_answer_encode(&request, &result, &plan, out, &header);
    ck_assert_uint_le(length, kserve_answer_bound(&request, &plan));
    ck_assert_uint_eq(header, strlen(expected));
    ck_assert_uint_eq(length, header + 24 + 24 + 8);
    ck_assert_mem_eq(out, expected, header);
    ck_assert_mem_eq(out + header, probs, 24);
    ck_assert_mem_eq(out + header + 24, ids, 24);
    ck_assert_mem_eq(out + header + 48, seeds, 8);
}
END_TEST

static char region[64];

static enum status write_region(const struct kserve_pin *pin, const void *data, size_t bytes,
                                struct error *err)
{
    (void)err;
    memcpy((char *)pin->region + pin->place.offset, data, bytes);
    return STATUS_OK;
}

/* What goes elsewhere is no part of the answer, and lies behind it until it is there. */
START_TEST(answers_in_shared_memory)
{
    static const struct kserve_plan plan = {
        .outputs = {KSERVE_SEED, KSERVE_LOGPROBS, KSERVE_TOKEN_IDS},
        .binary = {true, true, false},
        .shared = {[1] = {region, {"a\"", 4, 32}}, [2] = {region, {"b", 24, 16}}},
        .count = 3};
    static const char expected[] =
        "{\"id\":\"a\\\"b\",\"model_name\":\"sampler\",\"model_version\":\"1\",\"outputs\":["
        "{\"name\":\"seed\",\"datatype\":\"UINT64\",\"shape\":[1],\"parameters\":{\"binary_data_size\":8}},"
        "{\"name\":\"logprobs\",\"datatype\":\"FP32\",\"shape\":[2,2],\"parameters\":"
        "{\"shared_memory_region\":\"a\\\"\",\"shared_memory_offset\":4,\"shared_memory_byte_size\":16}},"
        "{\"name\":\"token_ids\",\"datatype\":\"INT32\",\"shape\":[2,2],\"parameters\":"
        "{\"shared_memory_region\":\"b\",\"shared_memory_offset\":24,\"shared_memory_byte_size\":16}}]}";
    static const float reals[] = {-0.5F, -0.25F, -1.5F, -2};
    char out[4096];
    struct error err;
    struct kserve_memory memory = {.write = write_region};
    struct sample_request request = request_of(false);
    size_t header, length = kserve_answer_encode(&request, &result, &plan, out, &header);
    ck_assert_uint_eq(header, strlen(expected));
    ck_assert_mem_eq(out, expected, header);
    ck_assert_uint_eq(length, header + 8);
    ck_assert_uint_le(length + 32, kserve_answer_bound(&request, &plan));
    ck_assert_int_eq(kserve_answer_share(&request, &plan, &memory, out + length, &err), STATUS_OK);
    ck_assert_mem_eq(region + 4, reals, 16);
    ck_assert_mem_eq(region + 24, token_ids, 16);
}
END_TEST

/* The longest texts there are, in many rows: the bound holds, and is not far off. */
START_TEST(the_bound_holds)
{
    enum { ROWS = 300 };
    int32_t ids[ROWS];
    double reals[ROWS];
    uint32_t counts[ROWS];
    uint64_t words[ROWS];
    char id[257], out[ROWS * 128];
    memset(id, 1, sizeof id - 1);
    id[256] = '\0';
    for (size_t i = 0; i < ROWS; i++) {
        ids[i] = INT32_MAX;
        reals[i] = -1.23456789e-300;
        counts[i] = 1;
        words[i] = UINT64_MAX;
    }
    struct sample_request request = {
        .batch_size = ROWS, .vocab_size = 1, .n = 1, .top_candidates = 1, .seed = {words, true}, .id = id};
    struct sample_result most = {ids, reals, counts, ids, reals, reals, 1, NULL, NULL};
    size_t header, length = kserve_answer_encode(&request, &most, &in_json, out, &header);
    ck_assert_uint_le(length, kserve_answer_bound(&request, &in_json));
    ck_assert_uint_le(kserve_answer_bound(&request, &in_json), sizeof out);
    cJSON *root = cJSON_ParseWithLength(out, length);
    ck_assert_ptr_nonnull(root);
    cJSON_Delete(root);
}
END_TEST

START_TEST(a_bound_beyond_memory_is_told)
{
    struct sample_request request = request_of(false);
    request.batch_size = SIZE_MAX / 4;
    ck_assert_uint_eq(kserve_answer_bound(&request, &in_json), SIZE_MAX);
}
END_TEST

START_TEST(errors_are_strings)
{
    char out[ENCODE_ERROR_BYTES];
    struct error err;
    error_set(&err, STATUS_INVALID, "wrong_type", "there is no output \"\xff\"");
    size_t length = kserve_answer_error(&err, out, sizeof out);
    static const char expected[] = "{\"error\":\"there is no output \\\"\xef\xbf\xbd\\\"\"}";
    ck_assert_uint_eq(length, strlen(expected));
    ck_assert_mem_eq(out, expected, length);
}
END_TEST

/* ---- metadata ---- */

static cJSON *parse(char *text)
{
    ck_assert_ptr_nonnull(text);
    cJSON *root = cJSON_ParseWithOpts(text, NULL, true);
    ck_assert_msg(root != NULL, "%s", text);
    free(text);
    return root;
}

/* Name, datatype and shape of each are the same in the model and in its configuration. */
static void compare(const cJSON *metadata, const cJSON *config)
{
    ck_assert_int_eq(cJSON_GetArraySize(metadata), cJSON_GetArraySize(config));
    const cJSON *b = config->child;
    for (const cJSON *a = metadata->child; a != NULL; a = a->next, b = b->next) {
        char type[32];
        snprintf(type, sizeof type, "TYPE_%s", cJSON_GetObjectItem(a, "datatype")->valuestring);
        ck_assert_str_eq(cJSON_GetObjectItem(a, "name")->valuestring,
                         cJSON_GetObjectItem(b, "name")->valuestring);
        ck_assert_str_eq(type, cJSON_GetObjectItem(b, "data_type")->valuestring);
        ck_assert(cJSON_Compare(cJSON_GetObjectItem(a, "shape"), cJSON_GetObjectItem(b, "dims"), true));
    }
}

START_TEST(documents_agree)
{
    cJSON *server = parse(kserve_meta_server(false)), *model = parse(kserve_meta_model()),
          *config = parse(kserve_meta_config());
    ck_assert_str_eq(cJSON_GetObjectItem(server, "name")->valuestring, "samplerd");
    cJSON_Delete(server);
    server = parse(kserve_meta_server(true));
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(server, "extensions")), 4);
    compare(cJSON_GetObjectItem(model, "inputs"), cJSON_GetObjectItem(config, "input"));
    compare(cJSON_GetObjectItem(model, "outputs"), cJSON_GetObjectItem(config, "output"));
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(model, "outputs")), KSERVE_OUTPUTS);
    cJSON_Delete(server);
    cJSON_Delete(model);
    cJSON_Delete(config);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kserve_answer");
    TCase *tcase = tcase_create("answers");
    tcase_add_test(tcase, answers_in_json);
    tcase_add_test(tcase, answers_in_bytes);
    tcase_add_test(tcase, answers_in_shared_memory);
    tcase_add_test(tcase, the_bound_holds);
    tcase_add_test(tcase, a_bound_beyond_memory_is_told);
    tcase_add_test(tcase, errors_are_strings);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("metadata");
    tcase_add_test(tcase, documents_agree);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
