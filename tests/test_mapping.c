#include "server/shm/mapping.h"

#include "core/base/thread.h"
#include "tests/support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static long page;
static int object;
static struct error err;

/* Four pages of ones, which are named by nobody. */
static void setup(void)
{
    page = sysconf(_SC_PAGESIZE);
    object = memfd_create("test", 0);
    ck_assert_int_ge(object, 0);
    ck_assert_int_eq(ftruncate(object, 4 * page), 0);
    void *pages = mmap(NULL, 4 * (size_t)page, PROT_WRITE, MAP_SHARED, object, 0);
    memset(pages, 1, 4 * (size_t)page);
    munmap(pages, 4 * (size_t)page);
}

static void teardown(void)
{
    close(object);
}

static struct mapping *map(size_t offset, size_t bytes)
{
    struct mapping *mapping;
    ck_assert_int_eq(mapping_create(dup(object), offset, bytes, true, &mapping, &err), STATUS_OK);
    return mapping;
}

static size_t count_ones(const struct mapping *mapping, size_t bytes)
{
    const volatile unsigned char *data = mapping_data(mapping);
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += data[i];
    return count;
}

START_TEST(any_bytes_can_be_mapped)
{
    for (size_t offset = 0; offset <= 2 * (size_t)page; offset += (size_t)page / 2 - 1) {
        struct mapping *mapping = map(offset, (size_t)page);
        ck_assert_uint_eq(count_ones(mapping, (size_t)page), (size_t)page);
        *((unsigned char *)mapping_data(mapping) + 5) = 0;
        unsigned char byte = 9;
        ck_assert_int_eq(pread(object, &byte, 1, (off_t)offset + 5), 1);
        ck_assert_uint_eq(byte, 0);
        *((unsigned char *)mapping_data(mapping) + 5) = 1;
        ck_assert(mapping_check(mapping));
        mapping_destroy(mapping);
    }
}
END_TEST

/* Of an object that was cut to so many bytes: what is there is ones, and it is told that something is not. */
START_TEST(a_missing_page_is_told)
{
    const long lengths[] = {0, 1, page - 1, page, page + 1, 4 * page - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t bytes = 4 * (size_t)page;
        setup();
        struct mapping *mapping = map(0, bytes), *other = map(0, 1);
        ck_assert_int_eq(ftruncate(object, lengths[i]), 0);
        ck_assert_uint_le(count_ones(mapping, bytes), (size_t)lengths[i]);
        memset(mapping_data(mapping), 1, bytes);
        ck_assert(!mapping_check(mapping));
        ck_assert(mapping_check(other) == (lengths[i] > 0));
        mapping_destroy(mapping);
        mapping_destroy(other);
        close(object);
    }
    setup();
}
END_TEST

/* Once torn it stays so, whatever becomes of the object; one that only became too small can grow again. */
START_TEST(torn_is_for_ever)
{
    struct mapping *touched = map(0, 4 * (size_t)page), *untouched = map(0, 4 * (size_t)page);
    ck_assert_int_eq(ftruncate(object, 0), 0);
    ck_assert_uint_eq(count_ones(touched, 1), 0);
    ck_assert(!mapping_check(touched) && !mapping_check(untouched));
    ck_assert_int_eq(ftruncate(object, 4 * page), 0);
    ck_assert(!mapping_check(touched) && mapping_check(untouched));
    mapping_destroy(touched);
    mapping_destroy(untouched);
}
END_TEST

/* Each of them has a file descriptor, of which the test may have too few otherwise. */
START_TEST(mappings_are_few)
{
    static struct mapping *mappings[MAPPING_MOST];
    struct mapping *more;
    struct rlimit files;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < MAPPING_MOST + 64)
        return; /* this machine cannot have as many */
    for (size_t i = 0; i < MAPPING_MOST; i++)
        mappings[i] = map(i, 1);
    ck_assert_int_eq(mapping_create(dup(object), 0, 1, true, &more, &err), STATUS_OVERLOADED);
    mapping_destroy(mappings[7]);
    mappings[7] = map(0, 1);
    for (size_t i = 0; i < MAPPING_MOST; i++)
        mapping_destroy(mappings[i]);
}
END_TEST

START_TEST(what_cannot_be_mapped_is_refused)
{
    int pipes[2];
    struct mapping *mapping;
    ck_assert_int_eq(pipe(pipes), 0);
    ck_assert_int_eq(mapping_create(pipes[0], 0, 1, false, &mapping, &err), STATUS_INVALID);
    ck_assert_int_eq(close(pipes[0]), -1); /* it was closed */
    close(pipes[1]);
}
END_TEST

static void *touch(void *argument)
{
    count_ones(argument, 4 * (size_t)page);
    return NULL;
}

START_TEST(threads_may_meet_a_missing_page)
{
    for (int round = 0; round < 50; round++) {
        pthread_t threads[4];
        ck_assert_int_eq(ftruncate(object, 4 * page), 0);
        struct mapping *mapping = map(0, 4 * (size_t)page);
        for (size_t i = 0; i < 4; i++)
            ck_assert_int_eq(thread_start(&threads[i], touch, mapping), 0);
        ck_assert_int_eq(ftruncate(object, round % 4 * page), 0);
        for (size_t i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        ck_assert(!mapping_check(mapping));
        mapping_destroy(mapping);
    }
}
END_TEST

/* The handler is for mappings alone: here it ends the process as if there were none. */
START_TEST(any_other_bus_error_ends_the_process)
{
    mapping_destroy(map(0, 1));
    volatile unsigned char *pages = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, object, 0);
    ck_assert_int_eq(ftruncate(object, 0), 0);
    ck_assert_uint_eq(pages[0], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mapping");
    TCase *tcase = tcase_create("mappings");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, any_bytes_can_be_mapped);
    tcase_add_test(tcase, a_missing_page_is_told);
    tcase_add_test(tcase, torn_is_for_ever);
    tcase_add_test(tcase, mappings_are_few);
    tcase_add_test(tcase, what_cannot_be_mapped_is_refused);
    tcase_add_test(tcase, threads_may_meet_a_missing_page);
    tcase_add_test_raise_signal(tcase, any_other_bus_error_ends_the_process, SIGBUS);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
