#include "core/base/arena.h"

#include "tests/support.h"

START_TEST(lends_aligned_and_within_bounds)
{
    struct arena arena;
    struct error err;
    ck_assert_int_eq(arena_init(&arena, 1000, &err), STATUS_OK);
    size_t lent = 0;
    for (char *p; (p = arena_alloc(&arena, 1, 100)) != NULL; lent++) {
        ck_assert_uint_eq((uintptr_t)p % ARENA_ALIGNMENT, 0);
        memset(p, 0xff, 100);
    }
    ck_assert_uint_eq(lent, 8); /* 1000 rounds up to 1024, 100 to 128 */
    arena_reset(&arena);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 1024, 1));
    ck_assert_ptr_null(arena_alloc(&arena, 1, 1));
    arena_fini(&arena);
}
END_TEST

START_TEST(mark_and_release_nest)
{
    struct arena arena;
    struct error err;
    ck_assert_int_eq(arena_init(&arena, 4096, &err), STATUS_OK);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 3, 8));
    size_t mark = arena_mark(&arena);
    void *first = arena_alloc(&arena, 5, 100);
    arena_release(&arena, mark);
    ck_assert_ptr_eq(arena_alloc(&arena, 1, 1), first);
    arena_fini(&arena);
}
END_TEST

START_TEST(refuses_what_overflows)
{
    struct arena arena;
    struct error err;
    ck_assert_int_eq(arena_init(&arena, 4096, &err), STATUS_OK);
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX, 1));
    ck_assert_int_eq(arena_reserve(&arena, SIZE_MAX, &err), STATUS_NO_MEMORY);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 4096, 1));
    arena_fini(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = tcase_create("arena");
    tcase_add_test(tcase, lends_aligned_and_within_bounds);
    tcase_add_test(tcase, mark_and_release_nest);
    tcase_add_test(tcase, refuses_what_overflows);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
