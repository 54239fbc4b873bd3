#include "proto/numbers/numbers.h"

#include "tests/support.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CAPACITY 64

/* ---- text against a page that may not be touched ---- */

#define PAGE 4096

static char *guard; /* that page; two others are before it */

static void map_guard(void)
{
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(pages != MAP_FAILED);
    guard = pages + 2 * PAGE;
    ck_assert_int_eq(mprotect(guard, PAGE, PROT_NONE), 0);
}

/* Put text where its padding, repeating `padding`, ends at the guard page. */
static const char *place(const char *text, size_t length, const char *padding)
{
    char *end = guard - NUMBERS_PADDING;
    for (size_t i = 0; i < NUMBERS_PADDING; i++)
        end[i] = padding[i % strlen(padding)];
    memcpy(end - length, text, length);
    return end - length;
}

static const char *const paddings[] = {"7", ".", "5e3", ",", "]", "[", " ", "null", "-1.5, ", "0.5]"};
#define PADDINGS (sizeof paddings / sizeof *paddings)

/* ---- arrays ---- */

static const struct {
    const char *text;
    struct shape shape;
    float values[12];
} arrays[] = {
    {"[1]", {1, {1}}, {1}},
    {"[1,2]", {1, {2}}, {1, 2}},
    {"[ 1 , -2.5 ]", {1, {2}}, {1, -2.5f}},
    {"[\n\t1.0,\r\n\t2.0\n]", {1, {2}}, {1, 2}},
    {"[null,0,-0.0,null]", {1, {4}}, {-INFINITY, 0, -0.0f, -INFINITY}},
    {"[1e2,1E-2,1.5e+1,12345678,123456789.5]", {1, {5}}, {100, 0.01f, 15, 12345678, 123456789.5f}},
    {"[1e39,-1e39,1e-50,-1e-400,1e400]", {1, {5}}, {INFINITY, -INFINITY, 0, -0.0f, INFINITY}},
    {"[3.7437288761138916, -0.00012345678901234567, 10.123456789012345]",
     {1, {3}},
     {3.7437288761138916f, -0.00012345678901234567f, 10.123456789012345f}},
    {"[1.23456789012345678901234567890123456789,0.1,16777217.0000000001]",
     {1, {3}},
     {1.2345678901234567f, 0.1f, 16777216}}, /* once: 16777218 */
    {"[[1,2],[3,4]]", {2, {2, 2}}, {1, 2, 3, 4}},
    {"[[1]]", {2, {1, 1}}, {1}},
    {"[ [ 1 , 2 , 3 ] , [ 4 , 5 , null ] ]", {2, {2, 3}}, {1, 2, 3, 4, 5, -INFINITY}},
    {"[[[1,2,3],[4,5,6]],[[7,8,9],[10,11,12]]]", {3, {2, 2, 3}}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
    {"[ [ [ 1 ] , [ 2 ] , [ 3 ] ] ]", {3, {1, 3, 1}}, {1, 2, 3}},
};

START_TEST(reads_arrays)
{
    const char *text = arrays[_i].text;
    for (size_t i = 0; i < PADDINGS; i++) {
        float out[CAPACITY];
        struct shape shape;
        struct error err;
        size_t length = strlen(text), count = 1;
        const char *start = place(text, length, paddings[i]), *cursor = start;
        enum status status =
            numbers_read_array(&cursor, start + length, out, CAPACITY, &shape, "logits", &err);
        ck_assert_msg(status == STATUS_OK, "%s: %s", text, err.message);
        ck_assert_ptr_eq(cursor, start + length);
        ck_assert_uint_eq(shape.rank, arrays[_i].shape.rank);
        for (size_t j = 0; j < shape.rank; j++) {
            ck_assert_uint_eq(shape.dims[j], arrays[_i].shape.dims[j]);
            count *= shape.dims[j];
        }
        ck_assert_msg(memcmp(out, arrays[_i].values, count * sizeof *out) == 0, "%s", text);
    }
}
END_TEST

static const struct {
    const char *text, *code, *message;
    size_t row, offset; /* offset: where the cursor is left */
} faults[] = {
#define NO     ERROR_NO_ROW
#define JSON   "malformed_json"
#define TYPE   "wrong_type"
#define LENGTH "wrong_length"
    {"[]", LENGTH, "logits is empty", NO, 0},
    {"[ \n]", LENGTH, "logits is empty", NO, 0},
    {"[[]]", LENGTH, "logits[0] is empty", 0, 1},
    {"[[1],[]]", LENGTH, "logits[1] is empty", 1, 5},
    {"[[[1]],[]]", LENGTH, "logits[1] is empty", NO, 7},
    {"[[[[1]]]]", LENGTH, "logits is nested too deep; it may be up to three arrays deep", NO, 3},
    {"[[1,2,3,4],[1,2,3,4],[1,2,3,4,5]]", LENGTH, "logits[2] has 5 numbers; those before it have 4", 2, 21},
    {"[[1,2],[1]]", LENGTH, "logits[1] has 1 number; those before it have 2", 1, 7},
    {"[[[1],[2]],[[3]]]", LENGTH, "logits[1] has 1 row; those before it have 2", NO, 11},
    {"[[[1],[2]],[[3,4],[5]]]", LENGTH, "logits[1][0] has 2 numbers; those before it have 1", NO, 12},
    {"[[0,1,\"2\"]]", TYPE, "logits[0][2] is a string; it must be a number or null", 0, 6},
    {"[true]", TYPE, "logits[0] is true; it must be a number or null", NO, 1},
    {"[1,false]", TYPE, "logits[1] is false; it must be a number or null", NO, 3},
    {"[1,{}]", TYPE, "logits[1] is an object; it must be a number or null", NO, 3},
    {"[1,[2]]", TYPE, "logits[1] is an array; it must be a number or null", NO, 3},
    {"[[[1]],[[[1]]]]", TYPE, "logits[1][0][0] is an array; it must be a number or null", NO, 9},
    {"[[1],2]", TYPE, "logits[1] is a number; it must be an array", 1, 5},
    {"[[1],null]", TYPE, "logits[1] is null; it must be an array", 1, 5},
    {"{}", TYPE, "logits is an object; it must be an array", NO, 0},
    {"5", TYPE, "logits is a number; it must be an array", NO, 0},
    {"[[1],\"2\"]", TYPE, "logits[1] is a string; it must be an array", 1, 5},
    {"", JSON, "logits is not valid JSON: the text ends at byte 0 of the array", NO, 0},
    {"x", JSON, "logits is not valid JSON: '[' is missing at byte 0 of the array", NO, 0},
    {"[1,2,3,01]", JSON, "logits[3] is not valid JSON: leading zero at byte 7 of the array", NO, 7},
    {"[-01.5]", JSON, "logits[0] is not valid JSON: leading zero at byte 2 of the array", NO, 2},
    {"[-]", JSON, "logits[0] is not valid JSON: a digit must follow '-' at byte 2 of the array", NO, 2},
    {"[-x]", JSON, "logits[0] is not valid JSON: a digit must follow '-' at byte 2 of the array", NO, 2},
    {"[1.]", JSON, "logits[0] is not valid JSON: a digit must follow '.' at byte 3 of the array", NO, 3},
    {"[1234567.,1]", JSON, "logits[0] is not valid JSON: a digit must follow '.' at byte 9 of the array", NO,
     9},
    {"[1.5e]", JSON, "logits[0] is not valid JSON: the exponent has no digit at byte 5 of the array", NO, 5},
    {"[1e+]", JSON, "logits[0] is not valid JSON: the exponent has no digit at byte 4 of the array", NO, 4},
    {"[+1]", JSON, "logits[0] is not valid JSON: a number or null is missing at byte 1 of the array", NO, 1},
    {"[.5]", JSON, "logits[0] is not valid JSON: a number or null is missing at byte 1 of the array", NO, 1},
    {"[,1]", JSON, "logits[0] is not valid JSON: a number or null is missing at byte 1 of the array", NO, 1},
    {"[1,]", JSON, "logits[1] is not valid JSON: a number or null is missing at byte 3 of the array", NO, 3},
    {"[1,,2]", JSON, "logits[1] is not valid JSON: a number or null is missing at byte 3 of the array", NO,
     3},
    {"[[1],]", JSON, "logits[1] is not valid JSON: '[' is missing at byte 5 of the array", 1, 5},
    {"[nul]", JSON, "logits[0] is not valid JSON: a number or null is missing at byte 1 of the array", NO, 1},
    {"[tru]", JSON, "logits[0] is not valid JSON: a number or null is missing at byte 1 of the array", NO, 1},
    {"[1 2]", JSON, "logits[0] is not valid JSON: ',' or ']' is missing after it at byte 3 of the array", NO,
     3},
    {"[1,0x1F]", JSON, "logits[1] is not valid JSON: ',' or ']' is missing after it at byte 4 of the array",
     NO, 4},
    {"[1.5.2]", JSON, "logits[0] is not valid JSON: ',' or ']' is missing after it at byte 4 of the array",
     NO, 4},
    {"[1\f]", JSON, "logits[0] is not valid JSON: ',' or ']' is missing after it at byte 2 of the array", NO,
     2},
    {"[[1][2]]", JSON, "logits[0] is not valid JSON: ',' or ']' is missing after it at byte 4 of the array",
     0, 4},
    {"[[1}]", JSON, "logits[0][0] is not valid JSON: ',' or ']' is missing after it at byte 3 of the array",
     0, 3},
    {"[NaN]", JSON, "logits[0] is NaN, which JSON does not have; null stands for a masked token", NO, 1},
    {"[[1,-Infinity]]", JSON,
     "logits[0][1] is -Infinity, which JSON does not have; null stands for a masked token", 0, 4},
    {"[inf]", JSON, "logits[0] is inf, which JSON does not have; null stands for a masked token", NO, 1},
    {"[1,", JSON, "logits[1] is not valid JSON: the text ends at byte 3 of the array", NO, 3},
    {"[1", JSON, "logits[0] is not valid JSON: the text ends at byte 2 of the array", NO, 2},
    {"[[1,2],", JSON, "logits[1] is not valid JSON: the text ends at byte 7 of the array", 1, 7},
};

START_TEST(explains_faults)
{
    const char *text = faults[_i].text;
    size_t length = strlen(text);
    for (size_t i = 0; i < PADDINGS; i++) {
        float out[CAPACITY];
        struct shape shape;
        struct error err;
        const char *start = place(text, length, paddings[i]), *cursor = start;
        enum status status =
            numbers_read_array(&cursor, start + length, out, CAPACITY, &shape, "logits", &err);
        ck_assert_int_eq(status, STATUS_INVALID);
        ck_assert_str_eq(err.message, faults[_i].message);
        ck_assert_str_eq(err.code, faults[_i].code);
        ck_assert_str_eq(err.param, "logits");
        ck_assert_uint_eq(err.row, faults[_i].row);
        ck_assert_uint_eq((size_t)(cursor - start), faults[_i].offset);
    }
}
END_TEST

START_TEST(refuses_every_truncation)
{
    const char *text = arrays[_i].text;
    for (size_t length = 0; length < strlen(text); length++)
        for (size_t i = 0; i < PADDINGS; i++) {
            float out[CAPACITY];
            struct shape shape;
            struct error err;
            double value;
            const char *start = place(text, length, paddings[i]), *end = start + length, *cursor = start;
            enum status status = numbers_read_array(&cursor, end, out, CAPACITY, &shape, "logits", &err);
            ck_assert_msg(status == STATUS_INVALID, "%.*s", (int)length, text);
            ck_assert_msg(cursor >= start && cursor <= end, "%.*s", (int)length, text);
            for (const char *p = start; p <= end; p++) {
                const char *stop = numbers_read_double(p, end, &value);
                ck_assert(stop == NULL || (stop > p && stop <= end));
            }
        }
}
END_TEST

START_TEST(never_writes_past_the_capacity)
{
    static const char text[] = "[[1,2.5,null],[4e1,5,6],[7,8,9]]";
    for (size_t capacity = 0; capacity <= 9; capacity++) {
        float out[10];
        struct shape shape;
        struct error err;
        memset(out, 0x5a, sizeof out);
        const char *start = place(text, strlen(text), ","), *cursor = start;
        enum status status =
            numbers_read_array(&cursor, start + strlen(text), out, capacity, &shape, "bias", &err);
        ck_assert_int_eq(status, capacity < 9 ? STATUS_INTERNAL : STATUS_OK);
        for (const unsigned char *p = (unsigned char *)(out + capacity); p < (unsigned char *)(out + 10); p++)
            ck_assert_int_eq(*p, 0x5a);
    }
}
END_TEST

START_TEST(bounds_the_count)
{
    char text[600];
    for (size_t length = 0; length < sizeof text; length++) {
        size_t commas = 0;
        for (size_t i = 0; i < length; i++) {
            text[i] = ",1,.,x"[(i * i + length) % 6];
            commas += text[i] == ',';
        }
        ck_assert_uint_eq(numbers_count_bound(text, length), commas + 1);
    }
    memset(text, ',', sizeof text);
    ck_assert_uint_eq(numbers_count_bound(text, sizeof text), sizeof text + 1);
}
END_TEST

START_TEST(knows_no_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8", "de_DE"};
    static const char text[] = "[1.5,9007199254740993.5,16777217.00000000000000000001,1.25e-300]";
    size_t i = 0;
    while (i < sizeof names / sizeof *names && setlocale(LC_ALL, names[i]) == NULL)
        i++;
    if (strcmp(localeconv()->decimal_point, ",") != 0)
        return; /* none installed */
    float out[CAPACITY];
    struct shape shape;
    struct error err;
    double value;
    const char *start = place(text, strlen(text), " "), *end = start + strlen(text), *cursor = start;
    ck_assert_int_eq(numbers_read_array(&cursor, end, out, CAPACITY, &shape, "logits", &err), STATUS_OK);
    ck_assert_float_eq(out[0], 1.5f);
    ck_assert_float_eq(out[2], 16777216.0f);
    ck_assert_ptr_nonnull(numbers_read_double(start + 5, end, &value));
    ck_assert_double_eq(value, 9007199254740994.0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numbers");
    TCase *cases = tcase_create("arrays");
    tcase_add_unchecked_fixture(cases, map_guard, NULL);
    tcase_add_loop_test(cases, reads_arrays, 0, sizeof arrays / sizeof *arrays);
    tcase_add_loop_test(cases, explains_faults, 0, sizeof faults / sizeof *faults);
    tcase_add_loop_test(cases, refuses_every_truncation, 0, sizeof arrays / sizeof *arrays);
    tcase_add_test(cases, never_writes_past_the_capacity);
    tcase_add_test(cases, bounds_the_count);
    tcase_add_test(cases, knows_no_locale);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
