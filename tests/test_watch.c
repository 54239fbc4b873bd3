#include "server/net/watch.h"

#include "tests/support.h"

#include <stdatomic.h>
#include <unistd.h>

#define COUNT 300

/* An entry that notes when it was called, and in which order. */
struct note {
    struct watch_entry entry;
    uint64_t at_ns;
    atomic_int calls;
    int order;
};

static struct watch *watch;
static struct error err;
static int num_called; /* guarded by the watch's lock */

static void note_call(struct watch_entry *entry)
{
    struct note *note = (struct note *)entry;
    note->at_ns = watch_now_ns();
    note->order = num_called++;
    atomic_fetch_add(&note->calls, 1);
}

static void setup(void)
{
    num_called = 0;
    ck_assert_int_eq(watch_create(&watch, &err), STATUS_OK);
}

static void teardown(void)
{
    watch_destroy(watch);
}

static void add(struct note *note, uint64_t deadline_ns)
{
    *note = (struct note){.entry.expire = note_call};
    watch_lock(watch);
    ck_assert_int_eq(watch_add(watch, &note->entry, &err), STATUS_OK);
    watch_set(watch, &note->entry, deadline_ns);
    watch_unlock(watch);
}

static void set(struct note *note, uint64_t deadline_ns)
{
    watch_lock(watch);
    watch_set(watch, &note->entry, deadline_ns);
    watch_unlock(watch);
}

static void forget(struct note *note)
{
    watch_lock(watch);
    watch_remove(watch, &note->entry);
    watch_unlock(watch);
}

static void await(struct note *note)
{
    while (atomic_load(&note->calls) == 0)
        usleep(1000);
}

/* Deadlines in any order are called in theirs, none early. */
START_TEST(calls_in_the_order_of_time)
{
    static struct note notes[COUNT];
    uint64_t state = 1, begin = watch_now_ns(), deadlines[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        add(&notes[i], WATCH_NEVER);
    watch_lock(watch); /* all at once, so that none is past before the next is set */
    for (size_t i = 0; i < COUNT; i++) {
        deadlines[i] = begin + 20000000 + next_word(&state) % 100 * 1000000 + i;
        watch_set(watch, &notes[i].entry, deadlines[i]);
    }
    watch_unlock(watch);
    for (size_t i = 0; i < COUNT; i++)
        await(&notes[i]);
    for (size_t i = 0; i < COUNT; i++) {
        int earlier = 0;
        for (size_t j = 0; j < COUNT; j++)
            earlier += deadlines[j] < deadlines[i];
        ck_assert_int_eq(notes[i].order, earlier);
        ck_assert_uint_ge(notes[i].at_ns, deadlines[i]);
        ck_assert_int_eq(atomic_load(&notes[i].calls), 1);
        forget(&notes[i]);
    }
}
END_TEST

/* What moved away is not called at the old time; what moved near is called at the new one. */
START_TEST(a_deadline_moves)
{
    struct note later, sooner;
    uint64_t begin = watch_now_ns();
    add(&later, begin + 30000000);
    set(&later, begin + 300000000);
    add(&sooner, begin + 3600000000000);
    set(&sooner, begin + 1000000);
    await(&sooner);
    await(&later);
    ck_assert_uint_ge(later.at_ns, begin + 300000000);
    ck_assert_int_eq(sooner.order, 0);
    set(&later, watch_now_ns()); /* a new deadline is a new call */
    while (atomic_load(&later.calls) < 2)
        usleep(1000);
    ck_assert_int_eq(atomic_load(&sooner.calls), 1);
    forget(&later);
    forget(&sooner);
}
END_TEST

/* Out of any place in the heap; the others are called as before. */
START_TEST(a_removed_entry_is_not_called)
{
    static struct note notes[COUNT];
    uint64_t state = 2, begin = watch_now_ns();
    for (size_t i = 0; i < COUNT; i++)
        add(&notes[i], WATCH_NEVER);
    watch_lock(watch);
    for (size_t i = 0; i < COUNT; i++)
        watch_set(watch, &notes[i].entry, begin + next_word(&state) % 50 * 1000000);
    for (size_t i = 0; i < COUNT; i += 2)
        watch_remove(watch, &notes[i].entry);
    watch_unlock(watch);
    for (size_t i = 1; i < COUNT; i += 2)
        await(&notes[i]);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_int_eq(atomic_load(&notes[i].calls), i % 2);
    for (size_t i = 1; i < COUNT; i += 2)
        forget(&notes[i]);
}
END_TEST

START_TEST(no_timeout_is_never)
{
    ck_assert_uint_eq(watch_in_ms(0), WATCH_NEVER);
    uint64_t now = watch_now_ns();
    ck_assert_uint_ge(watch_in_ms(5000), now + 5000000000);
    ck_assert_uint_lt(watch_in_ms(UINT32_MAX), WATCH_NEVER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch");
    TCase *tcase = tcase_create("watch");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, calls_in_the_order_of_time);
    tcase_add_test(tcase, a_deadline_moves);
    tcase_add_test(tcase, a_removed_entry_is_not_called);
    tcase_add_test(tcase, no_timeout_is_never);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
