#include "server/request/buffers.h"

#include "tests/support.h"

static struct error err;

START_TEST(lends_within_the_budget_and_recovers)
{
    struct buffers *b;
    struct buffer one = {0}, two = {0};
    ck_assert_int_eq(buffers_create(100000, 100000, &b, &err), STATUS_OK);
    ck_assert_int_eq(buffers_take(b, 60000, &one, &err), STATUS_OK);
    ck_assert_uint_ge(one.capacity, 60000);
    ck_assert_uint_eq((uintptr_t)one.data % 64, 0);
    memset(one.data, 1, one.capacity + BUFFERS_PADDING);
    ck_assert_int_eq(buffers_take(b, 60000, &two, &err), STATUS_OVERLOADED);
    ck_assert_ptr_nonnull(strstr(err.message, "max_inflight_bytes"));
    ck_assert_ptr_null(two.data);
    buffers_give(b, &one);
    ck_assert_ptr_null(one.data);
    ck_assert_uint_eq(buffers_in_use(b), 0);
    ck_assert_int_eq(buffers_take(b, 60000, &two, &err), STATUS_OK);
    buffers_give(b, &two);
    buffers_give(b, &two); /* nothing */
    ck_assert_int_eq(buffers_take(b, 100001, &two, &err), STATUS_TOO_LARGE);
    ck_assert_int_eq(buffers_take(b, SIZE_MAX, &two, &err), STATUS_TOO_LARGE);
    ck_assert_int_eq(buffers_take(b, 100000, &two, &err), STATUS_OK);
    buffers_give(b, &two);
    buffers_destroy(b);
}
END_TEST

START_TEST(recycles_a_block)
{
    struct buffers *b;
    struct buffer one = {0};
    ck_assert_int_eq(buffers_create(1u << 30, 1u << 20, &b, &err), STATUS_OK);
    ck_assert_int_eq(buffers_take(b, 500000, &one, &err), STATUS_OK);
    char *first = one.data;
    buffers_give(b, &one);
    ck_assert_int_eq(buffers_take(b, 400000, &one, &err), STATUS_OK);
    ck_assert_ptr_eq(one.data, first);
    buffers_give(b, &one);
    buffers_destroy(b);
}
END_TEST

START_TEST(grows_with_its_bytes)
{
    struct buffers *b;
    struct buffer one = {0};
    ck_assert_int_eq(buffers_create(1u << 20, 0, &b, &err), STATUS_OK);
    ck_assert_int_eq(buffers_grow(b, 10, 0, &one, &err), STATUS_OK);
    strcpy(one.data, "abc");
    ck_assert_int_eq(buffers_grow(b, 300000, 4, &one, &err), STATUS_OK);
    ck_assert_str_eq(one.data, "abc");
    ck_assert_int_eq(buffers_grow(b, 1u << 20, 4, &one, &err), STATUS_OVERLOADED);
    ck_assert_str_eq(one.data, "abc");
    buffers_give(b, &one);
    buffers_destroy(b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buffers");
    TCase *tcase = tcase_create("buffers");
    tcase_add_test(tcase, lends_within_the_budget_and_recovers);
    tcase_add_test(tcase, recycles_a_block);
    tcase_add_test(tcase, grows_with_its_bytes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
