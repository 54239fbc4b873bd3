#include "proto/tensors/npy.h"

#include "tests/bodies.h"
#include "tests/support.h"

#define TEXT_BYTES 512

/* ---- what is accepted ---- */

struct body {
    char *bytes;
    size_t length;
};

/* Magic and version, the length of the dictionary, the dictionary, and so many of the numbers 1, 2, 3, ... */
static struct body build(const char *version, const char *dictionary, size_t data)
{
    static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    char text[1024];
    uint32_t length = (uint32_t)strlen(dictionary);
    size_t width = version[0] == 1 ? 2 : 4, n = 8 + width;
    memcpy(text, "\x93NUMPY", 6);
    memcpy(text + 6, version, 2);
    memcpy(text + 8, &length, width);
    memcpy(text + n, dictionary, length);
    memcpy(text + n + length, numbers, data);
    return (struct body){bodies_copy(text, n + length + data), n + length + data};
}

/* r is to be given to bodies_fini(), and then the body freed: the request points into it. */
static void decode(struct bodies_request *r, const struct query_field *fields, size_t count, struct body body)
{
    *r = (struct bodies_request){.lender.lend = bodies_lend};
    ck_assert_int_eq(arena_init(&r->arena, query_arena_bytes(fields, count), &r->err), STATUS_OK);
    r->status = npy_decode(fields, count, body.bytes, body.length, &r->arena, &r->lender, BODIES_FRESH_SEED,
                           &r->request, &r->err);
}

static const struct {
    const char *version, *dictionary;
    size_t data;
    struct query_field field;
    const char *request;
} accepted[] = {
    {"\1\0",
     "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n",
     24,
     {0},
     "1x2x3: 1,2,3,4,5,6"},
    {"\2\0", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 12, {0}, "1x1x3: 1,2,3"},
    {"\1\0", "{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }\n", 12, {0}, "1x1x3: 1,2,3"},
    {"\1\0", "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3), }\n", 12, {0}, "1x1x3: 1,2,3"},
    {"\3\0", "{'shape':(1,3,),\"descr\":\"<f4\",'fortran_order':False}\n", 12, {0}, "1x1x3: 1,2,3"},
    {"\1\0",
     "{ 'shape' : ( 2 , 1 , 2 ) , 'fortran_order' : False , 'descr' : '<f4' } \n",
     16,
     {"mix", "1,2"},
     "2x1x2: 1,2,3,4 mix=1,2"},
    {"\1\0",
     "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 4), }\n",
     8,
     {"top_k", "3"},
     "1x1x4 f16: 0,1.875,0,2 top_k=3"},
    {"\1\0",
     "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n",
     8,
     {"temperature", "0.5,1"},
     "1x2x1: 1,2 temperature=[0.5,1]"},
};

/* At each of the alignments that a header may leave: only what is not aligned is copied. */
START_TEST(accepts)
{
    struct bodies_request r;
    char text[TEXT_BYTES], dictionary[256];
    for (int spaces = 0; spaces < 4; spaces++) {
        snprintf(dictionary, sizeof dictionary, "{%*s%s", spaces, "", accepted[_i].dictionary + 1);
        struct body body = build(accepted[_i].version, dictionary, accepted[_i].data);
        decode(&r, &accepted[_i].field, accepted[_i].field.key != NULL, body);
        ck_assert_msg(r.status == STATUS_OK, "%s: %s", dictionary, r.err.message);
        ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text), accepted[_i].request);
        const char *data = body.bytes + body.length - accepted[_i].data;
        bool aligned = (uintptr_t)data % dtype_bytes(r.request.dtype) == 0;
        ck_assert((r.request.logits == data) == aligned);
        ck_assert_uint_eq(r.num_loans, !aligned);
        bodies_fini(&r);
        free(body.bytes);
    }
}
END_TEST

static const char *const files[] = {"rows_f32.npy", "rows_f16.npy", "rows_v2.npy", "rows_v3.npy"};

START_TEST(accepts_what_numpy_writes)
{
    struct body body;
    struct bodies_request r;
    char text[TEXT_BYTES];
    char *bytes = read_data(files[_i], &body.length);
    body.bytes = bodies_copy(bytes, body.length);
    decode(&r, NULL, 0, body);
    ck_assert_msg(r.status == STATUS_OK, "%s: %s", files[_i], r.err.message);
    ck_assert_uint_eq(r.num_loans, 0);
    ck_assert_str_eq(bodies_describe(&r.request, text, sizeof text),
                     _i == 1 ? "1x2x4 f16: 10,8,6,3,1,-inf,0.5,2" : "1x2x4: 10,8,6,3,1,-inf,0.5,2");
    bodies_fini(&r);
    free(body.bytes);
    free(bytes);
}
END_TEST

/* ---- what is refused ---- */

#define F4       "{'descr': '<f4', 'fortran_order': False, 'shape': "
#define DESCR(d) "{'descr': " d ", 'fortran_order': False, 'shape': (1,)}\n"

static const struct {
    const char *version, *dictionary;
    size_t data;
    const char *code, *message; /* a part of it */
} refused[] = {
    {"\0\0", F4 "(1,)}\n", 4, "malformed_npy", "its version is none of 1.0, 2.0 and 3.0, at byte 6"},
    {"\4\0", F4 "(1,)}\n", 4, "malformed_npy", "its version"},
    {"\1\1", F4 "(1,)}\n", 4, "malformed_npy", "its version"},
    /* descr */
    {"\1\0", DESCR("'>f1'"), 4, "unsupported_dtype", "is of '>f1'; it must be of '<f4', '<f2' or '<f8'"},
    {"\1\0", DESCR("'=f8'"), 4, "unsupported_dtype", "'=f8'"},
    {"\1\0", DESCR("'|V2'"), 4, "unsupported_dtype", "'|V2'"},
    {"\1\0", DESCR("'<f4 '"), 4, "unsupported_dtype", "'<f4 '"},
    {"\1\0", DESCR("''"), 4, "unsupported_dtype", "is of ''"},
    {"\1\0", DESCR("[('a', '<f4')]"), 4, "unsupported_dtype", "is of records"},
    {"\1\0", DESCR("None"), 4, "malformed_npy", "descr is not a short string at byte 20"},
    {"\1\0", DESCR("'<f\\x34'"), 4, "malformed_npy", "descr is not"},
    {"\1\0", DESCR("'\xc3\xa9'"), 4, "malformed_npy", "descr is not"},
    {"\1\0", DESCR("'01234567890123456'"), 4, "malformed_npy", "descr is not"},
    {"\1\0", "{'descr': '<f4", 4, "malformed_npy", "descr is not"},
    /* order */
    {"\1\0", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}\n", 16, "unsupported_order",
     "C order"},
    {"\1\0", "{'fortran_order': True, 'shape': (2, 1, 2), 'descr': '<f4'}\n", 16, "unsupported_order",
     "C order"},
    {"\1\0", "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}\n", 4, "malformed_npy",
     "neither True nor False"},
    /* shape */
    {"\1\0", F4 "()}\n", 4, "wrong_length", "has 0 dimensions"},
    {"\1\0", F4 "(1,1,1,1)}\n", 4, "wrong_length", "has 4 dimensions"},
    {"\1\0", F4 "(1,1,1)}\n", 4, "wrong_length", "needs mix"},
    {"\1\0", F4 "(2,)}\n", 4, "wrong_length", "has 4 bytes of numbers; its dtype and shape say 8"},
    {"\1\0", F4 "(2,)}\n", 9, "wrong_length", "has 9 bytes"},
    {"\1\0", F4 "(0,)}\n", 0, "wrong_length", "its shape is empty"},
    {"\1\0", F4 "(4294967296,4294967296)}\n", 4, "wrong_length", "larger than any memory"},
    {"\1\0", F4 "(4611686018427387905,)}\n", 4, "wrong_length", "larger than any memory"},
    {"\1\0", F4 "(18446744073709551617,)}\n", 4, "malformed_npy", "no tuple of whole numbers"},
    {"\1\0", F4 "(1)}\n", 4, "malformed_npy", "shape is a number"},
    {"\1\0", F4 "[1]}\n", 4, "malformed_npy", "shape is no tuple"},
    {"\1\0", F4 "(-1,)}\n", 4, "malformed_npy", "no tuple of whole numbers"},
    {"\1\0", F4 "(01,)}\n", 4, "malformed_npy", "no tuple of whole numbers"},
    {"\1\0", F4 "(1L,)}\n", 4, "malformed_npy", "no tuple of whole numbers"},
    {"\1\0", F4 "(,)}\n", 4, "malformed_npy", "no tuple of whole numbers"},
    {"\1\0", F4 "(1,,)}\n", 4, "malformed_npy", "no tuple of whole numbers"},
    {"\1\0", F4 "(1 1)}\n", 4, "malformed_npy", "no tuple of whole numbers"},
    {"\1\0", F4 "(1,\n", 4, "malformed_npy", "no tuple of whole numbers"},
    /* the dictionary */
    {"\1\0", "", 0, "malformed_npy", "'{' is missing at byte 10"},
    {"\1\0", "{}\n", 4, "malformed_npy", "'shape' is missing"},
    {"\1\0", "{'descr': '<f4', 'shape': (1,)}\n", 4, "malformed_npy",
     "'fortran_order' or 'shape' is missing"},
    {"\1\0", F4 "(1,), 'order': 1}\n", 4, "malformed_npy", "a key is none of"},
    {"\1\0", F4 "(1,), 'shape': (1,)}\n", 4, "malformed_npy", "a key comes twice"},
    {"\1\0", F4 "(1,)} x\n", 4, "malformed_npy", "no newline ends the header"},
    {"\1\0", F4 "(1,)}", 4, "malformed_npy", "no newline"},
    {"\1\0", F4 "(1,)}\n\n", 4, "malformed_npy", "no newline"},
    {"\1\0", "{'descr' '<f4'}\n", 4, "malformed_npy", "':' is missing"},
    {"\1\0", "{'descr': '<f4' 'shape': (1,)}\n", 4, "malformed_npy", "',' or '}' is missing"},
    {"\1\0", "{descr: '<f4'}\n", 4, "malformed_npy", "a key is none of"},
    {"\1\0", "{,}\n", 4, "malformed_npy", "a key is none of"},
};

START_TEST(refuses)
{
    struct bodies_request r;
    struct body body = build(refused[_i].version, refused[_i].dictionary, refused[_i].data);
    decode(&r, NULL, 0, body);
    ck_assert_msg(r.status == STATUS_INVALID, "%s is accepted", refused[_i].dictionary);
    ck_assert_str_eq(r.err.code, refused[_i].code);
    ck_assert_msg(strstr(r.err.message, refused[_i].message) != NULL, "%s: %s", refused[_i].dictionary,
                  r.err.message);
    bodies_fini(&r);
    free(body.bytes);
}
END_TEST

static const struct query_field strangers[] = {
    {"vocab_size", "4"}, {"dtype", "f32"}, {"logits", "1"}, {"x", "1"}};

START_TEST(refuses_what_the_header_says)
{
    struct bodies_request r;
    struct body body = build("\1\0", F4 "(1,)}\n", 4);
    decode(&r, &strangers[_i], 1, body);
    ck_assert_int_eq(r.status, STATUS_INVALID);
    ck_assert_str_eq(r.err.code, "unknown_parameter");
    bodies_fini(&r);
    free(body.bytes);
}
END_TEST

/* ---- damage ---- */

static const char whole[] = F4 "(2, 3), }          \n";

START_TEST(every_other_length_is_refused)
{
    struct body body = build("\1\0", whole, 24);
    for (size_t length = 0; length <= body.length + 1; length++) {
        struct bodies_request r;
        char longer[512] = "";
        memcpy(longer, body.bytes, body.length);
        struct body cut = {bodies_copy(longer, length), length};
        decode(&r, NULL, 0, cut);
        ck_assert_int_eq(r.status, length == body.length ? STATUS_OK : STATUS_INVALID);
        bodies_fini(&r);
        free(cut.bytes);
    }
    free(body.bytes);
}
END_TEST

START_TEST(a_long_header_is_refused)
{
    struct bodies_request r;
    struct body body = build("\2\0", whole, 24);
    memcpy(body.bytes + 8, "\1\0\1\0", 4);
    decode(&r, NULL, 0, body);
    ck_assert_str_eq(r.err.code, "malformed_npy");
    ck_assert_ptr_nonnull(strstr(r.err.message, "more than 65536 bytes"));
    bodies_fini(&r);
    free(body.bytes);
}
END_TEST

/* Each byte of the header with each value: refused, or what is accepted can be read. */
START_TEST(damage_is_survived)
{
    struct body body = build("\1\0", whole, 24);
    for (size_t i = 0; i < body.length - 24; i++) {
        char kept = body.bytes[i];
        for (int value = 0; value < 256; value++) {
            struct bodies_request r;
            char text[TEXT_BYTES];
            body.bytes[i] = (char)value;
            decode(&r, NULL, 0, body);
            ck_assert(r.status == STATUS_OK || r.status == STATUS_INVALID);
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
    Suite *suite = suite_create("npy");
    TCase *tcase = tcase_create("headers");
    tcase_add_loop_test(tcase, accepts, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(tcase, accepts_what_numpy_writes, 0, sizeof files / sizeof files[0]);
    tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof refused[0]);
    tcase_add_loop_test(tcase, refuses_what_the_header_says, 0, sizeof strangers / sizeof strangers[0]);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("damage");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_other_length_is_refused);
    tcase_add_test(tcase, a_long_header_is_refused);
    tcase_add_test(tcase, damage_is_survived);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
