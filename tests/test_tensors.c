#include "proto/tensors/tensors.h"

#include "tests/bodies.h"
#include "tests/support.h"

#define TEXT_BYTES 512

/* A tensor whose values are those of an array. */
#define VALUES(...)                                                                                          \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define TENSOR(n, t, r, d, ...)                                                                              \
    {                                                                                                        \
        .name = (n), .name_length = sizeof(n) - 1, .type = (t), .rank = (r), .dims = d, .data = __VA_ARGS__  \
    }
#define OF(type, ...)  ((const type[]){__VA_ARGS__})
#define LOGITS(r, ...) TENSOR("logits", TENSOR_F32, r, VALUES(__VA_ARGS__), OF(float, 1, 2, 3, 4, 5, 6, 7, 8))
#define TWO_ROWS       LOGITS(2, 2, 2)

#define MOST_TENSORS 4

/* Take up tensors, each at `shift` bytes from an aligned place; r is to be given to bodies_fini(). */
static void decode(struct bodies_request *r, const struct tensor *list, size_t count, size_t shift,
                   char *copies[MOST_TENSORS])
{
    struct tensors t;
    *r = (struct bodies_request){.lender.lend = bodies_lend, .status = STATUS_OK};
    ck_assert_int_eq(arena_init(&r->arena, tensors_arena_bytes(list, count), &r->err), STATUS_OK);
    tensors_begin(&t, &r->arena, &r->lender);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        struct tensor tensor = list[i];
        ck_assert(tensors_bytes(&tensor, &bytes));
        char *block = malloc(bytes + shift + 1);
        memcpy(block + shift, tensor.data, bytes);
        copies[i] = bodies_copy(block, bytes + shift);
        free(block);
        tensor.data = copies[i] + shift;
        if (r->status == STATUS_OK)
            r->status = tensors_set(&t, &tensor, &r->err);
    }
    if (r->status == STATUS_OK)
        r->status = tensors_finish(&t, BODIES_FRESH_SEED, &r->request, &r->err);
}

static size_t count_of(const struct tensor list[MOST_TENSORS])
{
    size_t count = 0;
    while (count < MOST_TENSORS && list[count].name != NULL)
        count++;
    return count;
}

/* ---- what is accepted ---- */

static const struct {
    struct tensor tensors[MOST_TENSORS];
    const char *request;
} accepted[] = {
    {{LOGITS(1, 3)}, "1x1x3: 1,2,3"},
    {{LOGITS(2, 2, 3)}, "1x2x3: 1,2,3,4,5,6"},
    {{LOGITS(3, 2, 1, 2), TENSOR("mix", TENSOR_F64, 1, VALUES(2), OF(double, 1.5, -0.5))},
     "2x1x2: 1,2,3,4 mix=1.5,-0.5"},
    {{LOGITS(3, 1, 1, 2), TENSOR("mix", TENSOR_F32, 1, VALUES(1), OF(float, 2))}, "1x1x2: 1,2 mix=2"},
    {{TENSOR("logits", TENSOR_F16, 1, VALUES(2), OF(uint16_t, 0x3c00, 0xc000))}, "1x1x2 f16: 1,-2"},
    {{TENSOR("logits", TENSOR_BF16, 2, VALUES(1, 2), OF(uint16_t, 0x3f80, 0xff80))}, "1x1x2 bf16: 1,-inf"},
    {{TWO_ROWS, TENSOR("bias", TENSOR_F32, 1, VALUES(2), OF(float, 5, 6))}, "1x2x2: 1,2,3,4 bias=5,6"},
    {{TENSOR("bias", TENSOR_F32, 2, VALUES(2, 2), OF(float, 5, 6, 7, 8)), TWO_ROWS},
     "1x2x2: 1,2,3,4 biases=5,6,7,8"},
    {{TENSOR("bias", TENSOR_F16, 1, VALUES(2), OF(uint16_t, 0x3c00, 0xfc00)), TWO_ROWS},
     "1x2x2: 1,2,3,4 bias=1,-inf"},
    {{TENSOR("bias", TENSOR_BF16, 2, VALUES(2, 2), OF(uint16_t, 0x3f80, 0xbf80, 0, 0x4000)), TWO_ROWS},
     "1x2x2: 1,2,3,4 biases=1,-1,0,2"},
    {{TWO_ROWS, TENSOR("candidate_ids", TENSOR_I32, 2, VALUES(2, 2), OF(int32_t, 9, 8, 7, INT32_MAX))},
     "1x2x2: 1,2,3,4 ids=9,8,7,2147483647"},
    {{TWO_ROWS, TENSOR("candidate_ids", TENSOR_I64, 2, VALUES(2, 2), OF(int64_t, 9, 8, 7, INT32_MAX))},
     "1x2x2: 1,2,3,4 ids=9,8,7,2147483647"},
    {{LOGITS(1, 2), TENSOR("candidate_ids", TENSOR_I64, 1, VALUES(2), OF(int64_t, 9, 0))},
     "1x1x2: 1,2 ids=9,0"},
    /* every type of number */
    {{TWO_ROWS, TENSOR("temperature", TENSOR_F64, 1, VALUES(2), OF(double, 0.1, -5))},
     "1x2x2: 1,2,3,4 temperature=[0.10000000000000001,-5]"},
    {{TWO_ROWS, TENSOR("temperature", TENSOR_F32, 2, VALUES(2, 1), OF(float, 0.5, 1))},
     "1x2x2: 1,2,3,4 temperature=[0.5,1]"},
    {{TWO_ROWS, TENSOR("temperature", TENSOR_F16, 1, VALUES(2), OF(uint16_t, 0x3800, 0x3c00))},
     "1x2x2: 1,2,3,4 temperature=[0.5,1]"},
    {{TWO_ROWS, TENSOR("temperature", TENSOR_BF16, 1, VALUES(2), OF(uint16_t, 0x3f00, 0x3f80))},
     "1x2x2: 1,2,3,4 temperature=[0.5,1]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I8, 1, VALUES(2), OF(int8_t, -1, 127))},
     "1x2x2: 1,2,3,4 top_k=[-1,127]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_U8, 1, VALUES(2), OF(uint8_t, 1, 255))},
     "1x2x2: 1,2,3,4 top_k=[1,255]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I16, 1, VALUES(2), OF(int16_t, -2, 300))},
     "1x2x2: 1,2,3,4 top_k=[-2,300]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_U16, 1, VALUES(2), OF(uint16_t, 2, 65535))},
     "1x2x2: 1,2,3,4 top_k=[2,65535]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I32, 1, VALUES(2), OF(int32_t, -3, 70000))},
     "1x2x2: 1,2,3,4 top_k=[-3,70000]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_U32, 1, VALUES(2), OF(uint32_t, 3, UINT32_MAX))},
     "1x2x2: 1,2,3,4 top_k=[3,4294967295]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I64, 1, VALUES(2), OF(int64_t, -4, 1))},
     "1x2x2: 1,2,3,4 top_k=[-4,1]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_U64, 1, VALUES(2), OF(uint64_t, 4, 5))}, "1x2x2: 1,2,3,4 top_k=[4,5]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_F32, 1, VALUES(2), OF(float, 4, 5))}, "1x2x2: 1,2,3,4 top_k=[4,5]"},
    /* one value: for all rows */
    {{TWO_ROWS, TENSOR("top_p", TENSOR_F32, 0, VALUES(0), OF(float, 0.5))}, "1x2x2: 1,2,3,4 top_p=0.5"},
    {{TWO_ROWS, TENSOR("top_p", TENSOR_F32, 1, VALUES(1), OF(float, 0.5))}, "1x2x2: 1,2,3,4 top_p=0.5"},
    {{TWO_ROWS, TENSOR("top_p", TENSOR_F32, 2, VALUES(1, 1), OF(float, 0.5))}, "1x2x2: 1,2,3,4 top_p=0.5"},
    {{TWO_ROWS, TENSOR("n", TENSOR_I64, 1, VALUES(1), OF(int64_t, 1024)),
      TENSOR("top_candidates", TENSOR_F32, 0, VALUES(0), OF(float, 3)),
      TENSOR("logprobs", TENSOR_BOOL, 1, VALUES(1), OF(uint8_t, 1))},
     "1x2x2: 1,2,3,4 n=1024 top_candidates=3 logprobs"},
    {{TWO_ROWS, TENSOR("logprobs", TENSOR_I64, 0, VALUES(0), OF(int64_t, 0))}, "1x2x2: 1,2,3,4"},
    /* words, to the last bit */
    {{TWO_ROWS, TENSOR("seed", TENSOR_U64, 1, VALUES(2), OF(uint64_t, UINT64_MAX, 9007199254740993)),
      TENSOR("offset", TENSOR_I64, 2, VALUES(2, 1), OF(int64_t, INT64_MAX, 0))},
     "1x2x2: 1,2,3,4 seed=[18446744073709551615,9007199254740993] offset=[9223372036854775807,0]"},
    {{TWO_ROWS, TENSOR("seed", TENSOR_U8, 1, VALUES(1), OF(uint8_t, 255))}, "1x2x2: 1,2,3,4 seed=255"},
};

/* Wherever it lies: a copy is borrowed only for an array that is not aligned, of 64-bit ids, or a bias
 * of halves. */
START_TEST(accepts)
{
    size_t count = count_of(accepted[_i].tensors);
    for (size_t shift = 0; shift < 8; shift++) {
        struct bodies_request r;
        char text[TEXT_BYTES], *copies[MOST_TENSORS];
        decode(&r, accepted[_i].tensors, count, shift, copies);
        ck_assert_msg(r.status == STATUS_OK, "%s: %s", accepted[_i].request, r.err.message);
        ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text), accepted[_i].request);
        const struct tensor *t = accepted[_i].tensors;
        bool narrowed = count > 1 && t[1].type == TENSOR_I64 && r.request.candidate_ids != NULL;
        bool widened = strcmp(t[0].name, "bias") == 0 && t[0].type != TENSOR_F32;
        if (shift == 0)
            ck_assert_uint_eq(r.num_loans, narrowed + widened);
        if (shift == 1)
            ck_assert_uint_eq(r.num_loans, 1 + (r.request.bias != NULL) + (r.request.candidate_ids != NULL));
        bodies_fini(&r);
        for (size_t i = 0; i < count; i++)
            free(copies[i]);
    }
}
END_TEST

/* ---- what is refused ---- */

static const struct {
    struct tensor tensors[MOST_TENSORS];
    const char *code, *param;
    size_t row;
    const char *message; /* a part of it */
} refused[] = {
    {{TENSOR("n", TENSOR_I32, 0, VALUES(0), OF(int32_t, 1))},
     "missing_parameter",
     "logits",
     ERROR_NO_ROW,
     "logits"},
    {{TWO_ROWS, TENSOR("tempratur", TENSOR_I32, 0, VALUES(0), OF(int32_t, 1))},
     "unknown_parameter",
     "tempratur",
     ERROR_NO_ROW,
     "did you mean temperature?"},
    {{TWO_ROWS, TENSOR("vocab_size", TENSOR_I32, 0, VALUES(0), OF(int32_t, 2))},
     "unknown_parameter",
     "vocab_size",
     ERROR_NO_ROW,
     "raw requests only"},
    {{TWO_ROWS, TWO_ROWS}, "duplicate_parameter", "logits", ERROR_NO_ROW, "given twice"},
    /* types */
    {{TENSOR("logits", TENSOR_I64, 1, VALUES(1), OF(int64_t, 1))},
     "wrong_type",
     "logits",
     ERROR_NO_ROW,
     "logits is I64 [1]; it must be F32, F16, BF16 or F64 [V], [B, V], or [M, B, V] with mix"},
    {{TWO_ROWS, TENSOR("bias", TENSOR_I32, 1, VALUES(2), OF(int32_t, 0, 0))},
     "wrong_type",
     "bias",
     ERROR_NO_ROW,
     "bias is I32 [2]; it must be F32, F16, BF16 or F64 [V] or [B, V]"},
    {{TWO_ROWS, TENSOR("bias", TENSOR_F16, 2, VALUES(1, 0), OF(uint16_t, 0))},
     "wrong_length",
     "bias",
     ERROR_NO_ROW,
     "bias is F16 [1, 0]; it must be"},
    {{TWO_ROWS, TENSOR("candidate_ids", TENSOR_U32, 2, VALUES(2, 2), OF(uint32_t, 1, 2, 3, 4))},
     "wrong_type",
     "candidate_ids",
     ERROR_NO_ROW,
     "candidate_ids is U32 [2, 2]; it must be I32 or I64"},
    {{TWO_ROWS, TENSOR("seed", TENSOR_F64, 1, VALUES(1), OF(double, 1))},
     "wrong_type",
     "seed",
     ERROR_NO_ROW,
     "seed is F64 [1]; it must be of an integer type"},
    {{TWO_ROWS, TENSOR("seed", TENSOR_BOOL, 1, VALUES(1), OF(uint8_t, 1))},
     "wrong_type",
     "seed",
     ERROR_NO_ROW,
     "BOOL"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_BOOL, 1, VALUES(1), OF(uint8_t, 1))},
     "wrong_type",
     "top_k",
     ERROR_NO_ROW,
     "of a number type"},
    {{TWO_ROWS, TENSOR("logprobs", TENSOR_F32, 1, VALUES(1), OF(float, 1))},
     "wrong_type",
     "logprobs",
     ERROR_NO_ROW,
     "it must be BOOL"},
    {{TWO_ROWS, TENSOR("id", TENSOR_U8, 1, VALUES(1), OF(uint8_t, 1))},
     "wrong_type",
     "id",
     ERROR_NO_ROW,
     "id is a tensor"},
    {{TWO_ROWS, TENSOR("logprobs_mode", TENSOR_U8, 1, VALUES(1), OF(uint8_t, 1))},
     "wrong_type",
     "logprobs_mode",
     ERROR_NO_ROW,
     "is a tensor"},
    /* shapes */
    {{LOGITS(0, 0)}, "wrong_length", "logits", ERROR_NO_ROW, "logits is F32 []; it must be"},
    {{LOGITS(4, 1, 1, 1, 1)}, "wrong_length", "logits", ERROR_NO_ROW, "F32 [1, 1, 1, 1]"},
    {{LOGITS(2, 2, 0)}, "wrong_length", "logits", ERROR_NO_ROW, "F32 [2, 0]"},
    {{LOGITS(3, 1, 1, 2)}, "wrong_length", "logits", ERROR_NO_ROW, "needs mix"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I8, 1, VALUES(3), OF(int8_t, 1, 2, 3))},
     "wrong_length",
     "top_k",
     ERROR_NO_ROW,
     "top_k has 3 values"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I8, 2, VALUES(1, 2), OF(int8_t, 1, 2))},
     "wrong_length",
     "top_k",
     ERROR_NO_ROW,
     "top_k is I8 [1, 2]; it must be one value, [B] or [B, 1]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I8, 3, VALUES(2, 1, 1), OF(int8_t, 1, 2))},
     "wrong_length",
     "top_k",
     ERROR_NO_ROW,
     "I8 [2, 1, 1]"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_I8, 1, VALUES(0), OF(int8_t, 0))},
     "wrong_length",
     "top_k",
     ERROR_NO_ROW,
     "[0]"},
    {{TWO_ROWS, TENSOR("n", TENSOR_I8, 1, VALUES(2), OF(int8_t, 1, 2))},
     "wrong_length",
     "n",
     ERROR_NO_ROW,
     "it must be one value"},
    {{TWO_ROWS, TENSOR("logprobs", TENSOR_BOOL, 1, VALUES(2), OF(uint8_t, 1, 1))},
     "wrong_length",
     "logprobs",
     ERROR_NO_ROW,
     "it must be one value"},
    {{TWO_ROWS, TENSOR("mix", TENSOR_F32, 0, VALUES(0), OF(float, 1))},
     "wrong_length",
     "mix",
     ERROR_NO_ROW,
     "a number for each stack"},
    {{TWO_ROWS, TENSOR("candidate_ids", TENSOR_I32, 1, VALUES(4), OF(int32_t, 1, 2, 3, 4))},
     "wrong_length",
     "candidate_ids",
     ERROR_NO_ROW,
     "1 row of 4 ids"},
    {{TWO_ROWS, TENSOR("candidate_ids", TENSOR_I32, 3, VALUES(1, 2, 2), OF(int32_t, 1, 2, 3, 4))},
     "wrong_length",
     "candidate_ids",
     ERROR_NO_ROW,
     "each must have its id"},
    {{TWO_ROWS, TENSOR("bias", TENSOR_F32, 2, VALUES(1, 1), OF(float, 1))},
     "wrong_length",
     "bias",
     ERROR_NO_ROW,
     "bias has 1 row"},
    /* values */
    {{TWO_ROWS, TENSOR("top_p", TENSOR_F32, 1, VALUES(2), OF(float, 0.5, 1.5))},
     "out_of_range",
     "top_p",
     1,
     "top_p[1] is 1.5; it must be from 0 to 1"},
    {{TWO_ROWS, TENSOR("temperature", TENSOR_F32, 1, VALUES(1), OF(float, NAN))},
     "out_of_range",
     "temperature",
     ERROR_NO_ROW,
     "temperature is not finite"},
    {{TWO_ROWS, TENSOR("top_k", TENSOR_F64, 1, VALUES(1), OF(double, 1.5))},
     "out_of_range",
     "top_k",
     ERROR_NO_ROW,
     "top_k is 1.5"},
    {{TWO_ROWS, TENSOR("n", TENSOR_I8, 0, VALUES(0), OF(int8_t, -1))},
     "out_of_range",
     "n",
     ERROR_NO_ROW,
     "n is -1"},
    {{TWO_ROWS, TENSOR("seed", TENSOR_I64, 1, VALUES(2), OF(int64_t, 1, INT64_MIN))},
     "out_of_range",
     "seed",
     1,
     "seed[1] is -9223372036854775808;"},
    {{TWO_ROWS, TENSOR("seed", TENSOR_I8, 0, VALUES(0), OF(int8_t, -1))},
     "out_of_range",
     "seed",
     ERROR_NO_ROW,
     "seed is -1;"},
    {{TWO_ROWS, TENSOR("logprobs", TENSOR_BOOL, 1, VALUES(1), OF(uint8_t, 2))},
     "out_of_range",
     "logprobs",
     ERROR_NO_ROW,
     "neither 0 nor 1"},
    {{TWO_ROWS,
      TENSOR("candidate_ids", TENSOR_I64, 2, VALUES(2, 2), OF(int64_t, 1, 2, 3, INT64_C(2147483648)))},
     "out_of_range",
     "candidate_ids",
     1,
     "candidate_ids[1][1] is 2147483648; it must be"},
    {{LOGITS(1, 1), TENSOR("candidate_ids", TENSOR_I64, 1, VALUES(1), OF(int64_t, -1))},
     "out_of_range",
     "candidate_ids",
     ERROR_NO_ROW,
     "candidate_ids[0] is -1;"},
};

START_TEST(refuses)
{
    struct bodies_request r;
    char *copies[MOST_TENSORS];
    size_t count = count_of(refused[_i].tensors);
    decode(&r, refused[_i].tensors, count, 0, copies);
    ck_assert_msg(r.status == STATUS_INVALID, "%s is accepted", refused[_i].message);
    ck_assert_msg(strstr(r.err.message, refused[_i].message) != NULL, "%s: %s", refused[_i].message,
                  r.err.message);
    ck_assert_str_eq(r.err.code, refused[_i].code);
    ck_assert_pstr_eq(r.err.param, refused[_i].param);
    ck_assert_uint_eq(r.err.row, refused[_i].row);
    bodies_fini(&r);
    for (size_t i = 0; i < count; i++)
        free(copies[i]);
}
END_TEST

/* Far more values than rows can be: no memory is taken for them. */
START_TEST(a_long_list_is_refused)
{
    enum { VALUES_SENT = PARAMS_MAX_TEXT_BYTES / 2 + 1 };
    struct bodies_request r;
    char *copies[MOST_TENSORS], *zeros = calloc(VALUES_SENT, 1);
    struct tensor list[] = {TENSOR("top_k", TENSOR_U8, 1, VALUES(VALUES_SENT), zeros)};
    ck_assert_uint_lt(tensors_arena_bytes(list, 1), 16384);
    decode(&r, list, 1, 0, copies);
    ck_assert_int_eq(r.status, STATUS_TOO_LARGE);
    ck_assert_str_eq(r.err.message, "top_k has 524289 values; at most 524288 are read");
    bodies_fini(&r);
    free(copies[0]);
    free(zeros);
}
END_TEST

START_TEST(texts)
{
    struct bodies_request r = {.lender.lend = bodies_lend};
    struct tensors t;
    char text[TEXT_BYTES];
    struct tensor logits = TWO_ROWS;
    ck_assert_int_eq(arena_init(&r.arena, 1 << 16, &r.err), STATUS_OK);
    tensors_begin(&t, &r.arena, &r.lender);
    ck_assert_int_eq(tensors_set_text(&t, "temperature", "0.5,1", &r.err), STATUS_OK);
    ck_assert_int_eq(tensors_set_text(&t, "seed", "18446744073709551615", &r.err), STATUS_OK);
    ck_assert_int_eq(tensors_set_text(&t, "logprobs_mode", "raw", &r.err), STATUS_OK);
    ck_assert_int_eq(tensors_set_text(&t, "id", "a b", &r.err), STATUS_OK);
    ck_assert_int_eq(tensors_set_text(&t, "bias", "1,2", &r.err), STATUS_INVALID);
    ck_assert_str_eq(r.err.message, "bias is a text; it must be an array of numbers");
    ck_assert_int_eq(tensors_set_text(&t, "seed", "1", &r.err), STATUS_INVALID);
    ck_assert_int_eq(tensors_set(&t, &logits, &r.err), STATUS_OK);
    ck_assert_int_eq(tensors_finish(&t, 1, &r.request, &r.err), STATUS_OK);
    ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text),
                     "1x2x2: 1,2,3,4 temperature=[0.5,1] seed=18446744073709551615 raw id=a b");
    bodies_fini(&r);
}
END_TEST

START_TEST(sizes)
{
    size_t bytes;
    struct tensor t = {.type = TENSOR_F64, .rank = 2, .dims = {SIZE_MAX / 8, 2}};
    ck_assert(!tensors_bytes(&t, &bytes));
    t.dims[1] = 1;
    ck_assert(tensors_bytes(&t, &bytes));
    ck_assert_uint_eq(bytes, SIZE_MAX / 8 * 8);
    t.dims[1] = 0;
    ck_assert(tensors_bytes(&t, &bytes));
    ck_assert_uint_eq(bytes, 0);
    t.dims[0] = SIZE_MAX;
    ck_assert(tensors_bytes(&t, &bytes));
    ck_assert_uint_eq(bytes, 0);
    for (enum tensor_type type = TENSOR_BOOL; type < TENSOR_TYPES; type++)
        ck_assert_int_eq(tensors_find_type(tensors_type_name(type), strlen(tensors_type_name(type))), type);
    ck_assert_int_eq(tensors_find_type("F", 1), TENSOR_TYPES);
    ck_assert_int_eq(tensors_find_type("F320", 4), TENSOR_TYPES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensors");
    TCase *tcase = tcase_create("requests");
    tcase_add_loop_test(tcase, accepts, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tcase, a_long_list_is_refused);
    tcase_add_test(tcase, texts);
    tcase_add_test(tcase, sizes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
