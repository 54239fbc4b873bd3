#include "core/base/cpus.h"

#include "tests/support.h"

#include <sched.h>

START_TEST(quota_texts)
{
    ck_assert_uint_eq(cpus_from_quota("max 100000\n"), 0);
    ck_assert_uint_eq(cpus_from_quota("100000 100000\n"), 1);
    ck_assert_uint_eq(cpus_from_quota("150000 100000\n"), 2);
    ck_assert_uint_eq(cpus_from_quota("50000 100000\n"), 1);
    ck_assert_uint_eq(cpus_from_quota("800000 100000\n"), 8);
    ck_assert_uint_eq(cpus_from_quota("-1 100000\n"), 0);
    ck_assert_uint_eq(cpus_from_quota(""), 0);
    ck_assert_uint_eq(cpus_from_quota("100000 0\n"), 0);
}
END_TEST

START_TEST(affinity_is_respected)
{
    cpu_set_t before, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    ck_assert_uint_ge(cpus_usable(), 1);
    ck_assert_uint_le(cpus_usable(), (size_t)CPU_COUNT(&before));
    int first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_uint_eq(cpus_usable(), 1);
    ck_assert_int_eq(sched_setaffinity(0, sizeof before, &before), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpus");
    TCase *tcase = tcase_create("cpus");
    tcase_add_test(tcase, quota_texts);
    tcase_add_test(tcase, affinity_is_respected);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
