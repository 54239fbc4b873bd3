#include "proto/json/json.h"

#include "tests/bodies.h"
#include "tests/support.h"

#define TEXT_BYTES 512

/* ---- what is accepted ---- */

static const struct {
    const char *body, *request;
} accepted[] = {
    {"{\"logits\":[1,2,3]}", "1x1x3: 1,2,3"},
    {"{\"logits\":[[1,2,3]]}", "1x1x3: 1,2,3"},
    {" {\n\t\"logits\" : [ [ 1 , null ] , [ -0.5 , 1e2 ] ]\r\n} ", "1x2x2: 1,-inf,-0.5,100"},
    {"{\"logits\":[[1,2]],\"temperature\":0.8,\"top_k\":40,\"top_p\":0.5}",
     "1x1x2: 1,2 temperature=0.80000000000000004 top_k=40 top_p=0.5"},
    {"{\"top_k\":[1,-2],\"temperature\":[-1e300,5e-324],\"top_p\":[0,1],\"logits\":[[1],[2]]}",
     "1x2x1: 1,2 temperature=[-1.0000000000000001e+300,4.9406564584124654e-324] top_k=[1,-2] top_p=[0,1]"},
    {"{\"logits\":[1],\"top_k\":1e300}", "1x1x1: 1 top_k=1.0000000000000001e+300"},
    {"{\"logits\":[1],\"top\\u005fk\":5}", "1x1x1: 1 top_k=5"},
    {"{\"logits\":[1],\"n\":1.0,\"top_candidates\":1e0}", "1x1x1: 1 top_candidates=1"},
    {"{\"logits\":[1],\"n\":1024,\"top_candidates\":1024}", "1x1x1: 1 n=1024 top_candidates=1024"},
    {"{\"logits\":[1],\"logprobs\":true,\"logprobs_mode\":\"raw\"}", "1x1x1: 1 logprobs raw"},
    {"{\"logits\":[1],\"logprobs\":false,\"logprobs_mode\":\"processed\"}", "1x1x1: 1"},
    {"{\"logits\":[1],\"id\":\"a \\u00e9\\ud83d\\ude00\\\\u0000\\n\"}",
     "1x1x1: 1 id=a \xc3\xa9\xf0\x9f\x98\x80\\u0000\n"},
    {"{\"logits\":[1],\"id\":\"\"}", "1x1x1: 1 id="},
    /* a list of one is its value, and that of all rows */
    {"{\"logits\":[1],\"n\":[3],\"top_candidates\":[2],\"logprobs\":[true],\"logprobs_mode\":[\"raw\"],"
     "\"id\":[\"a\"]}",
     "1x1x1: 1 n=3 top_candidates=2 logprobs raw id=a"},
    {"{\"logits\":[[1],[2]],\"temperature\":[0.5],\"top_k\":[3],\"top_p\":[0.25],\"offset\":[7]}",
     "1x2x1: 1,2 temperature=0.5 top_k=3 top_p=0.25 offset=7"},
    /* null is a parameter that was not sent */
    {"{\"logits\":[1],\"temperature\":null,\"top_k\":null,\"top_p\":null,\"offset\":null,\"n\":null,"
     "\"top_candidates\":null,\"logprobs\":null,\"logprobs_mode\":null,\"id\":null}",
     "1x1x1: 1"},
    {"{\"mix\":null,\"bias\":null,\"candidate_ids\":null,\"seed\":null,\"logits\":[1]}", "1x1x1: 1"},
    {"\xef\xbb\xbf{\"logits\":[1]}", "1x1x1: 1"},
    /* words */
    {"{\"logits\":[1],\"seed\":0,\"offset\":7}", "1x1x1: 1 seed=0 offset=7"},
    {"{\"logits\":[1],\"seed\":-0}", "1x1x1: 1 seed=0"},
    {"{\"logits\":[1],\"seed\":9007199254740992}", "1x1x1: 1 seed=9007199254740992"},
    {"{\"logits\":[1],\"seed\":9007199254740992.0}", "1x1x1: 1 seed=9007199254740992"},
    {"{\"logits\":[1],\"seed\":9.007199254740992e15}", "1x1x1: 1 seed=9007199254740992"},
    {"{\"logits\":[1],\"seed\":1.50e2}", "1x1x1: 1 seed=150"},
    {"{\"logits\":[1],\"seed\":\"0\",\"offset\":\"18446744073709551615\"}",
     "1x1x1: 1 seed=0 offset=18446744073709551615"},
    {"{\"logits\":[[1],[2],[3]],\"seed\":[ 7 , \"9007199254740993\",9007199254740992]}",
     "1x3x1: 1,2,3 seed=[7,9007199254740993,9007199254740992]"},
    {"{\"logits\":[[1]],\"seed\":[7]}", "1x1x1: 1 seed=[7]"},
    /* stacks and bias */
    {"{\"logits\":[[[1,2]],[[3,4]]],\"mix\":[1.5,-0.5]}", "2x1x2: 1,2,3,4 mix=1.5,-0.5"},
    {"{\"logits\":[[[1],[2]],[[3],[4]]],\"mix\":[1,0]}", "2x2x1: 1,2,3,4 mix=1,0"},
    {"{\"mix\":[1,2],\"logits\":[[1,2],[3,4]]}", "2x1x2: 1,2,3,4 mix=1,2"},
    {"{\"mix\":[2],\"logits\":[1,2]}", "1x1x2: 1,2 mix=2"},
    {"{\"bias\":[1,null],\"logits\":[[1,2],[3,4]]}", "1x2x2: 1,2,3,4 bias=1,-inf"},
    {"{\"logits\":[[1,2],[3,4]],\"bias\":[[5,6],[7,8]]}", "1x2x2: 1,2,3,4 biases=5,6,7,8"},
    /* candidates */
    {"{\"logits\":[[1,2],[3,4]],\"candidate_ids\":[[7,2147483647],[0,1e1]]}",
     "1x2x2: 1,2,3,4 ids=7,2147483647,0,10"},
    {"{\"candidate_ids\":[ 9 , 8 ],\"logits\":[1,2]}", "1x1x2: 1,2 ids=9,8"},
    {"{\"candidate_ids\":[[9,8]],\"logits\":[1,2],\"bias\":[3,4]}", "1x1x2: 1,2 bias=3,4 ids=9,8"},
    {"{\"candidate_ids\":[9,8],\"logits\":[[1,2],[3,4]],\"mix\":[1,2]}", "2x1x2: 1,2,3,4 mix=1,2 ids=9,8"},
    {"{\"candidate_ids\":[[9],[9]],\"logits\":[[1],[2]],\"bias\":[[3],[4]]}",
     "1x2x1: 1,2 biases=3,4 ids=9,9"},
    /* packed */
    {"{\"logits\":{\"b64\":\"AACAPwAAAEAAAID/\",\"dtype\":\"f32\",\"shape\":[3]}}", "1x1x3: 1,2,-inf"},
    {"{\"logits\":{\"b64\":\"AACAPwAAAEAAAID\\/\",\"dtype\":\"f32\",\"shape\":[3]}}", "1x1x3: 1,2,-inf"},
    {"{\"logits\":{\"shape\":[1,2],\"b64\":\"\\u0041ACAPwAAAE\\u0041\\u003d\",\"dtype\":\"f32\"}}",
     "1x1x2: 1,2"},
    {"{\"logits\": { \"dtype\" : \"f16\" , \"shape\" : [ 2 , 1 ] , \"b64\" : \"ADwAwA==\" } "
     ",\"top_k\":[1,2]}",
     "1x2x1 f16: 1,-2 top_k=[1,2]"},
    {"{\"logits\":{\"b64\":\"gD8AQA==\",\"dtype\":\"bf16\",\"shape\":[2,1,1]},\"mix\":[1,2]}",
     "2x1x1 bf16: 1,2 mix=1,2"},
    {"{\"logits\":{\"b64\":\"gD8=\",\"dtype\":\"bf16\",\"shape\":[1]},\"bias\":[5]}", "1x1x1 bf16: 1 bias=5"},
};

START_TEST(accepts)
{
    static const char paddings[] = "7,]}\" \\e.n";
    for (const char *padding = paddings; *padding != '\0'; padding++) {
        struct bodies_request r;
        char text[TEXT_BYTES];
        bodies_decode(&r, accepted[_i].body, strlen(accepted[_i].body), *padding);
        ck_assert_msg(r.status == STATUS_OK, "%s: %s", accepted[_i].body, r.err.message);
        ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text), accepted[_i].request);
        bodies_fini(&r);
    }
}
END_TEST

/* ---- what is refused ---- */

#define FORTY "1234567890123456789012345678901234567890"

static const struct {
    const char *body, *code, *param;
    size_t row;
    const char *message; /* a part of it */
} refused[] = {
    {"", "malformed_json", NULL, ERROR_NO_ROW, "the body is empty"},
    {" \n", "malformed_json", NULL, ERROR_NO_ROW, "the body is empty"},
    {"\xef\xbb\xbf", "malformed_json", NULL, ERROR_NO_ROW, "the body is empty"},
    {" \xef\xbb\xbf{}", "malformed_json", NULL, ERROR_NO_ROW, "a value is missing at byte 1"},
    {"{\"logits\":[1]}x", "malformed_json", NULL, ERROR_NO_ROW, "more text after the object at byte 14"},
    {"{\"logits\":[1],}", "malformed_json", NULL, ERROR_NO_ROW, "at byte 14"},
    {"{\"logits\":[1] \"n\":1}", "malformed_json", NULL, ERROR_NO_ROW, "',' or '}' is missing at byte 14"},
    {"{\"logits\" [1]}", "malformed_json", NULL, ERROR_NO_ROW, "':' is missing at byte 10"},
    {"{logits:[1]}", "malformed_json", NULL, ERROR_NO_ROW, "at byte 1"},
    {"{\"logits\":[1],\"n\":01}", "malformed_json", "n", ERROR_NO_ROW, "leading zero at byte 18"},
    {"{\"logits\":[1],\"n\":}", "malformed_json", "n", ERROR_NO_ROW, "a value is missing at byte 18"},
    {"{\"logits\":[1,NaN]}", "malformed_json", "logits", ERROR_NO_ROW, "logits[1] is NaN"},
    {"[1]", "wrong_type", NULL, ERROR_NO_ROW, "the body is no JSON object"},
    {"[1", "malformed_json", NULL, ERROR_NO_ROW, "it ends too early at byte 2"},
    {"{}", "missing_parameter", "logits", ERROR_NO_ROW, "logits is missing"},
    /* names */
    {"{\"logits\":[1],\"top-p\":1}", "unknown_parameter", "top-p", ERROR_NO_ROW, "did you mean top_p?"},
    {"{\"logits\":[1],\"vocab_size\":1}", "unknown_parameter", "vocab_size", ERROR_NO_ROW,
     "raw requests only"},
    {"{\"logits\":[1],\"top_k\\u0000\":1}", "unknown_parameter", "top_k\\u0000", ERROR_NO_ROW, "not a known"},
    {"{\"n\":1,\"\\u006e\":1}", "duplicate_parameter", "n", ERROR_NO_ROW, "n is given twice"},
    {"{\"logits\":[1],\"logits\":[1]}", "duplicate_parameter", "logits", ERROR_NO_ROW, "given twice"},
    /* types */
    {"{\"bias\":{\"b64\":\"\"}}", "wrong_type", "bias", ERROR_NO_ROW, "bias is an object"},
    {"{\"logits\":null}", "wrong_type", "logits", ERROR_NO_ROW, "logits is null"},
    {"{\"temperature\":\"0.7\"}", "wrong_type", "temperature", ERROR_NO_ROW,
     "temperature is the string \"0.7\"; it must be a finite number, or a list of one for each row"},
    {"{\"temperature\":[1,\"1\"]}", "wrong_type", "temperature", 1, "temperature[1] is the string"},
    {"{\"top_k\":nul}", "malformed_json", "top_k", ERROR_NO_ROW, "a value is missing"},
    {"{\"top_k\":[1,null]}", "wrong_type", "top_k", 1, "top_k[1] is null"},
    {"{\"seed\":[1,true]}", "wrong_type", "seed", 1, "seed[1] is true"},
    {"{\"n\":[\"a\"]}", "wrong_type", "n", ERROR_NO_ROW, "n is the string \"a\""},
    {"{\"n\":[1,1]}", "wrong_type", "n", ERROR_NO_ROW, "n is a list"},
    {"{\"n\":[]}", "wrong_type", "n", ERROR_NO_ROW, "n is a list"},
    {"{\"n\":[[1]]}", "wrong_type", "n", ERROR_NO_ROW, "n is a list"},
    {"{\"n\":[null]}", "wrong_type", "n", ERROR_NO_ROW, "n is null"},
    {"{\"logprobs\":1}", "wrong_type", "logprobs", ERROR_NO_ROW, "it must be true or false"},
    {"{\"logprobs_mode\":true}", "wrong_type", "logprobs_mode", ERROR_NO_ROW, "\"processed\" or \"raw\""},
    {"{\"mix\":1}", "wrong_type", "mix", ERROR_NO_ROW, "mix is a number"},
    {"{\"mix\":[1,null]}", "wrong_type", "mix", ERROR_NO_ROW, "mix[1] is null"},
    {"{\"id\":[\"a\",\"b\"]}", "wrong_type", "id", ERROR_NO_ROW, "id is a list"},
    /* words that JSON does not have */
    {"{\"temperature\":Infinity}", "malformed_json", "temperature", ERROR_NO_ROW,
     "temperature is Infinity, which JSON does not have; it must be a finite number"},
    {"{\"temperature\":-Infinity}", "malformed_json", "temperature", ERROR_NO_ROW,
     "temperature is -Infinity,"},
    {"{\"top_p\":[0, 1,NaN]}", "malformed_json", "top_p", 2, "top_p[2] is NaN, which JSON does not have"},
    {"{\"top_k\":nan}", "malformed_json", "top_k", ERROR_NO_ROW, "top_k is nan,"},
    {"{\"seed\":[\"1,2\",inf]}", "malformed_json", "seed", 1, "seed[1] is inf,"},
    {"{\"logits\":NaN}", "malformed_json", "logits", ERROR_NO_ROW, "logits is NaN,"},
    {"NaN", "malformed_json", NULL, ERROR_NO_ROW, "NaN, which JSON does not have, at byte 0"},
    /* ranges */
    {"{\"top_p\":1.7}", "out_of_range", "top_p", ERROR_NO_ROW, "top_p is 1.7; it must be from 0 to 1"},
    {"{\"top_p\":[0,1,1.7]}", "out_of_range", "top_p", 2, "top_p[2] is 1.7; it must be from 0 to 1"},
    {"{\"top_p\":1.0000000000000002}", "out_of_range", "top_p", ERROR_NO_ROW, "is 1.0000000000000002;"},
    {"{\"temperature\":1e999}", "out_of_range", "temperature", ERROR_NO_ROW, "is not finite"},
    {"{\"top_k\":2.5}", "out_of_range", "top_k", ERROR_NO_ROW, "top_k is 2.5; it must be a whole number"},
    {"{\"n\":0}", "out_of_range", "n", ERROR_NO_ROW, "n is 0; it must be a whole number from 1 to 1024"},
    {"{\"top_candidates\":1025}", "out_of_range", "top_candidates", ERROR_NO_ROW, "from 0 to 1024"},
    {"{\"logprobs_mode\":\"RAW\"}", "out_of_range", "logprobs_mode", ERROR_NO_ROW, "is \"RAW\""},
    {"{\"mix\":[1,1e39]}", "out_of_range", "mix", ERROR_NO_ROW, "mix[1] is 1e+39"},
    {"{\"id\":\"a\\u0000b\"}", "out_of_range", "id", ERROR_NO_ROW, "id has a zero byte"},
    {"{\"temperature\":0." FORTY FORTY "}", "out_of_range", "temperature", ERROR_NO_ROW, "82 characters"},
    /* words */
    {"{\"seed\":9007199254740993}", "out_of_range", "seed", ERROR_NO_ROW, "send it as a decimal string"},
    {"{\"seed\":9007199254740992.5}", "out_of_range", "seed", ERROR_NO_ROW, "send it as a decimal string"},
    {"{\"seed\":[0,18446744073709551616]}", "out_of_range", "seed", 1, "send it as a decimal string"},
    {"{\"seed\":4503599627370496.3}", "out_of_range", "seed", ERROR_NO_ROW, "seed is 4503599627370496.3;"},
    {"{\"offset\":-1}", "out_of_range", "offset", ERROR_NO_ROW, "offset is -1;"},
    {"{\"offset\":1e-400}", "out_of_range", "offset", ERROR_NO_ROW, "offset is 1e-400;"},
    {"{\"seed\":\"18446744073709551616\"}", "out_of_range", "seed", ERROR_NO_ROW, "\"18446744073709551616\""},
    {"{\"seed\":\"-1\"}", "out_of_range", "seed", ERROR_NO_ROW, "\"-1\""},
    {"{\"seed\":\"+1\"}", "out_of_range", "seed", ERROR_NO_ROW, "\"+1\""},
    {"{\"seed\":\" 1\"}", "out_of_range", "seed", ERROR_NO_ROW, "\" 1\""},
    {"{\"seed\":\"01\"}", "out_of_range", "seed", ERROR_NO_ROW, "\"01\""},
    {"{\"seed\":\"\"}", "out_of_range", "seed", ERROR_NO_ROW, "\"\""},
    {"{\"seed\":\"7\\u0000\"}", "out_of_range", "seed", ERROR_NO_ROW, "seed has a zero byte"},
    {"{\"seed\":\"" FORTY "1\"}", "out_of_range", "seed", ERROR_NO_ROW, "\"" FORTY "...\""},
    {"{\"seed\":\"123456789012345678901234567890123456789\xc3\xa9\"}", "out_of_range", "seed", ERROR_NO_ROW,
     "is \"123456789012345678901234567890123456789...\""},
    /* lengths */
    {"{\"logits\":[[1,2],[1]]}", "wrong_length", "logits", 1, "logits[1] has 1 number"},
    {"{\"logits\":[]}", "wrong_length", "logits", ERROR_NO_ROW, "is empty"},
    {"{\"logits\":[[[1]],[[2]]]}", "wrong_length", "logits", ERROR_NO_ROW, "needs mix"},
    {"{\"logits\":[[[[1]]]]}", "wrong_length", "logits", ERROR_NO_ROW, "too deep"},
    {"{\"logits\":[[1],[2]],\"top_k\":[1,2,3]}", "wrong_length", "top_k", ERROR_NO_ROW, "top_k has 3 values"},
    {"{\"logits\":[[1],[2]],\"seed\":[1]}", "wrong_length", "seed", ERROR_NO_ROW,
     "seed is a list of one value; send a number, from which each of the 2 rows has draws"},
    {"{\"logits\":[1],\"temperature\":[]}", "wrong_length", "temperature", ERROR_NO_ROW, "is empty"},
    {"{\"logits\":[[1],[2]],\"mix\":[1]}", "wrong_length", "mix", ERROR_NO_ROW,
     "mix has 1 weights; logits has 2"},
    {"{\"logits\":[1,2],\"bias\":[1]}", "wrong_length", "bias", ERROR_NO_ROW, "one row of 2"},
    {"{\"logits\":[1,2],\"bias\":[[1,2],[1,2]]}", "wrong_length", "bias", ERROR_NO_ROW, "bias has 2 rows"},
    /* candidates */
    {"{\"candidate_ids\":7}", "wrong_type", "candidate_ids", ERROR_NO_ROW, "candidate_ids is the number 7"},
    {"{\"candidate_ids\":[]}", "wrong_length", "candidate_ids", ERROR_NO_ROW, "is empty"},
    {"{\"candidate_ids\":[[]]}", "wrong_length", "candidate_ids", ERROR_NO_ROW, "is empty"},
    {"{\"candidate_ids\":[[1],2]}", "wrong_type", "candidate_ids", 1, "candidate_ids[1] is the number 2"},
    {"{\"candidate_ids\":[1,[2]]}", "wrong_type", "candidate_ids", ERROR_NO_ROW,
     "candidate_ids[1] is a list"},
    {"{\"candidate_ids\":[[[1]]]}", "wrong_type", "candidate_ids", 0, "candidate_ids[0][0] is a list"},
    {"{\"candidate_ids\":[[1,2],[1]]}", "wrong_length", "candidate_ids", 1, "candidate_ids[1] has 1 ids"},
    {"{\"candidate_ids\":[[1,2],[1,-1]]}", "out_of_range", "candidate_ids", 1,
     "candidate_ids[1][1] is the number -1; it must be a whole number from 0 to 2147483647"},
    {"{\"candidate_ids\":[2147483648]}", "out_of_range", "candidate_ids", ERROR_NO_ROW,
     "candidate_ids[0] is"},
    {"{\"candidate_ids\":[1.5]}", "out_of_range", "candidate_ids", ERROR_NO_ROW, "is the number 1.5"},
    {"{\"candidate_ids\":[\"1\"]}", "wrong_type", "candidate_ids", ERROR_NO_ROW, "is the string"},
    {"{\"candidate_ids\":[null]}", "wrong_type", "candidate_ids", ERROR_NO_ROW, "is null"},
    {"{\"logits\":[1,2],\"candidate_ids\":[1]}", "wrong_length", "candidate_ids", ERROR_NO_ROW,
     "candidate_ids has 1 row of 1 ids; logits has 1 of 2"},
    {"{\"logits\":[[1],[2]],\"candidate_ids\":[[1]]}", "wrong_length", "candidate_ids", ERROR_NO_ROW,
     "has 2 of 1"},
    {"{\"logits\":[[1],[2]],\"candidate_ids\":[[1],[2]],\"bias\":[1]}", "conflicting_parameters", "bias",
     ERROR_NO_ROW, "a row of bias for each of the 2"},
    /* packed */
    {"{\"logits\":{}}", "missing_parameter", "logits", ERROR_NO_ROW, "logits.b64 is missing"},
    {"{\"logits\":{\"b64\":\"\"}}", "missing_parameter", "logits", ERROR_NO_ROW, "logits.dtype is missing"},
    {"{\"logits\":{\"b64\":\"\",\"dtype\":\"f32\"}}", "missing_parameter", "logits", ERROR_NO_ROW,
     "logits.shape"},
    {"{\"logits\":{\"b64\":\"\",\"b64\":\"\"}}", "duplicate_parameter", "logits", ERROR_NO_ROW,
     "b64 is given twice"},
    {"{\"logits\":{\"base64\":\"\"}}", "unknown_parameter", "logits", ERROR_NO_ROW,
     "logits.base64 is unknown"},
    {"{\"logits\":{\"b64\":7}}", "wrong_type", "logits", ERROR_NO_ROW, "logits.b64 must be a string"},
    {"{\"logits\":{\"dtype\":null}}", "wrong_type", "logits", ERROR_NO_ROW, "logits.dtype must be a string"},
    {"{\"logits\":{\"shape\":\"1\"}}", "wrong_type", "logits", ERROR_NO_ROW, "logits.shape must be a list"},
    {"{\"logits\":{\"b64\":\"a\\x\"}}", "malformed_json", "logits", ERROR_NO_ROW, "unknown escape"},
    {"{\"logits\":{\"b64\":\"AA==\" \"dtype\":1}}", "malformed_json", "logits", ERROR_NO_ROW,
     "',' or '}' is missing"},
#define PACKED(text, dtype, shape)                                                                           \
    "{\"logits\":{\"b64\":\"" text "\",\"dtype\":\"" dtype "\",\"shape\":" shape "}}"
    {PACKED("gD8=", "f8", "[1]"), "out_of_range", "logits", ERROR_NO_ROW, "logits.dtype is \"f8\""},
    {PACKED("gD8=", "bf16", "[]"), "out_of_range", "logits", ERROR_NO_ROW, "logits.shape must be"},
    {PACKED("gD8=", "bf16", "[0]"), "out_of_range", "logits", ERROR_NO_ROW, "none of them 0"},
    {PACKED("gD8=", "bf16", "[-1]"), "out_of_range", "logits", ERROR_NO_ROW, "logits.shape must be"},
    {PACKED("gD8=", "bf16", "[1.0]"), "out_of_range", "logits", ERROR_NO_ROW, "logits.shape must be"},
    {PACKED("gD8=", "bf16", "[1e0]"), "out_of_range", "logits", ERROR_NO_ROW, "logits.shape must be"},
    {PACKED("gD8=", "bf16", "[[1]]"), "out_of_range", "logits", ERROR_NO_ROW, "logits.shape must be"},
    {PACKED("gD8=", "bf16", "[1,1,1,1]"), "out_of_range", "logits", ERROR_NO_ROW, "1 to 3"},
    {PACKED("gD8=", "bf16", "[18446744073709551617]"), "out_of_range", "logits", ERROR_NO_ROW,
     "logits.shape"},
    {PACKED("gD8=", "bf16", "[4294967296,4294967296]"), "out_of_range", "logits", ERROR_NO_ROW,
     "logits.shape"},
    {PACKED("gD8=", "bf16", "[2]"), "wrong_length", "logits", ERROR_NO_ROW,
     "logits.b64 has 4 characters; dtype and shape say 4 bytes, which are 4 * 2 characters"},
    {PACKED("gD8", "bf16", "[1]"), "wrong_length", "logits", ERROR_NO_ROW, "has 3 characters"},
    {PACKED("", "bf16", "[1]"), "wrong_length", "logits", ERROR_NO_ROW, "has 0 characters"},
    {PACKED("gD8=gD8=", "bf16", "[1]"), "wrong_length", "logits", ERROR_NO_ROW, "has 8 characters"},
    {PACKED("gD8A", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64 with padding"},
    {PACKED("gD==", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("gD9=", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("gD8 ", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("gD=8", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("gD-_", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("g\n8=", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("gD\xc3\xa9", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("gD8\\n", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("gD8\\u003e", "bf16", "[1]"), "malformed_base64", "logits", ERROR_NO_ROW, "not base64"},
    {PACKED("AADAfwAA", "f16", "[3,1,1]"), "wrong_length", "logits", ERROR_NO_ROW, "needs mix"},
    {PACKED("AADAfwAA", "f16", "[3]") "x", "malformed_json", NULL, ERROR_NO_ROW, "more text"},
};

START_TEST(refuses)
{
    struct bodies_request r;
    const char *body = refused[_i].body;
    bodies_decode(&r, body, strlen(body), '7');
    ck_assert_msg(r.status == STATUS_INVALID, "%s is accepted", body);
    ck_assert_msg(strstr(r.err.message, refused[_i].message) != NULL, "%s: %s", body, r.err.message);
    ck_assert_str_eq(r.err.code, refused[_i].code);
    ck_assert_pstr_eq(r.err.param, refused[_i].param);
    ck_assert_msg(r.err.row == refused[_i].row, "%s: row %zu: %s", body, r.err.row, r.err.message);
    bodies_fini(&r);
}
END_TEST

/* ---- sizes ---- */

/* `{"logits":[1],<key>:<open><item>,<item>,...<close>}` with a value of about this many bytes. */
static char *long_body(const char *key, const char *open, const char *item, const char *close, size_t bytes)
{
    char *body = malloc(bytes + 256), *p = body;
    p += sprintf(p, "{\"logits\":[1],\"%s\":%s", key, open);
    for (const char *first = p; p < first + bytes; p += strlen(p))
        strcpy(p, item);
    sprintf(p - (p[-1] == ','), "%s}", close);
    return body;
}

static const struct {
    const char *key, *open, *item, *close;
} longs[] = {
    {"id", "\"", "a", "\""},           {"temperature", "[", "1,", "]"},     {"seed", "[", "\"1\",", "]"},
    {"candidate_ids", "[", "1,", "]"}, {"bias", "{\"b64\":\"", "A", "\"}"},
};

START_TEST(a_large_parameter_is_refused)
{
    struct bodies_request r;
    char *body =
        long_body(longs[_i].key, longs[_i].open, longs[_i].item, longs[_i].close, PARAMS_MAX_TEXT_BYTES + 8);
    bodies_decode(&r, body, strlen(body), '7');
    ck_assert_int_eq(r.status, STATUS_TOO_LARGE);
    ck_assert_str_eq(r.err.code, "too_large");
    ck_assert_str_eq(r.err.param, longs[_i].key);
    bodies_fini(&r);
    free(body);
}
END_TEST

/* If each were sought from the start of its list, this would outlast the test's time limit. */
START_TEST(a_long_list_is_read_once)
{
    struct bodies_request r;
    char *body = long_body("seed", "[", "9007199254740992,", "]", PARAMS_MAX_TEXT_BYTES - 64);
    bodies_decode(&r, body, strlen(body), '7');
    ck_assert_str_eq(r.err.code, "wrong_length");
    bodies_fini(&r);
    free(body);
}
END_TEST

START_TEST(a_long_id_is_refused)
{
    struct bodies_request r;
    for (size_t bytes = 256; bytes <= 257; bytes++) {
        char *body = long_body("id", "\"", "a", "\"", bytes);
        bodies_decode(&r, body, strlen(body), '7');
        ck_assert_int_eq(r.status, bytes == 256 ? STATUS_OK : STATUS_INVALID);
        if (bytes == 257)
            ck_assert_str_eq(
                r.err.message,
                "id has 257 bytes; it must be a string of at most 256 bytes without a zero byte");
        bodies_fini(&r);
        free(body);
    }
}
END_TEST

/* ---- damage ---- */

static const char whole[] =
    "{\"logits\":[[1.5,null,-2e1],[3,4,5]],\"temperature\":[0.5,1],\"top_k\":3,\"top_p\":0.25,\"seed\":"
    "[7,\"18446744073709551615\"],\"offset\":12,\"n\":2,\"top_candidates\":3,\"logprobs\":true,"
    "\"logprobs_mode\":\"raw\",\"id\":\"\\ud83d\\ude00\xc3\xa9\",\"bias\":[[1,2,3],[4,5,6]],"
    "\"candidate_ids\":[[7,8,9],[2147483647,1,0]]}";

static const char whole_packed[] =
    "{\"logits\":{\"shape\":[2,3],\"b64\":\"gD8\\u0041QEBAgD+AP0BA\",\"dtype\":\"bf16\"},\"top_k\":[1,2]}";

static const struct {
    const char *text;
    size_t length;
} wholes[] = {{whole, sizeof whole - 1}, {whole_packed, sizeof whole_packed - 1}};

START_TEST(every_beginning_is_refused)
{
    for (size_t length = 0; length < wholes[_i].length; length++) {
        struct bodies_request r;
        for (const char *padding = "7]}\"8e,"; *padding != '\0'; padding++) {
            bodies_decode(&r, wholes[_i].text, length, *padding);
            ck_assert_int_eq(r.status, STATUS_INVALID);
            ck_assert_str_eq(r.err.code, "malformed_json");
            bodies_fini(&r);
        }
    }
}
END_TEST

START_TEST(damage_is_survived)
{
    uint64_t state = 1;
    for (int round = 0; round < 20000; round++) {
        char body[sizeof whole];
        size_t length = wholes[_i].length;
        memcpy(body, wholes[_i].text, length + 1);
        for (uint64_t i = next_word(&state) % 4 + 1; i > 0; i--) {
            static const char likely[] = "\"\\[]{},:.-+eE0159 nutf";
            uint64_t word = next_word(&state);
            body[word % length] = word >> 63 ? (char)(word >> 32) : likely[(word >> 32) % 22];
        }
        struct bodies_request r;
        bodies_decode(&r, body, length, '7');
        ck_assert_msg(r.status == STATUS_OK || r.status == STATUS_INVALID, "%s: %s", body, r.err.message);
        bodies_fini(&r);
    }
}
END_TEST

/* ---- memory ---- */

static void *no_loan(struct lender *lender, size_t bytes, struct error *err)
{
    (void)lender;
    error_set(err, STATUS_OVERLOADED, "overloaded", "%zu bytes", bytes);
    return NULL;
}

static const struct {
    const char *body, *message; /* the bytes asked for */
} loans[] = {
    {"{\"logits\":[1,2,3],\"n\":1}", "16 bytes"},
    {"{\"logits\":{\"b64\":\"gD8AQA==\",\"dtype\":\"bf16\",\"shape\":[2]}}", "6 bytes"},
};

START_TEST(a_refused_loan_is_told)
{
    struct bodies_request r = {.lender.lend = no_loan};
    size_t length = strlen(loans[_i].body);
    ck_assert_int_eq(arena_init(&r.arena, json_arena_bytes(length), &r.err), STATUS_OK);
    ck_assert_int_eq(json_decode(bodies_place(loans[_i].body, length, '7'), length, &r.arena, &r.lender, 1,
                                 &r.request, &r.err),
                     STATUS_OVERLOADED);
    ck_assert_str_eq(r.err.message, loans[_i].message);
    bodies_fini(&r);
}
END_TEST

static size_t allocations_left;

static void *sparing_malloc(size_t size)
{
    return allocations_left > 0 && allocations_left-- > 0 ? malloc(size) : NULL;
}

START_TEST(no_memory_is_told)
{
    static const char body[] = "{\"logits\":[[1],[2]],\"top\\u005fk\":[1,2],\"seed\":[\"7\",8],\"id\":\"a\"}";
    cJSON_InitHooks(&(cJSON_Hooks){sparing_malloc, free});
    enum status status = STATUS_NO_MEMORY;
    for (size_t most = 0; status == STATUS_NO_MEMORY; most++) {
        struct bodies_request r;
        ck_assert_uint_lt(most, 100);
        allocations_left = most;
        bodies_decode(&r, body, sizeof body - 1, '7');
        status = r.status;
        bodies_fini(&r);
    }
    ck_assert_int_eq(status, STATUS_OK);
    cJSON_InitHooks(NULL);
}
END_TEST

START_TEST(a_small_arena_is_told)
{
    struct error err;
    struct arena arena;
    static const char body[] = "{\"logits\":[1],\"id\":\"a\"}";
    for (size_t bytes = 0; bytes < 3 * ARENA_ALIGNMENT; bytes += ARENA_ALIGNMENT) {
        struct bodies_request r = {.lender.lend = bodies_lend};
        ck_assert_int_eq(arena_init(&arena, bytes + 1, &err), STATUS_OK);
        arena.capacity = bytes;
        ck_assert_int_eq(json_decode(bodies_place(body, sizeof body - 1, '7'), sizeof body - 1, &arena,
                                     &r.lender, 1, &r.request, &err),
                         STATUS_TOO_LARGE);
        arena_fini(&arena);
        bodies_fini(&r);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tcase = tcase_create("bodies");
    tcase_add_loop_test(tcase, accepts, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof refused[0]);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("sizes");
    tcase_add_loop_test(tcase, a_large_parameter_is_refused, 0, sizeof longs / sizeof longs[0]);
    tcase_add_test(tcase, a_long_list_is_read_once);
    tcase_add_test(tcase, a_long_id_is_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("damage");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, every_beginning_is_refused, 0, 2);
    tcase_add_loop_test(tcase, damage_is_survived, 0, 2);
    tcase_add_test(tcase, no_memory_is_told);
    tcase_add_test(tcase, a_small_arena_is_told);
    tcase_add_loop_test(tcase, a_refused_loan_is_told, 0, sizeof loans / sizeof loans[0]);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
