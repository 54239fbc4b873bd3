#include "core/pool.h"

#include "tests/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MOST_ROWS 1000

/* A job that counts how often each row ran, and can be held while it opens. */
struct counting_job {
    struct pool_job job;
    size_t rows;
    atomic_int ran[MOST_ROWS];
    atomic_int opened, closed;
    atomic_bool *gate; /* open() waits until it is true; may be NULL */
    pthread_mutex_t *mutex;
    pthread_cond_t *changed;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static size_t count_open(struct pool_job *job, struct sampler *sampler)
{
    struct counting_job *c = (struct counting_job *)job;
    ck_assert_ptr_nonnull(sampler->kernels);
    atomic_fetch_add(&c->opened, 1);
    while (c->gate != NULL && !atomic_load(c->gate))
        sched_yield();
    return c->rows;
}

static void count_row(struct pool_job *job, size_t row, struct sampler *sampler)
{
    (void)sampler;
    atomic_fetch_add(&((struct counting_job *)job)->ran[row], 1);
}

static void count_close(struct pool_job *job, struct sampler *sampler)
{
    (void)sampler;
    pthread_mutex_lock(&mutex);
    atomic_fetch_add(&((struct counting_job *)job)->closed, 1);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static struct counting_job *job_of(size_t rows, atomic_bool *gate)
{
    struct counting_job *c = calloc(1, sizeof *c);
    c->job = (struct pool_job){.open = count_open, .row = count_row, .close = count_close};
    c->rows = rows;
    c->gate = gate;
    return c;
}

static void wait_closed(struct counting_job *c)
{
    pthread_mutex_lock(&mutex);
    while (atomic_load(&c->closed) == 0)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static struct pool *pool_of(size_t workers, size_t queue_depth)
{
    struct pool *pool;
    struct error err;
    const char *why;
    ck_assert_int_eq(pool_create(workers, queue_depth, kernels_select("auto", &why), &pool, &err), STATUS_OK);
    return pool;
}

START_TEST(each_row_runs_once)
{
    static const size_t rows[] = {0, 1, 2, 3, 7, 64, MOST_ROWS};
    static const size_t workers[] = {1, 2, 4};
    struct error err;
    for (size_t w = 0; w < 3; w++) {
        struct pool *pool = pool_of(workers[w], 16);
        for (size_t r = 0; r < 7; r++) {
            struct counting_job *c = job_of(rows[r], NULL);
            ck_assert_int_eq(pool_submit(pool, &c->job, &err), STATUS_OK);
            wait_closed(c);
            for (size_t i = 0; i < rows[r]; i++)
                ck_assert_int_eq(atomic_load(&c->ran[i]), 1);
            ck_assert(atomic_load(&c->opened) == 1 && atomic_load(&c->closed) == 1);
            free(c);
        }
        pool_destroy(pool);
    }
}
END_TEST

START_TEST(a_full_queue_refuses_and_recovers)
{
    struct pool *pool = pool_of(1, 2);
    struct error err;
    atomic_bool gate = false;
    struct counting_job *jobs[4];
    for (int i = 0; i < 4; i++)
        jobs[i] = job_of(5, &gate);
    ck_assert_int_eq(pool_submit(pool, &jobs[0]->job, &err), STATUS_OK);
    while (atomic_load(&jobs[0]->opened) == 0)
        sched_yield();
    ck_assert_int_eq(pool_submit(pool, &jobs[1]->job, &err), STATUS_OK);
    ck_assert_int_eq(pool_submit(pool, &jobs[2]->job, &err), STATUS_OK);
    ck_assert_uint_eq(pool_queued(pool), 2);
    ck_assert_int_eq(pool_submit(pool, &jobs[3]->job, &err), STATUS_OVERLOADED);
    ck_assert_ptr_nonnull(strstr(err.message, "queue_depth"));
    atomic_store(&gate, true);
    for (int i = 0; i < 3; i++)
        wait_closed(jobs[i]);
    ck_assert_int_eq(pool_submit(pool, &jobs[3]->job, &err), STATUS_OK);
    wait_closed(jobs[3]);
    pool_destroy(pool);
    for (int i = 0; i < 4; i++)
        free(jobs[i]);
}
END_TEST

/* Out of the front, the middle and the end of the queue; the rest runs as before. */
START_TEST(withdraws_only_what_waits)
{
    struct pool *pool = pool_of(1, 5);
    struct error err;
    atomic_bool gate = false;
    struct counting_job *jobs[7];
    for (int i = 0; i < 7; i++)
        jobs[i] = job_of(3, &gate);
    ck_assert(!pool_withdraw(pool, &jobs[0]->job)); /* never submitted */
    ck_assert_int_eq(pool_submit(pool, &jobs[0]->job, &err), STATUS_OK);
    while (atomic_load(&jobs[0]->opened) == 0)
        sched_yield();
    for (int i = 1; i < 6; i++)
        ck_assert_int_eq(pool_submit(pool, &jobs[i]->job, &err), STATUS_OK);
    ck_assert(!pool_withdraw(pool, &jobs[0]->job)); /* runs */
    for (int i = 1; i < 6; i += 2)
        ck_assert(pool_withdraw(pool, &jobs[i]->job) && !pool_withdraw(pool, &jobs[i]->job));
    ck_assert_uint_eq(pool_queued(pool), 2);
    ck_assert_int_eq(pool_submit(pool, &jobs[6]->job, &err), STATUS_OK); /* there is room again */
    atomic_store(&gate, true);
    for (int i = 0; i < 7; i += 2)
        wait_closed(jobs[i]);
    pool_destroy(pool);
    for (int i = 0; i < 7; i++) {
        ck_assert_int_eq(atomic_load(&jobs[i]->opened), i % 2 == 0);
        free(jobs[i]);
    }
}
END_TEST

static void wait_busy(struct pool *pool, size_t busy)
{
    while (pool_busy(pool) != busy)
        sched_yield();
}

/* Workers at work and jobs that wait; a worker that has closed a job is busy until it waits again. */
START_TEST(tells_how_busy_it_is)
{
    struct pool *pool = pool_of(2, 8);
    struct error err;
    atomic_bool gate = false;
    struct counting_job *jobs[5];
    wait_busy(pool, 0);
    for (size_t i = 0; i < 5; i++) {
        jobs[i] = job_of(1, &gate);
        ck_assert_int_eq(pool_submit(pool, &jobs[i]->job, &err), STATUS_OK);
        wait_busy(pool, i + 1);
    }
    ck_assert(pool_withdraw(pool, &jobs[4]->job));
    ck_assert_uint_eq(pool_busy(pool), 4);
    atomic_store(&gate, true);
    for (size_t i = 0; i < 4; i++)
        wait_closed(jobs[i]);
    wait_busy(pool, 0);
    pool_destroy(pool);
    for (size_t i = 0; i < 5; i++)
        free(jobs[i]);
}
END_TEST

START_TEST(destroy_finishes_what_was_accepted)
{
    struct pool *pool = pool_of(3, 64);
    struct error err;
    struct counting_job *jobs[50];
    for (size_t i = 0; i < 50; i++) {
        jobs[i] = job_of(i % 9, NULL);
        ck_assert_int_eq(pool_submit(pool, &jobs[i]->job, &err), STATUS_OK);
    }
    pool_destroy(pool);
    for (size_t i = 0; i < 50; i++) {
        ck_assert_int_eq(atomic_load(&jobs[i]->closed), 1);
        free(jobs[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, each_row_runs_once);
    tcase_add_test(tcase, a_full_queue_refuses_and_recovers);
    tcase_add_test(tcase, withdraws_only_what_waits);
    tcase_add_test(tcase, tells_how_busy_it_is);
    tcase_add_test(tcase, destroy_finishes_what_was_accepted);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
