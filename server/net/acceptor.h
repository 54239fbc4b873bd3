#ifndef SERVER_ACCEPTOR_H
#define SERVER_ACCEPTOR_H

#include "server/net/conn.h"

/*
 * A thread that accepts connections, of one or several listening sockets in turn, and hands them to
 * libmicrohttpd's.
 *
 * libmicrohttpd could accept them itself, but not stop: MHD_quiesce_daemon() of 0.9.75 changes the epoll sets
 * of its threads behind their backs, which both then take for a fatal error and abort (seen once in sixty
 * stops under load).
 */
struct acceptor;

struct acceptor_options {
    const int *listen_fds; /* [count] bound and listening; the acceptor's own on STATUS_OK */
    size_t count;
    unsigned max_connections;
    bool tls;                  /* who is refused would not understand a word */
    struct MHD_Daemon *daemon; /* has no listening socket, no limit below this, and reports to conns */
    struct conns *conns;
    struct metrics *metrics; /* counts METRIC_CONNECTIONS_REFUSED */
};

/*
 * While max_connections are open, the next ones wait to be accepted; once there was no room for
 * ACCEPTOR_PATIENCE_MS they are refused with a 503, until there is some.  The log says so once a minute at
 * most. Errors: STATUS_NO_MEMORY, STATUS_INTERNAL.
 */
#define ACCEPTOR_PATIENCE_MS 2000
enum status acceptor_create(const struct acceptor_options *options, struct acceptor **out, struct error *err);

/* Accept what has connected by now, close the sockets and free all. */
void acceptor_destroy(struct acceptor *acceptor);

#endif
