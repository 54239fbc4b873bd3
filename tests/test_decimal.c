#include "proto/numbers/decimal.h"
#include "proto/numbers/numbers.h"

#include "tests/support.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT 4096

/* Read text from a buffer with room behind it, filled with what could be taken for more of a number. */
static int read_length(const char *text, const char *padding, double *out)
{
    char buffer[MAX_TEXT + NUMBERS_PADDING];
    size_t length = strlen(text);
    memcpy(buffer, text, length);
    for (size_t i = 0; i < NUMBERS_PADDING; i++)
        buffer[length + i] = padding[i % strlen(padding)];
    const char *stop = numbers_read_double(buffer, buffer + length, out);
    return stop == NULL ? -1 : (int)(stop - buffer);
}

static const char *const paddings[] = {"7", ".", "e5", "0.5e3", ",", " ", "x1", "-1"};
#define PADDINGS (sizeof paddings / sizeof *paddings)

/* -1: refused; else how much of the text is the number. */
static const struct {
    const char *text;
    int length;
} grammar[] = {
    {"0", 1},
    {"-0", 2},
    {"7", 1},
    {"-7", 2},
    {"10", 2},
    {"1234567", 7},
    {"12345678", 8},
    {"123456789", 9},
    {"0.5", 3},
    {"-0.0", 4},
    {"0.0000", 6},
    {"12345678.12345678", 17},
    {"1e5", 3},
    {"1E5", 3},
    {"1e+5", 4},
    {"1e-5", 4},
    {"1E+05", 5},
    {"0e0", 3},
    {"0.0e-0", 6},
    {"1.25e000000000000000000001", 26},
    {"1e99999999999999999999", 22},
    {"1e-99999999999999999999", 23},
    {"-1.5E+10", 8},
    {"1,", 1},
    {"1 ", 1},
    {"1]", 1},
    {"1x", 1},
    {"1.5.2", 3},
    {"1e5e5", 3},
    {"1e5.5", 3},
    {"0x10", 1},
    {"1_000", 1},
    {"1-", 1},
    {"1+1", 1},
    {"1f", 1},
    {"0,5", 1},
    {"1/2", 1},
    {"1:2", 1},
    {"1\xca"
     "2",
     1},
    {"1\xff\xff", 1},
    {"", -1},
    {"-", -1},
    {"+1", -1},
    {"--1", -1},
    {"-+1", -1},
    {"01", -1},
    {"00", -1},
    {"-01", -1},
    {"007.5", -1},
    {"00.5", -1},
    {"000000000", -1},
    {"01e5", -1},
    {".5", -1},
    {"-.5", -1},
    {"1.", -1},
    {"1.e5", -1},
    {"1.,", -1},
    {"-1.", -1},
    {"12345678.", -1},
    {"1e", -1},
    {"1e+", -1},
    {"1e-", -1},
    {"1.5e", -1},
    {"1e.5", -1},
    {"1ee5", -1},
    {"1e+-5", -1},
    {"e5", -1},
    {"NaN", -1},
    {"nan", -1},
    {"Infinity", -1},
    {"-Infinity", -1},
    {"inf", -1},
    {"null", -1},
    {" 1", -1},
    {"\t1", -1},
    {"\"1\"", -1},
    {"[1]", -1},
    {"/1", -1},
    {":1", -1},
    {"\xef\xbc\x91", -1},
};

START_TEST(reads_the_grammar_of_the_rfc)
{
    for (size_t i = 0; i < PADDINGS; i++) {
        double value = 42;
        int length = read_length(grammar[_i].text, paddings[i], &value);
        ck_assert_msg(length == grammar[_i].length, "'%s' before '%s': %d", grammar[_i].text, paddings[i],
                      length);
        double expected = 42;
        if (length >= 0) {
            char number[64] = "";
            memcpy(number, grammar[_i].text, (size_t)length);
            expected = strtod(number, NULL);
        }
        ck_assert_msg(memcmp(&value, &expected, sizeof value) == 0, "'%s': %.17g", grammar[_i].text, value);
    }
}
END_TEST

START_TEST(reads_no_digit_past_the_end)
{
    static const char digits[] = "123456789012345678901234567890123456789.01234567890123456789012345678e-12";
    for (size_t length = 1; length < sizeof digits; length++) {
        char text[sizeof digits] = "";
        memcpy(text, digits, length);
        double value, expected = strtod(text, NULL);
        char last = text[length - 1];
        int whole = last >= '0' && last <= '9' ? (int)length : -1;
        for (size_t i = 0; i < PADDINGS; i++) {
            ck_assert_msg(read_length(text, paddings[i], &value) == whole, "%s", text);
            ck_assert_msg(whole < 0 || value == expected, "%s: %.17g", text, value);
        }
    }
}
END_TEST

/* Write out {n*c}, n times the character c, wherever the pattern has it. */
static void expand(const char *pattern, char *out)
{
    while (*pattern != '\0') {
        if (*pattern != '{') {
            *out++ = *pattern++;
            continue;
        }
        char *after;
        size_t n = strtoul(pattern + 1, &after, 10);
        memset(out, after[1], n);
        out += n;
        pattern = after + 3;
    }
    *out = '\0';
}

/* Range ends, midpoints of floats and of doubles, and what lies a hair beside them. */
static const char *const extremes[] = {
    "0.{400*0}1e401",
    "1{400*0}e-400",
    "0.{2000*0}",
    "-0.{2000*0}",
    "1{2000*0}",
    "1{2000*0}e-2000",
    "0.{3000*0}1e3001",
    "0.{3000*0}1e-3001",
    "0e999999999999999999999",
    "-0.0e-99999999999999999",
    "{3000*9}",
    "{3000*9}e-3000",
    "0.{3000*9}",
    "{20*9}.{20*9}e-20",
    "1.{800*0}1",
    "1.{1600*0}1e10",
    "9007199254740993",
    "9007199254740993.0",
    "9007199254740993.{700*0}1",
    "9007199254740993.{800*0}1",
    "9007199254740993.{3000*0}1",
    "9007199254740992.{3000*9}",
    "9007199254740993{300*0}e-300",
    "9007199254740993{3000*0}1e-3001",
    "9007199254740995{3000*0}e-3000",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "1.7976931348623159e308",
    "1.797693134862315807e308",
    "1.797693134862315808e308",
    "4.9e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "2.2250738585072011e-308",
    "2.2250738585072014e-308",
    "3.4028234663852886e38",
    "3.4028235677973366e38",
    "3.4028235677973362e38",
    "3.4028235677973367e38",
    "3.40282356779733661637539395458142568447e38",
    "3.40282356779733661637539395458142568448e38",
    "340282356779733661637539395458142568448",
    "340282356779733661637539395458142568447.{900*9}",
    "340282356779733642748073463979561713664",
    "3.5e38",
    "1e39",
    "1e400",
    "1.1754943508222875e-38",
    "1.1754942807573643e-38",
    "1.1754943157898259e-38",
    "7.006492321624085e-46",
    "7.006492321624086e-46",
    "7.0064923216240853e-46",
    "7.0064923216240854e-46",
    "1.401298464324817e-45",
    "1e-37",
    "9.99e-38",
    "1.2e-38",
    "1e-46",
    "1e-400",
    "16777217",
    "16777217.000000001",
    "16777217.0000000000000000001",
    "16777216.9999999999999999999",
    "16777219",
    "33554434",
    "33554438",
    "8388608.5",
    "8388609.5",
    "1.00000005960464477539062500",
    "1.000000059604644775390625{100*0}1",
    "1.00000017881393432617187500",
    "1.0000000596046447753906249999999999",
    "1.00000005960464485",
    "1.00000005960464470",
    "0.1",
    "0.3",
    "1e22",
    "1e23",
    "1e-22",
    "9007199254740992e22",
    "9007199254740993e22",
    "8.5e-23",
    "123456789012345678",
    "1234567890123456789",
    "9223372036854775807",
    "9223372036854775808",
    "12345678901234567890",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999",
};

START_TEST(rounds_as_strtod_and_then_to_float)
{
    char text[MAX_TEXT];
    double value;
    struct decimal d;
    expand(extremes[_i], text);
    double expected = strtod(text, NULL);
    int length = read_length(text, ",", &value);
    ck_assert_msg(length == (int)strlen(text), "%s: %d characters", extremes[_i], length);
    ck_assert_msg(memcmp(&value, &expected, sizeof value) == 0, "%s: %a, not %a", extremes[_i], value,
                  expected);
    memset(text + length, ',', NUMBERS_PADDING);
    ck_assert_ptr_eq(decimal_scan(text, text + length, &d), text + length);
    float single = decimal_to_float(&d), expected_single = (float)expected;
    ck_assert_msg(memcmp(&single, &expected_single, sizeof single) == 0, "%s: %a, not %a", extremes[_i],
                  (double)single, (double)expected_single);
}
END_TEST

START_TEST(has_a_table_of_nearest_doubles)
{
    for (int e = -DECIMAL_POWER_LIMIT; e <= DECIMAL_POWER_LIMIT; e++) {
        char text[16];
        snprintf(text, sizeof text, "1e%d", e);
        ck_assert_double_eq(decimal_power[e + DECIMAL_POWER_LIMIT], strtod(text, NULL));
    }
}
END_TEST

/* ---- many random numbers: every reader against strtod ---- */

#define DEFAULT_RANDOM_NUMBERS 1000000
#define BATCH                  16 /* numbers in one array */

static uint64_t random_state = 0x9e3779b97f4a7c15u;

/* Source: SplitMix64, Steele, Lea and Flood, OOPSLA 2014. */
static uint64_t random_bits(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int random_below(int n)
{
    return (int)(random_bits() % (uint64_t)n);
}

static double random_double(void) /* finite, any exponent */
{
    uint64_t bits = random_bits();
    double x;
    if ((bits >> 52 & 0x7ff) == 0x7ff)
        bits ^= UINT64_C(1) << 52;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float random_float(void)
{
    uint32_t bits = (uint32_t)random_bits();
    float x;
    if ((bits >> 23 & 0xff) == 0xff)
        bits ^= UINT32_C(1) << 23;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double random_logit(void)
{
    return (random_below(2) ? 30.0 : 1.0) * ((double)(random_bits() >> 11) * 0x1p-52 - 1);
}

/* A midpoint of two floats, exactly, or a few units of a double's last place beside it. */
static double random_midpoint(void)
{
    float x = random_below(2) ? (float)random_logit() : random_float();
    double y = ((double)x + (double)nextafterf(x, 0)) / 2;
    for (int i = random_below(12); i > 3; i--)
        y = nextafter(y, 2 * x);
    return y;
}

static int random_digits(char *text, int count)
{
    static const char *const digits[] = {"0123456789", "0000000001", "9999999998"};
    const char *from = digits[random_below(5) % 3];
    for (int i = 0; i < count; i++)
        text[i] = from[random_below(10)];
    return count;
}

/* [-]D[.D][e[+-]D] with up to `longest` digits in each of the first two. */
static void print_pieces(char *text, int longest)
{
    char *p = text;
    if (random_below(2))
        *p++ = '-';
    *p = (char)('1' + random_below(9));
    if (random_below(3) == 0)
        *p++ = '0';
    else
        p += 1 + random_digits(p + 1, random_below(longest));
    if (random_below(4) != 0) {
        *p++ = '.';
        for (int i = random_below(4) == 0 ? random_below(longest) : 0; i > 0; i--)
            *p++ = '0';
        p += random_digits(p, 1 + random_below(longest));
    }
    *p = '\0';
    if (random_below(3) == 0)
        snprintf(p, 8, "%c%s%d", "eE"[random_below(2)], random_below(2) ? "+" : "", random_below(340));
    else if (random_below(2) == 0)
        snprintf(p, 8, "e-%d", random_below(random_below(2) ? 30 : 340));
}

/* The midpoint of two doubles in full, sometimes with more digits that put it off. */
static void print_double_midpoint(char *text)
{
    static const char *const tails[] = {"", "0", "1", "00000000000000000000000000000001"};
    double x = random_below(2) ? random_double() : random_logit() * (double)(1 + random_below(1000000));
    if (random_below(8) == 0)
        x = ldexp(random_logit(), -1020 - random_below(54));
    double step = nextafter(x, 0) - x;
    snprintf(text, MAX_TEXT, "%.1100Lg", (long double)x + (long double)step / 2);
    char exponent[16] = "", *e = strchr(text, 'e');
    if (e != NULL) {
        strcpy(exponent, e);
        *e = '\0';
    }
    if (strchr(text, '.') != NULL)
        strcat(text, tails[random_below(4)]);
    strcat(text, exponent);
}

static void print_random(char *text)
{
    static const double edges[] = {
        0x1p128, 0x1.ffffffp127, 0x1.fffffep127, 0x1p-126, 0x1.fffffep-127, 0x1p-149, 0x1p-150,
        DBL_MAX, DBL_MIN,        0x1p-1074,      16777217, 0x1p53,          1e-37,    1e37,
    };
    int kind = random_below(100);
    if (kind < 20) {
        snprintf(text, MAX_TEXT, "%.*f", random_below(7), random_logit());
    } else if (kind < 40) {
        snprintf(text, MAX_TEXT, "%.*g", 15 + random_below(3), (double)(float)random_logit());
    } else if (kind < 48) {
        snprintf(text, MAX_TEXT, "%.17g", random_double());
    } else if (kind < 56) {
        snprintf(text, MAX_TEXT, "%.*g", random_below(2) ? 9 : 17, (double)random_float());
    } else if (kind < 72) {
        snprintf(text, MAX_TEXT, "%.*g", 16 + random_below(random_below(2) ? 4 : 50), random_midpoint());
    } else if (kind < 90) {
        print_pieces(text, 12);
    } else if (kind < 95) {
        double x = edges[random_below(sizeof edges / sizeof *edges)] * (1 + (random_below(17) - 8) * 0x1p-52);
        snprintf(text, MAX_TEXT, "%.*g", 16 + random_below(5), isfinite(x) ? x : DBL_MAX);
    } else if (kind < 99) {
        print_pieces(text, 40);
    } else if (random_below(4) != 0) {
        print_double_midpoint(text);
    } else {
        print_pieces(text, 550);
    }
}

/* A check for every number, which ck_assert would slow down several times. */
static void check_double(const char *text, double value, double expected)
{
    if (memcmp(&value, &expected, sizeof value) != 0)
        ck_abort_msg("%.*s: %a, not %a", (int)strcspn(text, ", \n]"), text, value, expected);
}

/* What follows from the text alone: the doubles, and the floats read one by one. */
static void check_single(const char *text, const char *end, double expected)
{
    double value;
    struct decimal d;
    if (numbers_read_double(text, end, &value) != end || decimal_scan(text, end, &d) != end)
        ck_abort_msg("not read to its end: %.*s", (int)(end - text), text);
    check_double(text, value, expected);
    check_double(text, (double)decimal_to_float(&d), (double)(float)expected);
}

static void check_batch(char *buffer)
{
    static const char *const separators[] = {",", ", ", ",", ", ", " ,\n\t"};
    const char *separator = separators[random_below(5)], *starts[BATCH], *cursor = buffer;
    double expected[BATCH];
    float out[BATCH];
    char *p = buffer;
    *p++ = '[';
    for (int i = 0; i < BATCH; i++) {
        print_random(p);
        starts[i] = p;
        expected[i] = strtod(p, &p);
        check_single(starts[i], p, expected[i]);
        p = stpcpy(p, i + 1 < BATCH ? separator : "]");
    }
    struct shape shape;
    struct error err = {.message = ""};
    if (numbers_read_array(&cursor, p, out, BATCH, &shape, "logits", &err) != STATUS_OK ||
        shape.dims[0] != BATCH)
        ck_abort_msg("%s: %s", err.message, buffer);
    for (int i = 0; i < BATCH; i++)
        check_double(starts[i], (double)out[i], (double)(float)expected[i]);
}

START_TEST(equals_strtod_on_random_numbers)
{
    const char *wanted = getenv("SAMPLERD_TEST_NUMBERS");
    double count = wanted != NULL ? strtod(wanted, NULL) : DEFAULT_RANDOM_NUMBERS;
    static char buffer[BATCH * MAX_TEXT + NUMBERS_PADDING];
    for (double done = 0; done < count; done += BATCH)
        check_batch(buffer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decimal");
    TCase *cases = tcase_create("one number");
    tcase_add_loop_test(cases, reads_the_grammar_of_the_rfc, 0, sizeof grammar / sizeof *grammar);
    tcase_add_test(cases, reads_no_digit_past_the_end);
    tcase_add_loop_test(cases, rounds_as_strtod_and_then_to_float, 0, sizeof extremes / sizeof *extremes);
    tcase_add_test(cases, has_a_table_of_nearest_doubles);
    suite_add_tcase(suite, cases);
    TCase *random_cases = tcase_create("random numbers");
    tcase_set_timeout(random_cases, 0);
    tcase_add_test(random_cases, equals_strtod_on_random_numbers);
    suite_add_tcase(suite, random_cases);
    return run_suite(suite);
}
