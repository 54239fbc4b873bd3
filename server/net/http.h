#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/request/shared.h"

/*
 * The HTTP side: connections in, calls of their requests, over libmicrohttpd's epoll threads.
 */
struct http;

struct http_options {
    struct shared *shared; /* outlives the server */
    const int *listen_fds; /* [num_listen_fds] bound and listening; the server takes ownership of them */
    size_t num_listen_fds;
    int admin_fd; /* the same for admin_listen, or -1 */
    size_t io_threads;
};

/* Start serving.  Errors: STATUS_NO_MEMORY, STATUS_INTERNAL; the sockets are then closed. */
enum status http_start(const struct http_options *options, struct http **out, struct error *err);

/* Accept what has connected by now, and no more. */
void http_quiesce(struct http *http);

/*
 * Hang up on connections that have been idle for quiet_ms.  Returns how many connections are left, which may
 * bring a request yet; when it is 0 none can.
 */
size_t http_hang_up_idle(struct http *http, unsigned quiet_ms);

/* Close every connection and free all.  Every request must have left the pool. */
void http_stop(struct http *http);

#endif
