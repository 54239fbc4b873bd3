#include "proto/json/json_scan.h"

#include "tests/bodies.h"
#include "tests/support.h"

/* Scan a value that all of the text must be; err is set when it is not. */
static enum status scan(const char *text, size_t length, struct error *err)
{
    const char *start = bodies_place(text, length, '7');
    struct json_scan s = {.start = start, .end = start + length, .p = start, .err = err};
    json_scan_space(&s);
    if (json_scan_value(&s) != STATUS_OK)
        return err->status;
    json_scan_space(&s);
    ck_assert(s.p <= s.end);
    return s.p == s.end ? STATUS_OK : json_scan_fail(&s, "more text");
}

static const char *const valid[] = {
    "0",
    "-0",
    "7",
    "-1.50e+10",
    "1E5",
    "0.0e-0",
    "true",
    "false",
    "null",
    "\"\"",
    "[]",
    "{}",
    "[ ]",
    "{ }",
    " [ 1 , \"a\" ,\n[ ] , { \"b\" : null , \"b\":[true] } ]\r\t",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uFfFf\"",
    "\"\\ud800\\udc00\\uDBFF\\uDFFF\"",
    "\"\x7f\xc2\x80\xdf\xbf\"",
    "\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\"",
    "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    "123456789012345678901234567890123456789012345678901234567890123",
};

START_TEST(takes_what_is_valid)
{
    struct error err;
    ck_assert_msg(scan(valid[_i], strlen(valid[_i]), &err) == STATUS_OK, "%s: %s", valid[_i], err.message);
}
END_TEST

START_TEST(no_beginning_is_valid)
{
    static const char text[] = "{\"a\":[1,-2.5e+3,true,\"\\ud800\\udc00\xf0\x9f\x98\x80\"],\"b\":{}}";
    struct error err;
    for (size_t length = 0; length < sizeof text - 1; length++) {
        ck_assert_int_eq(scan(text, length, &err), STATUS_INVALID);
        ck_assert_str_eq(err.code, "malformed_json");
    }
    ck_assert_int_eq(scan(text, sizeof text - 1, &err), STATUS_OK);
}
END_TEST

static const struct {
    const char *text, *message; /* behind "the body is not valid JSON: " */
} invalid[] = {
    {"", "it ends too early at byte 0"},
    {"nul", "a value is missing at byte 0"},
    {"True", "a value is missing at byte 0"},
    {"truex", "more text at byte 4"},
    {"NaN", "NaN, which JSON does not have, at byte 0"},
    {"Infinity", "Infinity, which JSON does not have, at byte 0"},
    {"'a'", "a value is missing at byte 0"},
    {"// a\n1", "a value is missing at byte 0"},
    {"\xef\xbb\xbf"
     "1",
     "a value is missing at byte 0"},
    {"1 2", "more text at byte 2"},
    {"\v1", "a value is missing at byte 0"},
    {"1\xc2\xa0", "more text at byte 1"},
    /* numbers */
    {"01", "leading zero at byte 0"},
    {"-01", "leading zero at byte 1"},
    {"00", "leading zero at byte 0"},
    {"-", "it ends too early at byte 1"},
    {"-a", "a digit is missing at byte 1"},
    {"+1", "a value is missing at byte 0"},
    {".5", "a value is missing at byte 0"},
    {"[1.]", "a digit is missing after '.' at byte 3"},
    {"[1.e5]", "a digit is missing after '.' at byte 3"},
    {"[1e]", "an exponent has no digit at byte 3"},
    {"[1e+]", "an exponent has no digit at byte 4"},
    {"0x1", "more text at byte 1"},
    {"1,5", "more text at byte 1"},
    /* structure */
    {"[1,]", "a value is missing at byte 3"},
    {"[,1]", "a value is missing at byte 1"},
    {"[1 2]", "',' or ']' is missing at byte 3"},
    {"[1}", "',' or ']' is missing at byte 2"},
    {"{\"a\":1,}", "'\"' is missing at byte 7"},
    {"{\"a\" 1}", "':' is missing at byte 5"},
    {"{\"a\"}", "':' is missing at byte 4"},
    {"{1:1}", "'\"' is missing at byte 1"},
    {"{\"a\":1]", "',' or '}' is missing at byte 6"},
    /* strings */
    {"\"a", "it ends too early at byte 2"},
    {"\"a\nb\"", "a control character in a string at byte 2"},
    {"\"\x1f\"", "a control character in a string at byte 1"},
    {"\"\\x\"", "unknown escape at byte 2"},
    {"\"\\'\"", "unknown escape at byte 2"},
    {"\"\\U0041\"", "unknown escape at byte 2"},
    {"\"\\u12g4\"", "\\u needs four hexadecimal digits at byte 3"},
    {"\"\\u-123\"", "\\u needs four hexadecimal digits at byte 3"},
    {"\"\\u123\"", "\\u needs four hexadecimal digits at byte 3"},
    {"\"\\ud800\"", "a high surrogate stands alone at byte 7"},
    {"\"\\ud800\\ud800\"", "a high surrogate stands alone at byte 7"},
    {"\"\\ud800\\u0041\"", "a high surrogate stands alone at byte 7"},
    {"\"\\ud800udc00\"", "a high surrogate stands alone at byte 7"},
    {"\"\\udc00\\ud800\"", "a low surrogate stands alone at byte 3"},
    /* UTF-8 */
    {"\"\x80\"", "invalid UTF-8 at byte 1"},
    {"\"\xbf\"", "invalid UTF-8 at byte 1"},
    {"\"\xc0\xaf\"", "invalid UTF-8 at byte 1"},
    {"\"\xc1\xbf\"", "invalid UTF-8 at byte 1"},
    {"\"\xc3\"", "invalid UTF-8 at byte 1"},
    {"\"\xe0\x9f\xbf\"", "invalid UTF-8 at byte 1"},
    {"\"\xed\xa0\x80\"", "invalid UTF-8 at byte 1"},
    {"\"\xe2\x82\"", "invalid UTF-8 at byte 1"},
    {"\"\xf0\x8f\xbf\xbf\"", "invalid UTF-8 at byte 1"},
    {"\"\xf4\x90\x80\x80\"", "invalid UTF-8 at byte 1"},
    {"\"\xf5\x80\x80\x80\"", "invalid UTF-8 at byte 1"},
    {"\"\xff\"", "invalid UTF-8 at byte 1"},
};

START_TEST(refuses_what_is_not)
{
    struct error err;
    static const char start[] = "the body is not valid JSON: ";
    ck_assert_int_eq(scan(invalid[_i].text, strlen(invalid[_i].text), &err), STATUS_INVALID);
    ck_assert_str_eq(err.code, "malformed_json");
    ck_assert_int_eq(strncmp(err.message, start, sizeof start - 1), 0);
    ck_assert_str_eq(err.message + sizeof start - 1, invalid[_i].message);
}
END_TEST

START_TEST(a_zero_byte_is_no_text)
{
    struct error err;
    ck_assert_int_eq(scan("1\0", 2, &err), STATUS_INVALID);
    ck_assert_int_eq(scan("\"\0\"", 3, &err), STATUS_INVALID);
    ck_assert_int_eq(scan("\"\\\0\"", 4, &err), STATUS_INVALID);
    ck_assert_int_eq(scan("tru\0", 4, &err), STATUS_INVALID);
}
END_TEST

/* Any of the two brackets, one level too many, and many more than a stack could hold. */
START_TEST(depth_is_limited)
{
    static const char *const units[] = {"[", "{\"a\":"};
    static char text[BODIES_MAX_BYTES / 4];
    struct error err;
    for (size_t unit = 0; unit < 2; unit++)
        for (size_t depth = JSON_MAX_DEPTH + 1; depth < 200000; depth *= 10) {
            char *p = text;
            for (size_t i = 0; i < depth; i++, p += strlen(units[unit]))
                strcpy(p, units[unit]);
            ck_assert_int_eq(scan(text, strlen(text), &err), STATUS_INVALID);
            ck_assert_msg(strstr(err.message, "nested deeper than 32") != NULL, "%s", err.message);
        }
}
END_TEST

START_TEST(a_long_number_is_refused)
{
    char text[JSON_MAX_NUMBER_BYTES + 2] = "";
    struct error err;
    memset(text, '1', JSON_MAX_NUMBER_BYTES + 1);
    ck_assert_int_eq(scan(text, JSON_MAX_NUMBER_BYTES + 1, &err), STATUS_INVALID);
    ck_assert_str_eq(err.code, "out_of_range");
    ck_assert_int_eq(scan(text, JSON_MAX_NUMBER_BYTES, &err), STATUS_OK);
    cJSON *number = cJSON_ParseWithLength(text, JSON_MAX_NUMBER_BYTES);
    ck_assert_ptr_nonnull(number);
    ck_assert_double_eq(number->valuedouble, strtod("1.1111111111111111e62", NULL));
    cJSON_Delete(number);
}
END_TEST

/* Write a number as if it were a character of `length` bytes, which has room for it. */
static void put_character(char *out, uint32_t code, size_t length)
{
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(marks[length] | code);
}

/* Each number up to 2^21 in each length that has room: only characters in their shortest form are valid. */
START_TEST(utf8_is_characters_in_shortest_form)
{
    static const uint32_t room[] = {0, 0x80, 0x800, 0x10000, 0x200000};
    for (uint32_t code = 0; code < room[4]; code++)
        for (size_t length = 1; length <= 4; length++) {
            char text[4];
            if (code >= room[length])
                continue;
            put_character(text, code, length);
            bool is_character = code < 0xd800 || (code >= 0xe000 && code < 0x110000);
            size_t expected = is_character && code >= room[length - 1] ? length : 0;
            if (json_utf8_length(text, text + length) != expected ||
                (length > 1 && json_utf8_length(text, text + length - 1) != 0))
                ck_abort_msg("%x in %zu bytes", code, length);
        }
}
END_TEST

START_TEST(a_prefix_ends_between_characters)
{
    static const char text[] = "a\xc3\xa9\xf0\x9f\x98\x80\xff"
                               "b";
    static const size_t kept[] = {0, 1, 1, 3, 3, 3, 3, 7, 7, 7};
    for (size_t limit = 0; limit < sizeof kept / sizeof kept[0]; limit++)
        ck_assert_uint_eq(json_utf8_prefix(text, sizeof text - 1, limit), kept[limit]);
    ck_assert_uint_eq(json_utf8_prefix(text, 5, 9), 3);
    ck_assert_uint_eq(json_utf8_prefix(text, 0, 9), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_scan");
    TCase *tcase = tcase_create("grammar");
    tcase_add_loop_test(tcase, takes_what_is_valid, 0, sizeof valid / sizeof valid[0]);
    tcase_add_loop_test(tcase, refuses_what_is_not, 0, sizeof invalid / sizeof invalid[0]);
    tcase_add_test(tcase, no_beginning_is_valid);
    tcase_add_test(tcase, a_zero_byte_is_no_text);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("limits");
    tcase_add_test(tcase, depth_is_limited);
    tcase_add_test(tcase, a_long_number_is_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("utf8");
    tcase_set_timeout(tcase, 60); /* under sanitizers */
    tcase_add_test(tcase, utf8_is_characters_in_shortest_form);
    tcase_add_test(tcase, a_prefix_ends_between_characters);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
