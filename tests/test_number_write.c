#include "proto/numbers/number_write.h"

#include "tests/support.h"

#include <float.h>
#include <locale.h>

static void check_real(double x)
{
    char expected[64], got[NUMBER_MAX_BYTES + 1];
    memset(got, '#', sizeof got);
    snprintf(expected, sizeof expected, "%.9g", x);
    size_t n = number_write(got, x);
    if (n != strlen(expected) || memcmp(got, expected, n) != 0 || n > NUMBER_MAX_BYTES)
        ck_abort_msg("%.17g is written %.*s and not %s", x, (int)n, got, expected);
    ck_assert_int_eq(got[NUMBER_MAX_BYTES], '#');
}

/* A value, its neighbours, and their negatives. */
static void check_near(double x)
{
    const double near[] = {x, nextafter(x, 0), nextafter(x, HUGE_VAL), nextafter(nextafter(x, 0), 0)};
    for (size_t i = 0; i < sizeof near / sizeof near[0] && isfinite(near[i]); i++) {
        check_real(near[i]);
        check_real(-near[i]);
    }
}

static const double special[] = {0,
                                 1,
                                 0.5,
                                 0.1,
                                 1.0 / 3,
                                 123456789,
                                 1234567890,
                                 0.0001,
                                 0.00001,
                                 DBL_MAX,
                                 DBL_MIN,
                                 5e-324,
                                 0.9241418199787566,
                                 -0.0758581800212434,
                                 1e22,
                                 1e23,
                                 5e-10,
                                 0.99999999949999996,
                                 0.9999999995,
                                 999999999.5,
                                 99999999.95,
                                 1e-36,
                                 1e-37};

START_TEST(special_values)
{
    check_near(special[_i]);
}
END_TEST

START_TEST(powers_of_ten_and_two)
{
    for (int e = -308; e <= 308; e++) {
        char text[16];
        snprintf(text, sizeof text, "1e%d", e);
        check_near(strtod(text, NULL));
    }
    for (int e = -1074; e < 1024; e++)
        check_near(ldexp(1, e));
}
END_TEST

/* Halves of the ninth digit: exact ties, and doubles next to what is not one. */
START_TEST(ties)
{
    uint64_t state = 1;
    for (int i = 0; i < 40000; i++) {
        uint64_t digits = next_word(&state) % 900000000 + 100000000;
        int shift = (int)(next_word(&state) % 50);
        check_near((double)digits + 0.5);
        check_near(((double)digits + 0.5) * ldexp(1, -(int)(shift % 4)));
        check_near((double)(digits * 10 + 5) / pow(10, shift));
    }
}
END_TEST

START_TEST(random_probabilities)
{
    uint64_t state = 2;
    for (int i = 0; i < 150000; i++) {
        check_real(next_uniform(&state));
        check_real(exp(-90 * next_uniform(&state)));
        check_real(log(next_uniform(&state) + 0x1p-60));
    }
}
END_TEST

START_TEST(random_bits)
{
    uint64_t state = 3;
    for (int i = 0; i < 150000; i++) {
        uint64_t word = next_word(&state);
        double x;
        memcpy(&x, &word, sizeof x);
        if (isfinite(x))
            check_real(x);
    }
}
END_TEST

START_TEST(what_is_no_number_is_null)
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        char out[NUMBER_MAX_BYTES];
        ck_assert_uint_eq(number_write(out, values[i]), 4);
        ck_assert_mem_eq(out, "null", 4);
    }
}
END_TEST

/* With any locale that has another point, if one is installed. */
START_TEST(the_locale_is_not_looked_at)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    char out[NUMBER_MAX_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        setlocale(LC_ALL, names[i]);
        ck_assert_uint_eq(number_write(out, 1.5e-200), 8);
        ck_assert_mem_eq(out, "1.5e-200", 8);
        ck_assert_uint_eq(number_write(out, 0.25), 4);
        ck_assert_mem_eq(out, "0.25", 4);
    }
    setlocale(LC_ALL, "C");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real");
    TCase *tcase = tcase_create("as printf");
    tcase_set_timeout(tcase, 120); /* under sanitizers */
    tcase_add_loop_test(tcase, special_values, 0, sizeof special / sizeof special[0]);
    tcase_add_test(tcase, powers_of_ten_and_two);
    tcase_add_test(tcase, ties);
    tcase_add_test(tcase, random_probabilities);
    tcase_add_test(tcase, random_bits);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("beyond");
    tcase_add_test(tcase, what_is_no_number_is_null);
    tcase_add_test(tcase, the_locale_is_not_looked_at);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
