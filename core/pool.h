#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "core/sampler.h"

#include <stdbool.h>

/*
 * Worker threads behind one bounded queue.
 *
 * A job is opened by one worker, which says how many rows it has; its rows are then run by every worker that
 * has nothing else to begin with, in no order; the last one closes it.  Jobs begin in the order in which they
 * came.
 */
struct pool;

/*
 * What a job does; embed it in the request's own struct.  The calls run on workers, open before any row and
 * close after the last; rows of one job run at the same time on several.
 */
struct pool_job {
    size_t (*open)(struct pool_job *job, struct sampler *sampler); /* returns the number of rows; 0 is fine */
    void (*row)(struct pool_job *job, size_t row, struct sampler *sampler);
    void (*close)(struct pool_job *job, struct sampler *sampler); /* may free the job */

    /* the pool's own; guarded by its mutex */
    size_t rows, next_row, rows_done;
    bool waiting; /* in the queue; false before pool_submit() */
    struct pool_job *previous, *next;
};

/*
 * Start `workers` threads (>= 1), each with a sampler of its own; queue_depth (>= 1) jobs may wait.
 * Errors: STATUS_NO_MEMORY, STATUS_INTERNAL when a thread cannot be started; nothing is left behind.
 */
enum status pool_create(size_t workers, size_t queue_depth, const struct kernels *kernels, struct pool **out,
                        struct error *err);

/* Finish every job that was accepted, stop the workers and free all.  Nobody may submit any more. */
void pool_destroy(struct pool *pool);

/*
 * Hand a job over; it stays the caller's memory until close.  Thread-safe.
 * Errors: STATUS_OVERLOADED when queue_depth jobs wait already; the job is untouched.
 */
enum status pool_submit(struct pool *pool, struct pool_job *job, struct error *err);

/*
 * Take a job that no worker has opened out of the queue: none of its calls will come, and it is the caller's
 * again.  Returns false, and changes nothing, when it was opened already or never submitted.  Thread-safe,
 * as long as the job's memory is there.
 */
bool pool_withdraw(struct pool *pool, struct pool_job *job);

/* Workers that are at work, and jobs that wait to be opened: how many more could do with a worker. */
size_t pool_busy(struct pool *pool);

/* Jobs that wait to be opened. */
size_t pool_queued(struct pool *pool);

#endif
