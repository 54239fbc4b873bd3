#ifndef SERVER_SHARED_H
#define SERVER_SHARED_H

#include "core/pool.h"
#include "server/config/config.h"
#include "server/net/conn.h"
#include "server/observe/metrics.h"
#include "server/request/access.h"
#include "server/request/buffers.h"
#include "server/shm/shm.h"

/*
 * What every request of the server works with.  All functions are thread-safe.
 */
struct shared;

/* Made before it, destroyed after it. */
struct shared_parts {
    const struct config *config;
    const struct kernels *kernels;
    struct pool *pool;
    struct buffers *buffers;
    struct access *access;
    struct metrics *metrics;
    struct conns *conns;     /* at the addresses of listen */
    struct shm *shm;         /* NULL: system_shared_memory is off */
    size_t cpus, io_threads; /* usable; serving */
};

/* Errors: STATUS_NO_MEMORY. */
enum status shared_create(const struct shared_parts *parts, struct shared **out, struct error *err);
void shared_destroy(struct shared *shared); /* no request may be left */

const struct shared_parts *shared_parts(const struct shared *shared);

/*
 * A sampler for work on an I/O thread, to be returned before that thread goes on; NULL when memory is short.
 */
struct sampler *shared_borrow_sampler(struct shared *shared);
void shared_return_sampler(struct shared *shared, struct sampler *sampler);

/* One request more, or one less, is in flight: begun and not yet answered in full. */
void shared_count(struct shared *shared, int change);
size_t shared_in_flight(struct shared *shared);

/* From now on /readyz says 503 and answers close their connection. */
void shared_drain(struct shared *shared);
bool shared_draining(const struct shared *shared);

#endif
