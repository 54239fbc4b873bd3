#include "proto/tensors/raw.h"

#include "proto/json/json_scan.h"

#include "tests/bodies.h"
#include "tests/support.h"

#define TEXT_BYTES 512
#define MAX_FIELDS 16

static const _Alignas(ARENA_ALIGNMENT) float body[24] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                                         13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};

struct query {
    char text[TEXT_BYTES];
    struct query_field fields[MAX_FIELDS];
    size_t count;
};

/* "a=1&b" as fields; nothing is percent-decoded. */
static void split(struct query *q, const char *text)
{
    q->count = 0;
    snprintf(q->text, sizeof q->text, "%s", text);
    for (char *rest = q->text, *field; (field = strsep(&rest, "&")) != NULL; q->count++) {
        char *value = strchr(field, '=');
        if (value != NULL)
            *value++ = '\0';
        q->fields[q->count] = (struct query_field){field, value};
    }
}

/* Decode the first `bytes` of body; r is to be given to bodies_fini(). */
static void decode(struct bodies_request *r, const char *query, size_t bytes)
{
    struct query q;
    *r = (struct bodies_request){0};
    split(&q, query);
    ck_assert_int_eq(arena_init(&r->arena, query_arena_bytes(q.fields, q.count), &r->err), STATUS_OK);
    r->status = raw_decode(q.fields, q.count, (const char *)body, bytes, &r->arena, BODIES_FRESH_SEED,
                           &r->request, &r->err);
}

static const struct {
    const char *query;
    size_t floats;
    const char *request;
} accepted[] = {
    {"vocab_size=3", 3, "1x1x3: 1,2,3"},
    {"vocab_size=3", 6, "1x2x3: 1,2,3,4,5,6"},
    {"vocab_size=3.0", 3, "1x1x3: 1,2,3"},
    {"vocab_size=3&dtype=f32", 3, "1x1x3: 1,2,3"},
    {"temperature=0.8&vocab_size=2&top_k=40&top_p=5e-1", 2,
     "1x1x2: 1,2 temperature=0.80000000000000004 top_k=40 top_p=0.5"},
    {"vocab_size=1&temperature=0.5,-1&top_k=1,2&top_p=0,1", 2,
     "1x2x1: 1,2 temperature=[0.5,-1] top_k=[1,2] top_p=[0,1]"},
    {"vocab_size=1&seed=18446744073709551615&offset=9007199254740993", 1,
     "1x1x1: 1 seed=18446744073709551615 offset=9007199254740993"},
    {"vocab_size=1&seed=7,0&offset=1,18446744073709551615", 2,
     "1x2x1: 1,2 seed=[7,0] offset=[1,18446744073709551615]"},
    {"vocab_size=1&n=3&top_candidates=2&logprobs=true&logprobs_mode=raw&id=a\xc3\xa9", 1,
     "1x1x1: 1 n=3 top_candidates=2 logprobs raw id=a\xc3\xa9"},
    {"vocab_size=1&logprobs=false&logprobs_mode=processed&id=", 1, "1x1x1: 1 id="},
    {"vocab_size=2&mix=1.5,-0.5", 4, "2x1x2: 1,2,3,4 mix=1.5,-0.5"},
    {"vocab_size=2&mix=1,0&top_k=1,2", 8, "2x2x2: 1,2,3,4,5,6,7,8 mix=1,0 top_k=[1,2]"},
    {"vocab_size=2&mix=2", 2, "1x1x2: 1,2 mix=2"},
    /* as clients write them */
    {"&vocab_size=1&&n=2&", 1, "1x1x1: 1 n=2"},
    {"vocab_size=1&temperature= 0.5,  1 &seed=7, 8 ", 2, "1x2x1: 1,2 temperature=[0.5,1] seed=[7,8]"},
    {"vocab_size=1&seed=7.0&offset=1e3", 1, "1x1x1: 1 seed=7 offset=1000"},
    {"vocab_size=1&logprobs=True", 1, "1x1x1: 1 logprobs"},
    {"vocab_size=1&logprobs=1", 1, "1x1x1: 1 logprobs"},
    {"vocab_size=1&logprobs=False", 1, "1x1x1: 1"},
    {"vocab_size=1&logprobs=0", 1, "1x1x1: 1"},
};

START_TEST(accepts)
{
    struct bodies_request r;
    char text[TEXT_BYTES];
    decode(&r, accepted[_i].query, accepted[_i].floats * sizeof *body);
    ck_assert_msg(r.status == STATUS_OK, "%s: %s", accepted[_i].query, r.err.message);
    ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text), accepted[_i].request);
    ck_assert_ptr_eq(r.request.logits, body);
    bodies_fini(&r);
}
END_TEST

/* The same numbers in half the bytes. */
static const struct {
    const char *query;
    uint16_t body[6];
    const char *request;
} halves[] = {
    {"vocab_size=3&dtype=f16",
     {0x3c00, 0x4000, 0xfc00, 0xbc00, 1, 0},
     "1x2x3 f16: 1,2,-inf,-1,5.96046448e-08,0"},
    {"dtype=bf16&vocab_size=3",
     {0x3f80, 0x4000, 0xff80, 0xbf80, 0, 0x7f7f},
     "1x2x3 bf16: 1,2,-inf,-1,0,3.38953139e+38"},
    {"vocab_size=1&dtype=f16&mix=1,2,3",
     {0x3c00, 0x4000, 0x4200, 0x4400, 0, 0},
     "3x2x1 f16: 1,2,3,4,0,0 mix=1,2,3"},
};

START_TEST(accepts_halves)
{
    struct query q;
    struct bodies_request r = {0};
    char text[TEXT_BYTES];
    split(&q, halves[_i].query);
    ck_assert_int_eq(arena_init(&r.arena, query_arena_bytes(q.fields, q.count), &r.err), STATUS_OK);
    r.status = raw_decode(q.fields, q.count, (const char *)halves[_i].body, sizeof halves[_i].body, &r.arena,
                          BODIES_FRESH_SEED, &r.request, &r.err);
    ck_assert_msg(r.status == STATUS_OK, "%s: %s", halves[_i].query, r.err.message);
    ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text), halves[_i].request);
    bodies_fini(&r);
}
END_TEST

static const struct {
    const char *query;
    size_t bytes;
    const char *code, *param;
    size_t row;
    const char *message; /* a part of it */
} refused[] = {
    {"n=1", 4, "missing_parameter", "vocab_size", ERROR_NO_ROW, "vocab_size is missing"},
    {"vocab_size", 4, "wrong_type", "vocab_size", ERROR_NO_ROW, "vocab_size is empty"},
    {"vocab_size=0", 4, "out_of_range", "vocab_size", ERROR_NO_ROW, "from 1 to 2147483647"},
    {"vocab_size=2147483648", 4, "out_of_range", "vocab_size", ERROR_NO_ROW, "vocab_size is 2147483648"},
    {"vocab_size=1.5", 4, "out_of_range", "vocab_size", ERROR_NO_ROW, "vocab_size is 1.5"},
    {"vocab_size=1,1", 4, "wrong_type", "vocab_size", ERROR_NO_ROW, "vocab_size is a list"},
    {"vocab_size=3", 16, "wrong_length", "logits", ERROR_NO_ROW,
     "the body has 16 bytes; it must be a multiple of 12: 1 stack of 3 logits of 4 bytes"},
    {"vocab_size=3", 11, "wrong_length", "logits", ERROR_NO_ROW, "11 bytes"},
    {"vocab_size=3", 0, "wrong_length", "logits", ERROR_NO_ROW, "the body has 0 bytes"},
    {"vocab_size=2147483647", 96, "wrong_length", "logits", ERROR_NO_ROW, "multiple of 8589934588"},
    {"vocab_size=2&mix=1,1", 24, "wrong_length", "logits", ERROR_NO_ROW, "multiple of 16: 2 stacks"},
    {"vocab_size=3&dtype=f16", 4, "wrong_length", "logits", ERROR_NO_ROW,
     "the body has 4 bytes; it must be a multiple of 6: 1 stack of 3 logits of 2 bytes"},
    {"vocab_size=1&dtype=f8", 8, "out_of_range", "dtype", ERROR_NO_ROW,
     "dtype is \"f8\"; it must be \"f32\" or \"f16\" or \"bf16\" or \"f64\""},
    {"vocab_size=1&dtype", 4, "out_of_range", "dtype", ERROR_NO_ROW, "it must be \"f32\" or \"f16\""},
    /* names */
    {"vocab_size=1&vocab_size=1", 4, "duplicate_parameter", "vocab_size", ERROR_NO_ROW, "given twice"},
    {"vocab_size=1&top_pp=1", 4, "unknown_parameter", "top_pp", ERROR_NO_ROW, "did you mean top_p?"},
    {"vocab_size=1&logits=1", 4, "unknown_parameter", "logits", ERROR_NO_ROW,
     "logits is a parameter of JSON requests and of named tensors only"},
    {"vocab_size=1&bias=1", 4, "unknown_parameter", "bias", ERROR_NO_ROW,
     "JSON requests and of named tensors only"},
    {"vocab_size=1&=", 4, "unknown_parameter", "", ERROR_NO_ROW, "is not a known parameter"},
    {"vocab_size=1&n=1&n=2", 4, "duplicate_parameter", "n", ERROR_NO_ROW, "n is given twice"},
    {"vocab_size=1&seed=1&seed=2", 8, "duplicate_parameter", "seed", ERROR_NO_ROW,
     "commas between them: seed=0,1"},
    /* numbers */
    {"vocab_size=1&temperature=", 4, "wrong_type", "temperature", ERROR_NO_ROW, "temperature is empty"},
    {"vocab_size=1&temperature=nan", 4, "wrong_type", "temperature", ERROR_NO_ROW, "is \"nan\""},
    {"vocab_size=1&temperature=1e999", 4, "out_of_range", "temperature", ERROR_NO_ROW, "is not finite"},
    {"vocab_size=1&temperature= ", 4, "wrong_type", "temperature", ERROR_NO_ROW, "temperature is empty"},
    {"vocab_size=1&temperature=1, ,2", 12, "wrong_type", "temperature", 1, "temperature[1] is empty"},
    {"vocab_size=1&temperature=1 2", 4, "wrong_type", "temperature", ERROR_NO_ROW, "is \"1 2\""},
    {"vocab_size=1&temperature=+1", 4, "wrong_type", "temperature", ERROR_NO_ROW, "is \"+1\""},
    {"vocab_size=1&temperature=01", 4, "wrong_type", "temperature", ERROR_NO_ROW, "is \"01\""},
    {"vocab_size=1&temperature=0x1", 4, "wrong_type", "temperature", ERROR_NO_ROW, "is \"0x1\""},
    {"vocab_size=1&temperature=.5", 4, "wrong_type", "temperature", ERROR_NO_ROW, "is \".5\""},
    {"vocab_size=1&temperature=1,,1", 12, "wrong_type", "temperature", 1, "temperature[1] is empty"},
    {"vocab_size=1&temperature=1,\xc3\xa9", 8, "wrong_type", "temperature", 1,
     "temperature[1] is \"\xc3\xa9\""},
    {"vocab_size=1&temperature=a\xff", 4, "wrong_type", "temperature", ERROR_NO_ROW,
     "temperature is \"a...\""},
    {"vocab_size=1&temperature=1234567890123456789012345678901\xc3\xa9", 4, "wrong_type", NULL, 0, NULL},
    {"vocab_size=1&top_p=0.5,1.7", 8, "out_of_range", "top_p", 1, "top_p[1] is 1.7; it must be from 0 to 1"},
    {"vocab_size=1&top_k=0.5", 4, "out_of_range", "top_k", ERROR_NO_ROW, "top_k is 0.5"},
    {"vocab_size=1&top_k=1,2,3", 8, "wrong_length", "top_k", ERROR_NO_ROW, "each of the 2 rows"},
    {"vocab_size=1&n=1,1", 8, "wrong_type", "n", ERROR_NO_ROW, "n is a list"},
    {"vocab_size=1&mix=1,1e39", 8, "out_of_range", "mix", ERROR_NO_ROW, "mix[1] is 1e+39"},
    /* words */
    {"vocab_size=1&seed=18446744073709551616", 4, "out_of_range", "seed", ERROR_NO_ROW,
     "\"18446744073709551616\""},
    {"vocab_size=1&seed=-1", 4, "out_of_range", "seed", ERROR_NO_ROW,
     "\"-1\"; it must be a whole number from 0 to 2^64 - 1, above 2^53 as a decimal string; leave it out for "
     "a "
     "fresh one"},
    {"vocab_size=1&seed=1.5", 4, "out_of_range", "seed", ERROR_NO_ROW, "\"1.5\""},
    {"vocab_size=1&seed=-7.0", 4, "out_of_range", "seed", ERROR_NO_ROW, "\"-7.0\""},
    {"vocab_size=1&seed=1 2", 4, "out_of_range", "seed", ERROR_NO_ROW, "\"1 2\""},
    {"vocab_size=1&seed=01", 4, "out_of_range", "seed", ERROR_NO_ROW, "\"01\""},
    {"vocab_size=1&seed=1,x", 8, "out_of_range", "seed", 1, "seed[1] is \"x\""},
    {"vocab_size=1&offset", 4, "out_of_range", "offset", ERROR_NO_ROW, "offset is \"\""},
    /* others */
    {"vocab_size=1&logprobs=2", 4, "wrong_type", "logprobs", ERROR_NO_ROW, "it must be true or false"},
    {"vocab_size=1&logprobs=yes", 4, "wrong_type", "logprobs", ERROR_NO_ROW, "is \"yes\""},
    {"vocab_size=1&logprobs_mode=cooked", 4, "out_of_range", "logprobs_mode", ERROR_NO_ROW,
     "\"processed\" or \"raw\""},
    {"vocab_size=1&id=a\xff", 4, "wrong_type", "id", ERROR_NO_ROW, "id is not valid UTF-8"},
};

START_TEST(refuses)
{
    struct bodies_request r;
    const char *query = refused[_i].query;
    decode(&r, query, refused[_i].bytes);
    ck_assert_msg(r.status == STATUS_INVALID, "%s is accepted", query);
    ck_assert_str_eq(r.err.code, refused[_i].code);
    ck_assert_uint_eq(json_utf8_prefix(r.err.message, strlen(r.err.message), SIZE_MAX),
                      strlen(r.err.message));
    if (refused[_i].message != NULL) {
        ck_assert_msg(strstr(r.err.message, refused[_i].message) != NULL, "%s: %s", query, r.err.message);
        ck_assert_pstr_eq(r.err.param, refused[_i].param);
        ck_assert_uint_eq(r.err.row, refused[_i].row);
    }
    bodies_fini(&r);
}
END_TEST

/* What the arena must hold is reckoned right for a query of the shortest numbers in all the lists. */
START_TEST(long_lists_fit)
{
    static const char *const names[] = {"temperature", "top_k", "top_p", "seed", "offset", "mix"};
    enum { LISTS = 6, NUMBERS = 4096 };
    static char lists[LISTS][2 * NUMBERS];
    struct query_field fields[LISTS + 1] = {{"vocab_size", "1"}};
    static _Alignas(ARENA_ALIGNMENT) float logits[NUMBERS];
    for (size_t numbers = 1; numbers <= NUMBERS; numbers *= 2) {
        for (size_t i = 0; i < LISTS; i++) {
            for (size_t j = 0; j < numbers; j++)
                memcpy(lists[i] + 2 * j, "1,", 2);
            lists[i][2 * numbers - 1] = '\0';
            fields[i + 1] = (struct query_field){names[i], lists[i]};
        }
        struct bodies_request r = {0};
        ck_assert_int_eq(arena_init(&r.arena, query_arena_bytes(fields, LISTS + 1), &r.err), STATUS_OK);
        r.status = raw_decode(fields, LISTS + 1, (const char *)logits, sizeof logits, &r.arena, 1, &r.request,
                              &r.err);
        /* `numbers` stacks of NUMBERS / numbers rows; the other lists want as many rows as stacks, but a list
           of one is a value for all */
        bool fits = numbers == 1 || numbers * numbers == NUMBERS;
        ck_assert_int_eq(r.status, fits ? STATUS_OK : STATUS_INVALID);
        if (!fits)
            ck_assert_str_eq(r.err.code, "wrong_length");
        bodies_fini(&r);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("raw");
    TCase *tcase = tcase_create("queries");
    tcase_add_loop_test(tcase, accepts, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(tcase, accepts_halves, 0, sizeof halves / sizeof halves[0]);
    tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tcase, long_lists_fit);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
