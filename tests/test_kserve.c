#include "proto/kserve/kserve.h"

#include "tests/bodies.h"
#include "tests/support.h"

#define TEXT_BYTES 512

static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};

struct decoded {
    struct bodies_request r; /* to be given to bodies_fini() */
    struct kserve_plan plan;
};

/*
 * Decode JSON, so many spaces, and `data` bytes of numbers[].  Without data all of the body is the JSON.
 */
static void decode(struct decoded *d, const char *json, int spaces, size_t data)
{
    char body[2048];
    size_t header = (size_t)snprintf(body, sizeof body, "%s%*s", json, spaces, "");
    ck_assert_uint_lt(header + data, sizeof body);
    memcpy(body + header, numbers, data);
    *d = (struct decoded){.r = {.lender.lend = bodies_lend}};
    d->r.status =
        kserve_decode(&(struct kserve_body){bodies_place(body, header + data, '1'), header + data,
                                            data == 0 ? KSERVE_ALL_JSON : header, NULL},
                      &d->r.arena, &d->r.lender, BODIES_FRESH_SEED, &d->r.request, &d->plan, &d->r.err);
}

/* "token_ids seed!": the outputs in order, those as bytes with a mark */
static const char *describe_plan(const struct kserve_plan *plan, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < plan->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s%s", i == 0 ? "" : " ",
                                 kserve_output_name(plan->outputs[i]), plan->binary[i] ? "!" : "");
    return text;
}

#define INPUT(name, type, shape, data)                                                                       \
    "{\"name\":\"" name "\",\"shape\":" shape ",\"datatype\":\"" type "\",\"data\":" data "}"
#define BYTES(name, type, shape, size)                                                                       \
    "{\"name\":\"" name "\",\"shape\":" shape ",\"datatype\":\"" type                                        \
    "\",\"parameters\":{\"binary_data_size\":" size "}}"
#define REQUEST(inputs, rest) "{\"inputs\":[" inputs "]" rest "}"
#define LOGITS                INPUT("logits", "FP32", "[1,2]", "[1,2]")
#define PLAIN                 "token_ids seed"

/* ---- what is accepted ---- */

static const struct {
    const char *json;
    size_t data;
    const char *request, *outputs;
} accepted[] = {
    /* data as JSON */
    {REQUEST(LOGITS, ""), 0, "1x1x2: 1,2", PLAIN},
    {REQUEST(INPUT("logits", "FP32", "[2]", "[ 1.5e0 , -2 ]"), ""), 0, "1x1x2: 1.5,-2", PLAIN},
    {REQUEST(INPUT("logits", "FP32", "[2,2]", "[1,2,3,4]"), ""), 0, "1x2x2: 1,2,3,4", PLAIN},
    {REQUEST(INPUT("logits", "FP32", "[2,2]", "[[1,2],[3,null]]"), ""), 0, "1x2x2: 1,2,3,-inf", PLAIN},
    {REQUEST("{\"data\":[1,2],\"shape\":[1,2],\"datatype\":\"FP32\",\"name\":\"logits\"}", ""), 0,
     "1x1x2: 1,2", PLAIN},
    {REQUEST("{\"datatype\":\"FP32\",\"data\":[1,2],\"shape\":[1,2],\"name\":\"logits\"}", ""), 0,
     "1x1x2: 1,2", PLAIN},
    {" { \"inputs\" :\n[ " LOGITS " ] , \"id\" : \"a\\u00e9\" } ", 0, "1x1x2: 1,2 id=a\xc3\xa9", PLAIN},
    {"{\"id\":null,\"parameters\":null,\"outputs\":null,\"inputs\":[" LOGITS "]}", 0, "1x1x2: 1,2", PLAIN},
    {"{\"id\":\"\",\"outputs\":[],\"parameters\":{},\"inputs\":[" LOGITS "]}", 0, "1x1x2: 1,2", PLAIN},
    {REQUEST(LOGITS, ",\"model_name\":\"sampler\",\"model_version\":\"1\""), 0, "1x1x2: 1,2", PLAIN},
    {REQUEST(LOGITS "," INPUT("seed", "UINT64", "[1]", "[18446744073709551615]"), ""), 0,
     "1x1x2: 1,2 seed=18446744073709551615", PLAIN},
    {REQUEST(INPUT("temperature", "FP64", "[2,1]", "[[0.7],[-0.5]]") "," INPUT(
                 "logits", "FP32", "[2,1]", "[1,2]") "," INPUT("top_k", "INT8", "[2]", "[-128,127]"),
             ""),
     0, "1x2x1: 1,2 temperature=[0.69999999999999996,-0.5] top_k=[-128,127]", PLAIN},
    {REQUEST(INPUT("mix", "FP32", "[2]", "[1,0.5]") "," INPUT(
                 "logits", "FP32", "[2,1,2]", "[1,2,3,4]") "," INPUT("bias", "FP32", "[2]", "[0.5,null]"),
             ""),
     0, "2x1x2: 1,2,3,4 mix=1,0.5 bias=0.5,-inf", PLAIN},
    {REQUEST(LOGITS "," INPUT("candidate_ids", "INT64", "[1,2]", "[[7,5]]"), ""), 0, "1x1x2: 1,2 ids=7,5",
     PLAIN},
    {REQUEST(LOGITS "," INPUT("candidate_ids", "INT32", "[1,2]", "[7,5]"), ""), 0, "1x1x2: 1,2 ids=7,5",
     PLAIN},
    {REQUEST(LOGITS "," INPUT("logprobs", "BOOL", "[1]", "[true]"), ""), 0, "1x1x2: 1,2 logprobs",
     PLAIN " logprobs"},
    {REQUEST(LOGITS "," INPUT("n", "UINT16", "[1,1]", "[[3]]"), ""), 0, "1x1x2: 1,2 n=3", PLAIN},
    /* bytes */
    {REQUEST(BYTES("logits", "FP32", "[1,2]", "8"), ""), 8, "1x1x2: 1,2", PLAIN},
    {REQUEST(BYTES("logits", "FP32", "[2,1]", "8") "," BYTES("temperature", "FP32", "[2]", "8"), ""), 16,
     "1x2x1: 1,2 temperature=[3,4]", PLAIN},
    {REQUEST(BYTES("logits", "FP16", "[2,1]", "4"), ""), 4, "1x2x1 f16: 0,1.875", PLAIN},
    {REQUEST(BYTES("logits", "BF16", "[2]", "4"), ""), 4, "1x1x2 bf16: 0,1", PLAIN},
    {REQUEST(LOGITS "," BYTES("bias", "FP16", "[2]", "4"), ""), 4, "1x1x2: 1,2 bias=0,1.875", PLAIN},
    {REQUEST(LOGITS "," BYTES("bias", "BF16", "[1,2]", "4"), ""), 4, "1x1x2: 1,2 bias=0,1", PLAIN},
    {REQUEST(INPUT("top_k", "INT32", "[1]", "[3]") "," BYTES("logits", "FP32", "[1,2]", "8") "," INPUT(
                 "temperature", "FP32", "[1]", "[0.5]"),
             ""),
     8, "1x1x2: 1,2 temperature=0.5 top_k=3", PLAIN},
    /* parameters */
    {REQUEST(LOGITS, ",\"parameters\":{\"temperature\":0.7,\"top_k\":-1,\"top_p\":1e-1,\"n\":2}"), 0,
     "1x1x2: 1,2 temperature=0.69999999999999996 top_k=-1 top_p=0.10000000000000001 n=2", PLAIN},
    {REQUEST(LOGITS, ",\"parameters\":{\"seed\":18446744073709551615,\"offset\":\"7\"}"), 0,
     "1x1x2: 1,2 seed=18446744073709551615 offset=7", PLAIN},
    {REQUEST(LOGITS, ",\"parameters\":{\"logprobs\":true,\"logprobs_mode\":\"raw\",\"top_candidates\":2}"), 0,
     "1x1x2: 1,2 top_candidates=2 logprobs raw", PLAIN " logprobs top_token_ids top_probs"},
    {REQUEST(LOGITS, ",\"parameters\":{\"binary_data_output\":true}"), 0, "1x1x2: 1,2", "token_ids! seed!"},
    {REQUEST(LOGITS,
             ",\"parameters\":{\"sequence_id\":7,\"sequence_start\":true,\"priority\":1,\"timeout\":2,"
             "\"triton_x\":\"\",\"top_p\":null}"),
     0, "1x1x2: 1,2", PLAIN},
    /* outputs */
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"token_ids\"}]"), 0, "1x1x2: 1,2", "token_ids"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"seed\",\"parameters\":{\"binary_data\":true}},"
                     "{\"parameters\":{\"binary_data\":false},\"name\":\"logprobs\"}]"),
     0, "1x1x2: 1,2 logprobs", "seed! logprobs"},
    {REQUEST(LOGITS,
             ",\"outputs\":[{\"name\":\"seed\",\"parameters\":{\"binary_data\":false}},"
             "{\"name\":\"token_ids\",\"parameters\":{}}],\"parameters\":{\"binary_data_output\":true}"),
     0, "1x1x2: 1,2", "seed token_ids!"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"token_ids\"}],\"parameters\":{\"logprobs\":true,"
                     "\"top_candidates\":3}"),
     0, "1x1x2: 1,2", "token_ids"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"top_probs\"}],\"parameters\":{\"top_candidates\":3}"), 0,
     "1x1x2: 1,2 top_candidates=3", "top_probs"},
};

/* Spaces behind the header shift the tensors: what is not aligned is copied. */
START_TEST(accepts)
{
    for (int spaces = 0; spaces < 8; spaces++) {
        struct decoded d;
        char text[TEXT_BYTES];
        decode(&d, accepted[_i].json, spaces, accepted[_i].data);
        ck_assert_msg(d.r.status == STATUS_OK, "%s: %s", accepted[_i].json, d.r.err.message);
        ck_assert_str_eq(bodies_describe(&d.r.request, text, sizeof text), accepted[_i].request);
        ck_assert_str_eq(describe_plan(&d.plan, text, sizeof text), accepted[_i].outputs);
        bodies_fini(&d.r);
    }
}
END_TEST

/* ---- what is refused ---- */

#define BROKEN "malformed_kserve"
#define SYNTAX "malformed_json"

static const struct {
    const char *json;
    size_t data;
    const char *code, *message; /* a part of it */
} refused[] = {
    /* the object */
    {"", 0, BROKEN, "the request is no infer request: the request is no JSON object at byte 0"},
    {"[]", 0, BROKEN, "no JSON object"},
    {" \xef\xbb\xbf{}", 0, BROKEN, "no JSON object"},
    {"{}", 0, "missing_parameter", "logits is missing"},
    {"{\"inputs\":null}", 0, "missing_parameter", "logits is missing"},
    {"{\"inputs\":[]}", 0, "missing_parameter", "logits is missing"},
    {REQUEST(LOGITS, "") "{", 0, BROKEN, "more text after the request's object"},
    {"{\"inputs\":[" LOGITS "]", 0, SYNTAX, "the request is not valid JSON: it ends too early"},
    {"{\"inputs\":[" LOGITS ",]}", 0, SYNTAX, "the request is not valid JSON"},
    {REQUEST(LOGITS, ",\"inputs\":[]"), 0, BROKEN, "a name comes twice"},
    {REQUEST(LOGITS, ",\"output\":[]"), 0, BROKEN, "id, parameters, inputs and outputs and nothing else"},
    {REQUEST(LOGITS, ",\"id\":7"), 0, BROKEN, "id is no string"},
    {REQUEST(LOGITS, ",\"id\":\"a\\u0000\""), 0, BROKEN, "a string with a zero byte"},
    {REQUEST(LOGITS, ",\"id\":\"a\",\"parameters\":{\"id\":\"b\"}"), 0, "duplicate_parameter", "id is given"},
    {"{\"inputs\":{}}", 0, SYNTAX, "'[' is missing"},
    {"{\"inputs\":[7]}", 0, SYNTAX, "'{' is missing"},
    /* an input */
    {REQUEST("{}", ""), 0, BROKEN, "an input without name, datatype or shape"},
    {REQUEST("{\"name\":\"logits\",\"datatype\":\"FP32\",\"data\":[1]}", ""), 0, BROKEN, "an input without"},
    {REQUEST("{\"name\":\"logits\",\"shape\":[1],\"data\":[1]}", ""), 0, BROKEN, "an input without"},
    {REQUEST("{\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}", ""), 0, BROKEN, "an input without"},
    {REQUEST("{\"name\":\"logits\",\"shape\":[1],\"datatype\":\"FP32\"}", ""), 0, BROKEN,
     "an input has one of data, binary_data_size"},
    {REQUEST("{\"name\":\"logits\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1],"
             "\"parameters\":{\"binary_data_size\":4}}",
             ""),
     4, BROKEN, "an input has one of data, binary_data_size"},
    {REQUEST("{\"name\":\"logits\",\"name\":\"logits\"}", ""), 0, BROKEN, "a name comes twice"},
    {REQUEST("{\"data\":[1],\"data\":[1]}", ""), 0, BROKEN, "a name comes twice"},
    {REQUEST("{\"dtype\":\"FP32\"}", ""), 0, BROKEN, "an input has name, shape, datatype"},
    {REQUEST(INPUT("logits", "F32", "[1]", "[1]"), ""), 0, "unsupported_dtype", "datatype \"F32\""},
    {REQUEST(INPUT("logits", "BYTES", "[1]", "[\"1\"]"), ""), 0, "unsupported_dtype", "datatype \"BYTES\""},
    {REQUEST(INPUT("logits", "INT64", "[1]", "[1]"), ""), 0, "wrong_type", "logits is I64 [1]"},
    {REQUEST(INPUT("logits", "FP16", "[1]", "[1]"), ""), 0, "unsupported_dtype",
     "logits is FP16, which has no values as JSON"},
    {REQUEST(INPUT("logits", "FP32", "1", "[1]"), ""), 0, SYNTAX, "'[' is missing"},
    {REQUEST(INPUT("logits", "FP32", "[-1]", "[1]"), ""), 0, BROKEN, "a whole number is missing"},
    {REQUEST(INPUT("logits", "FP32", "[1,1,1,1,1]", "[1]"), ""), 0, BROKEN, "a list that is too long"},
    {REQUEST(INPUT("logits", "FP32", "[1]", "1"), ""), 0, BROKEN, "data is no list"},
    {REQUEST(INPUT("logits", "FP32", "[1]", "\"1\""), ""), 0, BROKEN, "data is no list"},
    {REQUEST(INPUT("logits", "FP32", "[1]", "[\"1\"]"), ""), 0, "wrong_type", "logits[0] is a string"},
    {REQUEST(INPUT("logits", "FP32", "[1]", "[NaN]"), ""), 0, SYNTAX, "logits"},
    {REQUEST(INPUT("logits", "FP32", "[1]", "[]"), ""), 0, "wrong_length", "logits"},
    {REQUEST("{\"data\":[\"1\"],\"shape\":[1],\"datatype\":\"FP32\",\"name\":\"logits\"}", ""), 0,
     "wrong_type", "logits[0] is a string"},
    {REQUEST(INPUT("logits", "FP32", "[3]", "[1,2]"), ""), 0, "wrong_length", "logits has 2 values in data"},
    {REQUEST(INPUT("logits", "FP32", "[0]", "[1]"), ""), 0, "wrong_length", "logits has 1 values in data"},
    {REQUEST(INPUT("logits", "FP32", "[4611686018427387905]", "[1]"), ""), 0, "wrong_length", "logits has 1"},
    {REQUEST(LOGITS "," LOGITS, ""), 0, "duplicate_parameter", "logits is given twice"},
    {REQUEST(LOGITS "," INPUT("temprature", "FP32", "[1]", "[1]"), ""), 0, "unknown_parameter",
     "did you mean temperature?"},
    {REQUEST(LOGITS "," INPUT("seed", "UINT64", "[1]", "[\"7\"]"), ""), 0, "wrong_type",
     "a value of the tensor seed is \"7\"; its datatype is UINT64"},
    {REQUEST(LOGITS "," INPUT("seed", "UINT64", "[1]", "[1.0]"), ""), 0, "wrong_type",
     "is 1.0; its datatype"},
    {REQUEST(LOGITS "," INPUT("seed", "UINT64", "[1]", "[-1]"), ""), 0, "out_of_range",
     "is -1; its datatype"},
    {REQUEST(LOGITS "," INPUT("seed", "UINT64", "[1]", "[18446744073709551616]"), ""), 0, "out_of_range",
     "is 18446744073709551616"},
    {REQUEST(LOGITS "," INPUT("seed", "INT64", "[1]", "[-1]"), ""), 0, "out_of_range", "seed is -1"},
    {REQUEST(LOGITS "," INPUT("top_k", "INT8", "[1]", "[128]"), ""), 0, "out_of_range",
     "is 128; its datatype"},
    {REQUEST(LOGITS "," INPUT("top_k", "INT8", "[1]", "[-129]"), ""), 0, "out_of_range", "is -129"},
    {REQUEST(LOGITS "," INPUT("top_k", "INT8", "[1]", "[[]]"), ""), 0, "wrong_length", "top_k has 0 values"},
    {REQUEST(LOGITS "," INPUT("top_k", "INT8", "[1]", "[{}]"), ""), 0, "wrong_type", "is {}"},
    {REQUEST(LOGITS "," INPUT("logprobs", "BOOL", "[1]", "[1]"), ""), 0, "wrong_type", "is 1; its datatype"},
    {REQUEST(LOGITS "," INPUT("top_p", "FP32", "[1]", "[1.7]"), ""), 0, "out_of_range",
     "it must be from 0 to 1"},
    {REQUEST(LOGITS "," INPUT("top_p", "FP32", "[1]", "[null]"), ""), 0, "out_of_range",
     "top_p is not finite"},
    {REQUEST(LOGITS "," INPUT("top_p", "FP32", "[2]", "[1,1]"), ""), 0, "wrong_length", "top_p has 2 values"},
    {REQUEST(LOGITS "," INPUT("id", "UINT8", "[1]", "[1]"), ""), 0, "wrong_type", "id is a tensor"},
    {REQUEST(LOGITS "," INPUT("candidate_ids", "INT64", "[1,2]", "[1,2147483648]"), ""), 0, "out_of_range",
     "candidate_ids[0][1] is 2147483648"},
    {REQUEST("{\"name\":\"logits\",\"shape\":[1],\"datatype\":\"FP32\",\"parameters\":{\"shared_memory_"
             "region\":\"a\",\"shared_memory_byte_size\":4}}",
             ""),
     0, "unknown_parameter", "shared memory"},
    /* bytes */
    {REQUEST(BYTES("logits", "FP32", "[1,2]", "4"), ""), 4, "wrong_length",
     "a binary_data_size of 4, which is not what its datatype and shape say"},
    {REQUEST(BYTES("logits", "FP32", "[1,2]", "8"), ""), 4, "wrong_length",
     "has 8 bytes; the body has 4 left"},
    {REQUEST(BYTES("logits", "FP32", "[1,2]", "8"), ""), 0, "wrong_length",
     "has 8 bytes; the body has 0 left"},
    {REQUEST(BYTES("logits", "FP32", "[1,2]", "8"), ""), 12, "wrong_length",
     "12 bytes behind its JSON header, 4 more than its inputs"},
    {REQUEST(LOGITS, ""), 4, "wrong_length", "4 bytes behind its JSON header"},
    {REQUEST(BYTES("logits", "FP32", "[1,2]", "-8"), ""), 8, BROKEN, "a whole number is missing"},
    {REQUEST(BYTES("logits", "FP32", "[4611686018427387906]", "8"), ""), 8, "wrong_length",
     "binary_data_size"},
    {REQUEST(BYTES("logits", "FP32", "[0]", "0"), ""), 0, "wrong_length", "logits is F32 [0]"},
    /* parameters */
    {REQUEST(LOGITS, ",\"parameters\":[]"), 0, SYNTAX, "'{' is missing"},
    {REQUEST(LOGITS, ",\"parameters\":{\"temperature\":\"0.7\"}"), 0, "wrong_type",
     "temperature is a string"},
    {REQUEST(LOGITS, ",\"parameters\":{\"temperature\":true}"), 0, "wrong_type",
     "temperature is true or false"},
    {REQUEST(LOGITS, ",\"parameters\":{\"temperature\":[1]}"), 0, BROKEN, "lists are inputs"},
    {REQUEST(LOGITS, ",\"parameters\":{\"logprobs\":1}"), 0, "wrong_type", "logprobs is a number"},
    {REQUEST(LOGITS, ",\"parameters\":{\"logprobs_mode\":\"row\"}"), 0, "out_of_range", "logprobs_mode is"},
    {REQUEST(LOGITS, ",\"parameters\":{\"n\":1.5}"), 0, "out_of_range", "n is 1.5"},
    {REQUEST(LOGITS, ",\"parameters\":{\"n\":1,\"n\":1}"), 0, "duplicate_parameter", "n is given twice"},
    {REQUEST(LOGITS "," INPUT("n", "INT8", "[1]", "[1]"), ",\"parameters\":{\"n\":1}"), 0,
     "duplicate_parameter", "n is given twice"},
    {REQUEST(LOGITS, ",\"parameters\":{\"bias\":1}"), 0, "wrong_type", "bias is a text"},
    {REQUEST(LOGITS, ",\"parameters\":{\"topk\":1}"), 0, "unknown_parameter", "did you mean top_k?"},
    {REQUEST(LOGITS, ",\"parameters\":{\"binary_data_output\":1}"), 0, BROKEN, "true or false is missing"},
    /* outputs */
    {REQUEST(LOGITS, ",\"outputs\":[{}]"), 0, BROKEN, "an output without name"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"tokens\"}]"), 0, "unknown_parameter",
     "there is no output tokens"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"seed\"},{\"name\":\"seed\"}]"), 0, BROKEN,
     "an output comes twice"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"seed\",\"datatype\":\"INT32\"}]"), 0, BROKEN,
     "an output has name and parameters"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"seed\",\"parameters\":{\"classification\":3}}]"), 0, BROKEN,
     "classification"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"seed\",\"parameters\":{\"shared_memory_region\":\"a\"}}]"), 0,
     "unknown_parameter", "shared memory"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"seed\",\"parameters\":{\"binary_data\":\"true\"}}]"), 0,
     BROKEN, "true or false is missing"},
    {REQUEST(LOGITS, ",\"outputs\":[{\"name\":\"top_probs\"}]"), 0, "missing_parameter",
     "the output top_probs is asked for and top_candidates"},
};

START_TEST(refuses)
{
    struct decoded d;
    decode(&d, refused[_i].json, 0, refused[_i].data);
    ck_assert_msg(d.r.status == STATUS_INVALID, "%s is accepted", refused[_i].json);
    ck_assert_msg(strstr(d.r.err.message, refused[_i].message) != NULL, "%s: %s", refused[_i].json,
                  d.r.err.message);
    ck_assert_str_eq(d.r.err.code, refused[_i].code);
    bodies_fini(&d.r);
}
END_TEST

/* ---- sizes ---- */

/* So many inputs, parameters or texts. */
static void decode_many(struct decoded *d, const char *open, const char *each, const char *close,
                        size_t count)
{
    char *json = malloc(count * (strlen(each) + 1) + strlen(open) + strlen(close) + 1),
         *p = json + sprintf(json, "%s", open);
    for (size_t i = 0; i < count; i++)
        p += sprintf(p, "%s%s", i == 0 ? "" : ",", each);
    p += sprintf(p, "%s", close);
    *d = (struct decoded){.r = {.lender.lend = bodies_lend}};
    d->r.status = kserve_decode(&(struct kserve_body){bodies_place(json, (size_t)(p - json), '1'),
                                                      (size_t)(p - json), KSERVE_ALL_JSON, NULL},
                                &d->r.arena, &d->r.lender, 1, &d->r.request, &d->plan, &d->r.err);
    free(json);
}

static const struct {
    const char *open, *each, *close, *message;
    enum status status;
} floods[] = {
    {"{\"inputs\":[", INPUT("n", "INT8", "[1]", "[1]"), "]}", "more inputs than there are", STATUS_INVALID},
    {"{\"parameters\":{", "\"n\":1", "}}", "more parameters than there are", STATUS_INVALID},
    {"{\"parameters\":{", "\"timeout\":1", "}}", "more text in strings than is read", STATUS_INVALID},
    {"{\"outputs\":[", "{\"name\":\"seed\"}", "]}", "an output comes twice", STATUS_INVALID},
    {"{\"inputs\":[{\"name\":\"seed\",\"shape\":[1],\"datatype\":\"UINT64\",\"data\":[", "12345678901234567",
     "]}]}", "bytes of JSON; at most 1048576 are read", STATUS_TOO_LARGE},
    {"{\"inputs\":[{\"data\":", "[", "]}]}", "JSON", STATUS_INVALID},
};

START_TEST(floods_are_refused)
{
    struct decoded d;
    decode_many(&d, floods[_i].open, floods[_i].each, floods[_i].close, 60000);
    ck_assert_int_eq(d.r.status, floods[_i].status);
    ck_assert_msg(strstr(d.r.err.message, floods[_i].message) != NULL, "%s", d.r.err.message);
    bodies_fini(&d.r);
}
END_TEST

START_TEST(a_header_longer_than_the_body_is_refused)
{
    static const char json[] = REQUEST(LOGITS, "");
    struct decoded d = {.r = {.lender.lend = bodies_lend}};
    size_t length = strlen(json);
    for (size_t header = 0; header <= length + 1; header++) {
        d.r.status =
            kserve_decode(&(struct kserve_body){bodies_place(json, length, '}'), length, header, NULL},
                          &d.r.arena, &d.r.lender, 1, &d.r.request, &d.plan, &d.r.err);
        ck_assert_int_eq(d.r.status, header == length ? STATUS_OK : STATUS_INVALID);
        bodies_fini(&d.r);
        d.r.arena = (struct arena){0};
    }
}
END_TEST

START_TEST(a_refused_loan_is_told)
{
    static const char json[] = REQUEST(LOGITS, "");
    struct decoded d = {.r = {.lender.lend = bodies_lend, .num_loans = LENDER_MOST}};
    d.r.status = kserve_decode(
        &(struct kserve_body){bodies_place(json, strlen(json), ' '), strlen(json), KSERVE_ALL_JSON, NULL},
        &d.r.arena, &d.r.lender, 1, &d.r.request, &d.plan, &d.r.err);
    ck_assert_int_eq(d.r.status, STATUS_OVERLOADED);
    d.r.num_loans = 0;
    bodies_fini(&d.r);
}
END_TEST

/* ---- damage ---- */

static const char whole[] = REQUEST(
    INPUT("logits", "FP32", "[2,2]", "[[1,2],[3,null]]") "," INPUT(
        "temperature", "FP64", "[2]", "[0.5,1e0]") "," INPUT("candidate_ids", "INT64", "[2,2]",
                                                             "[7,5,3,1]") "," INPUT("seed", "UINT64", "[2,1]",
                                                                                    "[[1],[2]]"),
    ",\"id\":\"a\\u00e9\",\"parameters\":{\"n\":2,\"logprobs\":true,\"top_candidates\":1},"
    "\"outputs\":[{\"name\":\"token_ids\",\"parameters\":{\"binary_data\":true}},{\"name\":\"seed\"}]");

/* Whatever pads the text, what is cut off is not taken from there. */
START_TEST(every_shorter_text_is_refused)
{
    for (size_t length = 0; length < strlen(whole); length++) {
        static const char paddings[] = "1}] \"";
        for (const char *padding = paddings; *padding != '\0'; padding++) {
            struct decoded d = {.r = {.lender.lend = bodies_lend}};
            d.r.status = kserve_decode(
                &(struct kserve_body){bodies_place(whole, length, *padding), length, KSERVE_ALL_JSON, NULL},
                &d.r.arena, &d.r.lender, 1, &d.r.request, &d.plan, &d.r.err);
            ck_assert_int_eq(d.r.status, STATUS_INVALID);
            bodies_fini(&d.r);
        }
    }
}
END_TEST

/* Each byte with many values: refused, or what is accepted can be read. */
START_TEST(damage_is_survived)
{
    char damaged[sizeof whole];
    memcpy(damaged, whole, sizeof whole);
    for (size_t i = 0; i < strlen(whole); i++) {
        static const char likely[] = "\"\\[]{},:-.0123456789 xn";
        for (size_t j = 0; j < sizeof likely + 8; j++) {
            struct decoded d;
            char text[TEXT_BYTES];
            damaged[i] = j < sizeof likely ? likely[j] : (char)(whole[i] ^ 1 << (j - sizeof likely));
            decode(&d, damaged[i] == '\0' ? "" : damaged, 0, 0);
            ck_assert(d.r.status == STATUS_OK || d.r.status == STATUS_INVALID);
            if (d.r.status == STATUS_OK)
                bodies_describe(&d.r.request, text, sizeof text);
            bodies_fini(&d.r);
        }
        damaged[i] = whole[i];
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kserve");
    TCase *tcase = tcase_create("requests");
    tcase_add_loop_test(tcase, accepts, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof refused[0]);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("sizes");
    tcase_add_loop_test(tcase, floods_are_refused, 0, sizeof floods / sizeof floods[0]);
    tcase_add_test(tcase, a_header_longer_than_the_body_is_refused);
    tcase_add_test(tcase, a_refused_loan_is_told);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("damage");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_shorter_text_is_refused);
    tcase_add_test(tcase, damage_is_survived);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
