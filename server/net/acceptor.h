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

/*
 *   listen_fds  [count] bound and listening; the acceptor takes ownership of them on STATUS_OK
 *   daemon      has no listening socket, no limit below max_connections, and reports to conns
 *
 * While max_connections are open, the next ones wait to be accepted.
 * Errors: STATUS_NO_MEMORY, STATUS_INTERNAL.
 */
enum status acceptor_create(const int *listen_fds, size_t count, unsigned max_connections,
                            struct MHD_Daemon *daemon, struct conns *conns, struct acceptor **out,
                            struct error *err);

/* Accept what has connected by now, close the sockets and free all. */
void acceptor_destroy(struct acceptor *acceptor);

#endif
