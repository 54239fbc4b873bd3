#include "server/request/placement.h"

#include "tests/support.h"

/* What a plain row of 128,256 tokens, weights and all, is taken to cost; and what is little anywhere. */
#define WEIGHTS_ROW_US 33.0
#define SMALL_US       5.0

static const struct {
    struct placement placement;
    bool here; /* whether a row of weights stays */
} rules[] = {
    /* nobody else: one request, or one on each thread */
    {{.cpus = 8, .io_threads = 1, .in_flight = 1, .busy_workers = 0}, true},
    {{.cpus = 8, .io_threads = 4, .in_flight = 4, .busy_workers = 0}, true},
    /* others wait for the thread, and a CPU is free */
    {{.cpus = 8, .io_threads = 1, .in_flight = 2, .busy_workers = 0}, false},
    {{.cpus = 8, .io_threads = 4, .in_flight = 5, .busy_workers = 3}, false},
    /* others wait, but so do they for a CPU: workers are at work, or wait for one */
    {{.cpus = 8, .io_threads = 4, .in_flight = 5, .busy_workers = 4}, true},
    {{.cpus = 8, .io_threads = 4, .in_flight = 64, .busy_workers = 60}, true},
    /* the I/O threads alone take all CPUs */
    {{.cpus = 1, .io_threads = 1, .in_flight = 64, .busy_workers = 0}, true},
    {{.cpus = 2, .io_threads = 2, .in_flight = 3, .busy_workers = 0}, true},
    {{.cpus = 2, .io_threads = 4, .in_flight = 64, .busy_workers = 0}, true},
};

START_TEST(stays_unless_a_handover_pays)
{
    double budget_us = placement_budget_us(&rules[_i].placement);
    ck_assert_msg((WEIGHTS_ROW_US <= budget_us) == rules[_i].here, "rule %d: %f us", _i, budget_us);
    ck_assert_double_ge(budget_us, SMALL_US);
}
END_TEST

/* CPUs and the I/O threads that they get. */
static const size_t io_threads[][2] = {{1, 1}, {2, 2}, {8, 8}, {32, 32}, {64, 64}, {65, 64}, {256, 64}};

START_TEST(each_cpu_has_an_io_thread)
{
    ck_assert_uint_eq(placement_io_threads(io_threads[_i][0]), io_threads[_i][1]);
}
END_TEST

START_TEST(decoding_costs_what_is_read_and_copied)
{
    static char body[4096];
    struct exchange x = {.media = MEDIA_RAW, .length = 4 << 20, .body = {body, sizeof body}};
    ck_assert_double_eq(placement_decode_us(&x), 0.0); /* as it lies there */
    x.media = MEDIA_JSON;
    x.length = 20000; /* some thousand numbers */
    ck_assert(placement_decode_us(&x) > 10.0 && placement_decode_us(&x) < 100.0);
    x.media = MEDIA_NPY;
    ck_assert(placement_decode_us(&x) > 0.0 && placement_decode_us(&x) < 5.0);
    x.media = MEDIA_KSERVE;
    x.header_length = 20000; /* all of it is JSON */
    ck_assert(placement_decode_us(&x) > 10.0 && placement_decode_us(&x) < 100.0);
    x.header_length = 200; /* the rest is tensors */
    ck_assert_double_lt(placement_decode_us(&x), 5.0);
    x.memory = (struct kserve_memory *)(void *)body; /* its inputs may be anywhere, and large */
    ck_assert(isinf(placement_decode_us(&x)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("placement");
    TCase *tcase = tcase_create("placement");
    tcase_add_loop_test(tcase, stays_unless_a_handover_pays, 0, sizeof rules / sizeof rules[0]);
    tcase_add_loop_test(tcase, each_cpu_has_an_io_thread, 0, sizeof io_threads / sizeof io_threads[0]);
    tcase_add_test(tcase, decoding_costs_what_is_read_and_copied);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
