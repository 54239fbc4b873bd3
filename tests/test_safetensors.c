#include "proto/tensors/safetensors.h"

#include "tests/bodies.h"
#include "tests/support.h"

#define TEXT_BYTES 512

struct body {
    char *bytes;
    size_t length;
};

/* The header's length, the header, and so many bytes of the float32 numbers 1, 2, 3, ... */
static struct body build(const char *header, size_t data)
{
    static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t length = strlen(header);
    size_t total = 8 + (size_t)length + data;
    char *text = malloc(total);
    memcpy(text, &length, 8);
    memcpy(text + 8, header, (size_t)length);
    memcpy(text + 8 + length, numbers, data);
    struct body body = {bodies_copy(text, total), total};
    free(text);
    return body;
}

/* r is to be given to bodies_fini(), and then the body freed: the request points into it. */
static void decode(struct bodies_request *r, struct body body)
{
    *r = (struct bodies_request){.lender.lend = bodies_lend};
    r->status = safetensors_decode(body.bytes, body.length, &r->arena, &r->lender, BODIES_FRESH_SEED,
                                   &r->request, &r->err);
}

#define TENSOR(name, dtype, shape, begin, end)                                                               \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"
#define LOGITS TENSOR("logits", "F32", "[1,2]", "0", "8")

/* ---- what is accepted ---- */

static const struct {
    const char *header;
    size_t data;
    const char *request;
} accepted[] = {
    {"{" LOGITS "}", 8, "1x1x2: 1,2"},
    {"{" LOGITS "}      ", 8, "1x1x2: 1,2"},
    {"{ \"logits\" :\n{ \"shape\" : [ 2 ] , \"data_offsets\" : [ 0 , 8 ] , \"dtype\" : \"F32\" } }", 8,
     "1x1x2: 1,2"},
    {"{\"log\\u0069ts\":{\"\\u0064type\":\"F\\u00332\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "1x1x2: 1,2"},
    {"{" TENSOR("logits", "F16", "[2,1]", "0", "4") "}", 4, "1x2x1 f16: 0,1.875"},
    {"{" TENSOR("logits", "BF16", "[2]", "0", "4") "}", 4, "1x1x2 bf16: 0,1"},
    {"{\"__metadata__\":{}," LOGITS "}", 8, "1x1x2: 1,2"},
    {"{\"__metadata__\":null," LOGITS "}", 8, "1x1x2: 1,2"},
    {"{" LOGITS ",\"__metadata__\": null }", 8, "1x1x2: 1,2"},
    {"{\"__metadata__\":{\"format\":\"pt\"}," LOGITS "}", 8, "1x1x2: 1,2"},
    {"{\"__metadata__\":{\"format\":\"np\",\"top_k\":\"2\",\"\":\"\",\"step\":\"7\",\"dtype\":\"bf16\","
     "\"modelspec.title\":\"a\\u0000b\"}," LOGITS "}",
     8, "1x1x2: 1,2 top_k=2"},
    {"{" LOGITS ",\"__metadata__\":{\"temperature\":\"0.5\",\"top_k\":\"3\",\"id\":\"a\\\"\\u00e9\","
     "\"seed\":\"18446744073709551615\",\"logprobs\":\"true\",\"logprobs_mode\":\"raw\",\"n\":\"2\"}}",
     8, "1x1x2: 1,2 temperature=0.5 top_k=3 seed=18446744073709551615 n=2 logprobs raw id=a\"\xc3\xa9"},
    {"{\"__metadata__\":{\"temperature\":\"0.5,1\"}," TENSOR("logits", "F32", "[2,1]", "0", "8") "}", 8,
     "1x2x1: 1,2 temperature=[0.5,1]"},
    {"{" TENSOR("temperature", "F32", "[2]", "8", "16") "," TENSOR("logits", "F32", "[2,1]", "0", "8") "}",
     16, "1x2x1: 1,2 temperature=[3,4]"},
    {"{" TENSOR("temperature", "F32", "[2,1]", "0", "8") "," TENSOR("logits", "F32", "[2,1]", "8", "16") "}",
     16, "1x2x1: 3,4 temperature=[1,2]"},
    {"{" TENSOR("top_k", "F32", "[]", "0", "4") "," TENSOR("logits", "F32", "[1,1]", "4", "8") "}", 8,
     "1x1x1: 2 top_k=1"},
    {"{" TENSOR("mix", "F32", "[2]", "0", "8") "," TENSOR("logits", "F32", "[2,1,2]", "8", "24") "," TENSOR(
         "bias", "F32", "[2]", "24", "32") "}",
     32, "2x1x2: 3,4,5,6 mix=1,2 bias=7,8"},
    {"{" LOGITS "," TENSOR("bias", "F16", "[2]", "8", "12") "}", 12, "1x1x2: 1,2 bias=0,2.125"},
    {"{" LOGITS "," TENSOR("bias", "BF16", "[1,2]", "8", "12") "}", 12, "1x1x2: 1,2 bias=0,3"},
};

/* Spaces behind the header shift the tensors: only what is not aligned is copied, and a bias of halves. */
START_TEST(accepts)
{
    for (int spaces = 0; spaces < 8; spaces++) {
        struct bodies_request r;
        char header[TEXT_BYTES], text[TEXT_BYTES];
        snprintf(header, sizeof header, "%s%*s", accepted[_i].header, spaces, "");
        struct body body = build(header, accepted[_i].data);
        decode(&r, body);
        ck_assert_msg(r.status == STATUS_OK, "%s: %s", header, r.err.message);
        ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text), accepted[_i].request);
        bool widened = r.request.bias != NULL && strstr(header, "F16") != NULL;
        if ((8 + strlen(header)) % 4 == 0)
            ck_assert_uint_eq(r.num_loans, widened);
        else if ((8 + strlen(header)) % 2 == 1)
            ck_assert_uint_ge(r.num_loans, 1);
        bodies_fini(&r);
        free(body.bytes);
    }
}
END_TEST

#define REST                                                                                                 \
    " temperature=[0.5,1] top_k=[3,2] top_p=[0.5,0.25] seed=[7,18446744073709551615] offset=12 n=3 logprobs"

static const struct {
    const char *name, *request;
    size_t loans;
} files[] = {
    {"rows_f32.safetensors", "1x2x4: 10,8,6,3,1,-inf,0.5,2" REST " id=from \"numpy\"", 0},
    {"rows_f16.safetensors", "1x2x4 f16: 10,8,6,3,1,-inf,0.5,2" REST " id=from \"numpy\"", 0},
    {"rows_bf16.safetensors",
     "1x2x4 bf16: 10,8,6,3,1,-inf,0.5,2 ids=7,5,3,1,0,2,4,2147483647" REST " id=from \"numpy\"", 1},
};

START_TEST(accepts_what_safetensors_writes)
{
    struct body body;
    struct bodies_request r;
    char text[TEXT_BYTES];
    char *bytes = read_data(files[_i].name, &body.length);
    body.bytes = bodies_copy(bytes, body.length);
    decode(&r, body);
    ck_assert_msg(r.status == STATUS_OK, "%s: %s", files[_i].name, r.err.message);
    ck_assert_uint_eq(r.num_loans, files[_i].loans);
    ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text), files[_i].request);
    bodies_fini(&r);
    free(body.bytes);
    free(bytes);
}
END_TEST

/* ---- what is refused ---- */

#define BROKEN "malformed_safetensors"

static const struct {
    const char *header;
    size_t data;
    const char *code, *message; /* a part of it */
} refused[] = {
    /* the header */
    {"", 8, BROKEN, "the header does not begin with '{' at byte 8"},
    {" {" LOGITS "}", 8, BROKEN, "does not begin with '{'"},
    {"[]", 8, BROKEN, "does not begin with '{'"},
    {"\xef\xbb\xbf{" LOGITS "}", 8, BROKEN, "does not begin with '{'"},
    {"{" LOGITS "}\n", 8, BROKEN, "more than spaces behind the header's object"},
    {"{" LOGITS "}{", 8, BROKEN, "more than spaces"},
    {"{" LOGITS, 8, "malformed_json", "the header is not valid JSON: it ends too early"},
    {"{" LOGITS ",}", 8, "malformed_json", "the header is not valid JSON"},
    {"{logits:{}}", 8, "malformed_json", "the header is not valid JSON"},
    {"{\"logits\" {}}", 8, "malformed_json", "':' is missing"},
    {"{\"log\xff\":{}}", 8, "malformed_json", "invalid UTF-8"},
    {"{\"log\\x\":{}}", 8, "malformed_json", "unknown escape"},
    {"{\"logits\\u0000\":{}}", 8, BROKEN, "a string with a zero byte"},
    {"{}", 0, "missing_parameter", "logits is missing"},
    {"{}", 8, BROKEN, "its tensors end at byte 0 of 8"},
    /* a tensor */
    {"{\"logits\":[]}", 8, "malformed_json", "'{' is missing"},
    {"{\"logits\":{}}", 8, BROKEN, "a tensor without dtype, shape or data_offsets"},
    {"{\"logits\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, BROKEN, "a tensor without"},
    {"{\"logits\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 8, BROKEN, "a name comes twice"},
    {"{\"logits\":{\"size\":2}}", 8, BROKEN, "dtype, shape and data_offsets and nothing else; at byte"},
    {"{" LOGITS "," LOGITS "}", 8, BROKEN, "the tensor logits overlaps another"},
    {"{" LOGITS "," TENSOR("logits", "F32", "[2]", "8", "16") "}", 16, "duplicate_parameter",
     "logits is given twice"},
    {"{" LOGITS ",\"temprature\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]}}", 12,
     "unknown_parameter", "did you mean temperature?"},
    {"{\"logits\":{\"dtype\":7}}", 8, "malformed_json", "'\"' is missing"},
    {"{" TENSOR("logits", "F8_E4M3", "[8]", "0", "8") "}", 8, "unsupported_dtype",
     "the tensor logits is of dtype \"F8_E4M3\"; it must be BOOL, F16"},
    {"{" TENSOR("logits", "f32", "[2]", "0", "8") "}", 8, "unsupported_dtype", "\"f32\""},
    {"{" TENSOR("logits", "I64", "[1]", "0", "8") "}", 8, "wrong_type", "logits is I64 [1]"},
    {"{" TENSOR("logits", "F32", "2", "0", "8") "}", 8, "malformed_json", "'[' is missing"},
    {"{" TENSOR("logits", "F32", "[2,]", "0", "8") "}", 8, BROKEN, "a whole number is missing"},
    {"{" TENSOR("logits", "F32", "[-2]", "0", "8") "}", 8, BROKEN, "a whole number is missing"},
    {"{" TENSOR("logits", "F32", "[02]", "0", "8") "}", 8, BROKEN, "a whole number is missing"},
    {"{" TENSOR("logits", "F32", "[2.0]", "0", "8") "}", 8, "malformed_json", "',' or ']' is missing"},
    {"{" TENSOR("logits", "F32", "[2e0]", "0", "8") "}", 8, "malformed_json", "',' or ']' is missing"},
    {"{" TENSOR("logits", "F32", "[\"2\"]", "0", "8") "}", 8, BROKEN, "a whole number is missing"},
    {"{" TENSOR("logits", "F32", "[1,1,1,1,2]", "0", "8") "}", 8, BROKEN, "a list that is too long"},
    {"{" TENSOR("logits", "F32", "[1,1,1,2]", "0", "8") "}", 8, "wrong_length", "F32 [1, 1, 1, 2]"},
    {"{" TENSOR("logits", "F32", "[18446744073709551616]", "0", "8") "}", 8, BROKEN,
     "a number that is too large"},
    {"{" TENSOR("logits", "F32", "[4611686018427387906]", "0", "8") "}", 8, BROKEN, "has not the bytes that"},
    {"{" TENSOR("logits", "F32", "[2147483648,2147483648,2]", "0", "8") "}", 8, BROKEN,
     "has not the bytes that"},
    {"{" TENSOR("logits", "F32", "[0]", "0", "0") "}", 0, "wrong_length", "logits is F32 [0]"},
    {"{" TENSOR("logits", "F32", "[]", "0", "4") "}", 4, "wrong_length", "logits is F32 []"},
    /* offsets */
    {"{" TENSOR("logits", "F32", "[3]", "0", "8") "}", 8, BROKEN,
     "the tensor logits has not the bytes that its dtype"},
    {"{" TENSOR("logits", "F32", "[1]", "0", "8") "}", 8, BROKEN, "has not the bytes"},
    {"{" TENSOR("logits", "F32", "[2]", "4", "12") "}", 12, BROKEN, "the tensor logits begins behind a hole"},
    {"{" TENSOR("logits", "F32", "[2]", "0", "8") "," TENSOR("bias", "F32", "[2]", "12", "20") "}", 20,
     BROKEN, "the tensor bias begins behind a hole"},
    {"{" TENSOR("logits", "F32", "[2]", "0", "8") "," TENSOR("bias", "F32", "[2]", "4", "12") "}", 12, BROKEN,
     "the tensor bias overlaps another"},
    {"{" TENSOR("logits", "F32", "[2]", "0", "8") "}", 7, BROKEN, "the tensor logits ends behind the body"},
    {"{" TENSOR("logits", "F32", "[2]", "0", "8") "}", 9, BROKEN, "its tensors end at byte 8 of 9"},
    {"{" TENSOR("logits", "F32", "[2]", "0", "8") "," TENSOR("bias", "F32", "[2]", "8", "4") "}", 8, BROKEN,
     "the tensor bias ends before it begins"},
    {"{\"logits\":{\"data_offsets\":[0]}}", 8, BROKEN, "data_offsets are not two"},
    {"{\"logits\":{\"data_offsets\":[]}}", 8, BROKEN, "data_offsets are not two"},
    {"{\"logits\":{\"data_offsets\":[0,1,2]}}", 8, BROKEN, "a list that is too long"},
    {"{" TENSOR("logits", "F32", "[2]", "0", "18446744073709551615") "}", 8, BROKEN, "ends behind the body"},
    /* metadata */
    {"{\"__metadata__\":[]," LOGITS "}", 8, "malformed_json", "'{' is missing"},
    {"{\"__metadata__\":{\"n\":1}," LOGITS "}", 8, BROKEN, "a value of __metadata__ is no string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}," LOGITS "}", 8, BROKEN, "__metadata__ comes twice"},
    {"{\"__metadata__\":{\"n\":\"1\",\"n\":\"1\"}," LOGITS "}", 8, "duplicate_parameter", "n is given twice"},
    {"{\"__metadata__\":{\"logits\":\"1\"}," LOGITS "}", 8, "duplicate_parameter", "logits is given twice"},
    {"{\"__metadata__\":{\"bias\":\"1\"}," LOGITS "}", 8, "wrong_type", "bias is a text"},
    {"{\"__metadata__\":{\"temprature\":\"0.5\"}," LOGITS "}", 8, "unknown_parameter",
     "temprature is not a known parameter; did you mean temperature?"},
    {"{\"__metadata__\":{\"format\":\"pt\",\"topP\":\"0.5\"}," LOGITS "}", 8, "unknown_parameter",
     "did you mean top_p?"},
    {"{\"__metadata__\":{\"Seed\":\"7\"}," LOGITS "}", 8, "unknown_parameter", "did you mean seed?"},
    {"{\"__metadata__\":{\"logprob\":\"1\"}," LOGITS "}", 8, "unknown_parameter", "did you mean logprobs?"},
    {"{\"__metadata__\":{\"format\":1}," LOGITS "}", 8, "malformed_safetensors", "__metadata__ is no string"},
    {"{\"__metadata__\":{\"format\":null}," LOGITS "}", 8, "malformed_safetensors",
     "__metadata__ is no string"},
    {"{\"__metadata__\":null,\"__metadata__\":{}," LOGITS "}", 8, BROKEN, "__metadata__ comes twice"},
    {"{\"__metadata__\":nul," LOGITS "}", 8, "malformed_json", "'{' is missing"},
    {"{\"__metadata__\":{\"top_p\":\"1.7\"}," LOGITS "}", 8, "out_of_range",
     "top_p is 1.7; it must be from 0 to 1"},
};

START_TEST(refuses)
{
    struct bodies_request r;
    const char *header = refused[_i].header;
    struct body body = build(header, refused[_i].data);
    decode(&r, body);
    ck_assert_msg(r.status == STATUS_INVALID, "%s is accepted", header);
    ck_assert_msg(strstr(r.err.message, refused[_i].message) != NULL, "%s: %s", header, r.err.message);
    ck_assert_str_eq(r.err.code, refused[_i].code);
    bodies_fini(&r);
    free(body.bytes);
}
END_TEST

/* ---- sizes ---- */

/* Names enough for any table: `count` of them, each with an empty value of this form. */
static struct body many(const char *open, const char *member, const char *close, size_t count)
{
    char *header = malloc(count * 80 + 256), *p = header + sprintf(header, "%s", open);
    for (size_t i = 0; i < count; i++)
        p += sprintf(p, "%s\"x%zu\":%s", i == 0 ? "" : ",", i, member);
    sprintf(p, "%s", close);
    struct body body = build(header, 0);
    free(header);
    return body;
}

START_TEST(many_tensors_are_refused)
{
    struct bodies_request r;
    struct body body = many("{", "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", "}", 1000);
    decode(&r, body);
    ck_assert_str_eq(r.err.code, "malformed_safetensors");
    ck_assert_ptr_nonnull(strstr(r.err.message, "than there are parameters"));
    bodies_fini(&r);
    free(body.bytes);
}
END_TEST

/* Writers put there what they like: a thousand entries are none of ours. */
START_TEST(many_entries_are_ignored)
{
    struct bodies_request r;
    struct body body = many("{\"__metadata__\":{", "\"\"", "}}", 1000);
    decode(&r, body);
    ck_assert_str_eq(r.err.message, "logits is missing; send [B][V] numbers");
    bodies_fini(&r);
    free(body.bytes);
}
END_TEST

START_TEST(a_long_header_is_refused)
{
    for (size_t extra = 0; extra < 2; extra++) {
        struct bodies_request r;
        size_t length = SAFETENSORS_MAX_HEADER_BYTES + extra;
        char *header = malloc(length + 1);
        memset(header, ' ', length);
        memcpy(header, "{" LOGITS "}", strlen("{" LOGITS "}"));
        header[length] = '\0';
        struct body body = build(header, 8);
        decode(&r, body);
        ck_assert_int_eq(r.status, extra == 0 ? STATUS_OK : STATUS_TOO_LARGE);
        if (extra > 0)
            ck_assert_str_eq(r.err.message,
                             "the safetensors header has 1048577 bytes; at most 1048576 are read");
        bodies_fini(&r);
        free(body.bytes);
        free(header);
    }
}
END_TEST

START_TEST(a_refused_loan_is_told)
{
    struct bodies_request r = {.lender.lend = bodies_lend, .num_loans = LENDER_MOST};
    struct body body = build("{" LOGITS "} ", 8);
    if ((body.length - 8) % 4 == 0) {
        free(body.bytes);
        body = build("{" LOGITS "}", 8);
    }
    r.status = safetensors_decode(body.bytes, body.length, &r.arena, &r.lender, 1, &r.request, &r.err);
    ck_assert_int_eq(r.status, STATUS_OVERLOADED);
    r.num_loans = 0;
    bodies_fini(&r);
    free(body.bytes);
}
END_TEST

/* ---- damage ---- */

static struct body whole(void)
{
    struct body body;
    char *bytes = read_data("rows_bf16.safetensors", &body.length);
    body.bytes = bodies_copy(bytes, body.length);
    free(bytes);
    return body;
}

START_TEST(every_other_length_is_refused)
{
    struct body body = whole();
    for (size_t length = 0; length <= body.length + 1; length++) {
        struct bodies_request r;
        char longer[1024] = "";
        memcpy(longer, body.bytes, body.length);
        struct body cut = {bodies_copy(longer, length), length};
        decode(&r, cut);
        ck_assert_int_eq(r.status, length == body.length ? STATUS_OK : STATUS_INVALID);
        bodies_fini(&r);
        free(cut.bytes);
    }
    free(body.bytes);
}
END_TEST

/* The header cut short, as its length says, but not the body. */
START_TEST(every_other_header_length_is_refused)
{
    struct body body = whole();
    size_t header = safetensors_header_bytes(body.bytes, body.length);
    for (uint64_t length = 0; length < body.length + 8; length++) {
        struct bodies_request r;
        memcpy(body.bytes, &length, sizeof length);
        decode(&r, body);
        ck_assert_int_eq(r.status, length == header ? STATUS_OK : STATUS_INVALID);
        bodies_fini(&r);
    }
    free(body.bytes);
}
END_TEST

/* Each byte with many values: refused, or what is accepted can be read. */
START_TEST(damage_is_survived)
{
    struct body body = whole();
    for (size_t i = 0; i < body.length; i++) {
        char kept = body.bytes[i];
        static const char likely[] = "\"\\[]{},:-.0123456789 x";
        for (size_t j = 0; j < sizeof likely + 8; j++) {
            struct bodies_request r;
            char text[TEXT_BYTES];
            body.bytes[i] = j < sizeof likely ? likely[j] : (char)(kept ^ 1 << (j - sizeof likely));
            decode(&r, body);
            ck_assert(r.status == STATUS_OK || r.status == STATUS_INVALID || r.status == STATUS_TOO_LARGE);
            if (r.status == STATUS_OK)
                bodies_describe(&r.request, text, sizeof text);
            bodies_fini(&r);
        }
        body.bytes[i] = kept;
    }
    free(body.bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tcase = tcase_create("files");
    tcase_add_loop_test(tcase, accepts, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(tcase, accepts_what_safetensors_writes, 0, sizeof files / sizeof files[0]);
    tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof refused[0]);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("sizes");
    tcase_add_test(tcase, many_tensors_are_refused);
    tcase_add_test(tcase, many_entries_are_ignored);
    tcase_add_test(tcase, a_long_header_is_refused);
    tcase_add_test(tcase, a_refused_loan_is_told);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("damage");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_other_length_is_refused);
    tcase_add_test(tcase, every_other_header_length_is_refused);
    tcase_add_test(tcase, damage_is_survived);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
