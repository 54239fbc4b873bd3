#include "core/pool.h"

#include "core/base/thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A list of jobs, first come first. */
struct job_list {
    struct pool_job *first, *last;
};

struct worker {
    pthread_t thread;
    struct pool *pool;
    struct sampler sampler;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;     /* a job came, or rows, or the end */
    struct job_list waiting; /* guarded by mutex: not opened yet */
    struct job_list open;    /* guarded by mutex: opened, with rows that nobody took */
    size_t num_waiting;      /* guarded by mutex; <= queue_depth */
    size_t num_idle;         /* guarded by mutex: workers that wait for work */
    bool stopping;           /* guarded by mutex */
    size_t queue_depth;
    size_t num_workers;
    struct worker *workers; /* [num_workers] */
};

static void list_push(struct job_list *list, struct pool_job *job)
{
    job->next = NULL;
    job->previous = list->last;
    if (list->last == NULL)
        list->first = job;
    else
        list->last->next = job;
    list->last = job;
}

static void list_remove(struct job_list *list, struct pool_job *job)
{
    if (job->previous == NULL)
        list->first = job->next;
    else
        job->previous->next = job->next;
    if (job->next == NULL)
        list->last = job->previous;
    else
        job->next->previous = job->previous;
}

static void take_from_queue(struct pool *pool, struct pool_job *job)
{
    list_remove(&pool->waiting, job);
    job->waiting = false;
    pool->num_waiting--;
}

/* Rows to take at once: one while they are few, more when the lock would cost as much as the rows. */
static size_t share_of(const struct pool_job *job, size_t num_workers)
{
    size_t share = (job->rows - job->next_row) / (8 * num_workers);
    return share > 0 ? share : 1;
}

/* Take rows of an open job, run them, and close it when they were the last.  Called and left with the mutex
 * held. */
static void run_rows(struct worker *w, struct pool_job *job)
{
    struct pool *pool = w->pool;
    size_t first = job->next_row, share = share_of(job, pool->num_workers);
    job->next_row += share;
    if (job->next_row == job->rows)
        list_remove(&pool->open, job);
    pthread_mutex_unlock(&pool->mutex);

    for (size_t row = first; row < first + share; row++)
        job->row(job, row, &w->sampler);

    pthread_mutex_lock(&pool->mutex);
    job->rows_done += share;
    if (job->rows_done == job->rows) {
        pthread_mutex_unlock(&pool->mutex);
        job->close(job, &w->sampler);
        pthread_mutex_lock(&pool->mutex);
    }
}

/* Open the next job.  A single row is run where it stands; more are offered to all.  Mutex as in run_rows().
 */
static void open_job(struct worker *w)
{
    struct pool *pool = w->pool;
    struct pool_job *job = pool->waiting.first;
    take_from_queue(pool, job);
    pthread_mutex_unlock(&pool->mutex);

    size_t rows = job->open(job, &w->sampler);
    if (rows <= 1) {
        if (rows == 1)
            job->row(job, 0, &w->sampler);
        job->close(job, &w->sampler);
        pthread_mutex_lock(&pool->mutex);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    job->rows = rows;
    job->next_row = job->rows_done = 0;
    list_push(&pool->open, job);
    pthread_cond_broadcast(&pool->work);
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    struct pool *pool = w->pool;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        if (pool->open.first != NULL)
            run_rows(w, pool->open.first);
        else if (pool->waiting.first != NULL)
            open_job(w);
        else if (pool->stopping)
            break;
        else {
            pool->num_idle++;
            pthread_cond_wait(&pool->work, &pool->mutex);
            pool->num_idle--;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static enum status start_worker(struct pool *pool, const struct kernels *kernels, struct error *err)
{
    struct worker *w = &pool->workers[pool->num_workers];
    w->pool = pool;
    if (sampler_init(&w->sampler, kernels, err) != STATUS_OK)
        return err->status;
    int failed = thread_start(&w->thread, worker_main, w);
    if (failed != 0) {
        sampler_fini(&w->sampler);
        return error_set(err, STATUS_INTERNAL, "no_thread", "cannot start worker %zu: %s", pool->num_workers,
                         strerror(failed));
    }
    pool->num_workers++;
    return STATUS_OK;
}

enum status pool_create(size_t workers, size_t queue_depth, const struct kernels *kernels, struct pool **out,
                        struct error *err)
{
    assert(workers >= 1 && queue_depth >= 1);
    struct pool *pool = calloc(1, sizeof *pool);
    struct worker *array = calloc(workers, sizeof *array);
    if (pool == NULL || array == NULL) {
        free(pool);
        free(array);
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate a pool of %zu workers",
                         workers);
    }
    pool->workers = array;
    pool->queue_depth = queue_depth;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    for (size_t i = 0; i < workers; i++) {
        pthread_mutex_lock(&pool->mutex); /* num_workers is read by the workers that run already */
        enum status status = start_worker(pool, kernels, err);
        pthread_mutex_unlock(&pool->mutex);
        if (status != STATUS_OK) {
            pool_destroy(pool);
            return status;
        }
    }
    *out = pool;
    return STATUS_OK;
}

void pool_destroy(struct pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->num_workers; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        sampler_fini(&pool->workers[i].sampler);
    }
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->workers);
    free(pool);
}

enum status pool_submit(struct pool *pool, struct pool_job *job, struct error *err)
{
    pthread_mutex_lock(&pool->mutex);
    bool full = pool->num_waiting == pool->queue_depth;
    if (!full) {
        pool->num_waiting++;
        job->waiting = true;
        list_push(&pool->waiting, job);
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
    if (full)
        return error_set(err, STATUS_OVERLOADED, "queue_full",
                         "%zu requests wait for a worker already, which is queue_depth; try again",
                         pool->queue_depth);
    return STATUS_OK;
}

bool pool_withdraw(struct pool *pool, struct pool_job *job)
{
    pthread_mutex_lock(&pool->mutex);
    bool waiting = job->waiting;
    if (waiting)
        take_from_queue(pool, job);
    pthread_mutex_unlock(&pool->mutex);
    return waiting;
}

size_t pool_busy(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    size_t busy = pool->num_workers - pool->num_idle + pool->num_waiting;
    pthread_mutex_unlock(&pool->mutex);
    return busy;
}

size_t pool_queued(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    size_t queued = pool->num_waiting;
    pthread_mutex_unlock(&pool->mutex);
    return queued;
}
