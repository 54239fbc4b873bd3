#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "core/pool.h"
#include "server/access.h"
#include "server/buffers.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/shm.h"

/*
 * The HTTP side: routes, bodies in, answers out, over libmicrohttpd's epoll threads.
 */
struct http;

/* What the server works with; all of it outlives the server. */
struct http_options {
    const struct config *config;
    const struct kernels *kernels;
    struct pool *pool;
    struct buffers *buffers;
    struct access *access;
    struct metrics *metrics;
    struct shm *shm; /* NULL: system_shared_memory is off */
    int listen_fd;   /* bound and listening; the server takes ownership */
    int admin_fd;    /* the same for admin_listen, or -1 */
    size_t io_threads;
};

/* Start serving.  Errors: STATUS_NO_MEMORY, STATUS_INTERNAL; the sockets are then closed. */
enum status http_start(const struct http_options *options, struct http **out, struct error *err);

const struct http_options *http_options(const struct http *http);

/*
 * A sampler for work on an I/O thread, to be returned before that thread goes on; NULL when memory is short.
 */
struct sampler *http_borrow_sampler(struct http *http);
void http_return_sampler(struct http *http, struct sampler *sampler);

/* One request more, or one less, is in flight. */
void http_count(struct http *http, int change);

bool http_draining(const struct http *http);

/* From now on /readyz says 503 and answers close their connection. */
void http_drain(struct http *http);

/* Accept what has connected by now, and no more. */
void http_quiesce(struct http *http);

/* Requests begun and not yet answered in full. */
size_t http_in_flight(struct http *http);

/*
 * Hang up on connections that have been idle for quiet_ms.  Returns how many connections are left, which may
 * bring a request yet; when it is 0 none can.
 */
size_t http_hang_up_idle(struct http *http, unsigned quiet_ms);

/* Close every connection and free all.  Every request must have left the pool. */
void http_stop(struct http *http);

#endif
