#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include "server/config/config.h"
#include "server/net/handshake.h"
#include "server/observe/metrics.h"

#include <microhttpd.h>
#include <stdbool.h>

/*
 * The open connections, each with a deadline for what it is at.
 *
 * Every phase has an end, so that a client that sends or takes one byte now and then holds no memory for
 * ever: when it comes, the socket is shut down, which libmicrohttpd notices and cleans up after.  It has a
 * time limit of its own, which is off: it would close a connection whose next request has just come.
 */
struct conns;
struct conn;

enum conn_phase {
    CONN_IDLE,     /* no request line has come: idle_timeout_ms, then header_timeout_ms if one has begun; when
                      new, header_timeout_ms alone */
    CONN_HEADER,   /* the request line has come: header_timeout_ms */
    CONN_BODY,     /* the header has come: body_timeout_ms */
    CONN_SAMPLING, /* the request has come: conn_set_deadline() */
    CONN_ANSWER,   /* the answer is being sent: body_timeout_ms */
    CONN_GONE      /* nothing is sent any more: a deadline has passed, or conn_end_with() */
};

/* Errors: STATUS_NO_MEMORY, STATUS_INTERNAL. */
enum status conns_create(const struct config *config, struct metrics *metrics, struct conns **out,
                         struct error *err);
void conns_destroy(struct conns *conns); /* every connection must be closed */

/* libmicrohttpd's callback when a connection begins and ends, with the conns as cls. */
void conns_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
                  enum MHD_ConnectionNotificationCode code);

/* One connection more, or less, is on its way to the callback above: it counts as open already. */
void conns_announce(struct conns *conns, int change);

/* Close a socket that was never a connection here and has its answer; while there are few, its client is read
 * to the end first (lingering.h). */
void conns_part_with(struct conns *conns, int fd);

/* How many are open, and how many may be, once that is set. */
size_t conns_count(struct conns *conns);
void conns_set_limit(struct conns *conns, size_t limit);
size_t conns_limit(struct conns *conns);

/* The connection's conn; NULL when there was no memory for it, and its socket is shut down. */
struct conn *conn_of(struct MHD_Connection *connection);

/* How far its TLS handshake has come; on the I/O thread. */
enum handshake *conn_handshake(struct conn *conn);

/* A phase begins, with its deadline.  Returns false when the connection is gone, and stays so. */
bool conn_enter(struct conn *conn, enum conn_phase phase);

/* Whether errors sent in CONN_BODY are {"error":"message"}, as KServe has them.  On the I/O thread. */
void conn_set_kserve(struct conn *conn, bool kserve);

/* Whether it is over after the request under way, which came as it was to be closed.  On the I/O thread. */
bool conn_is_last(const struct conn *conn);

/* When it ends, read on for what its client is sending still: it has its answer, or will have.  On the I/O
 * thread. */
void conn_linger(struct conn *conn);

/*
 * Send a whole answer where libmicrohttpd takes none: before the header has been judged, or in the middle of
 * a body.  Nothing else is sent from then on: the connection is in CONN_GONE, and lingers.  On the I/O
 * thread, in one of libmicrohttpd's callbacks for this connection, in CONN_HEADER or CONN_BODY.
 */
void conn_end_with(struct conn *conn, struct MHD_Connection *connection, const char *text, size_t length);

/*
 * Call `expire` when CONN_SAMPLING still lasts in timeout_ms (0: never).  It is called on a thread of its
 * own, and not while conn_enter() is: what was begun before the phase may be ended after it.
 */
void conn_set_deadline(struct conn *conn, unsigned timeout_ms, void (*expire)(void *argument),
                       void *argument);

/*
 * End connections that have been idle for quiet_ms and on which no request has begun.  Returns how many
 * connections are left; once it has returned 0, later ones are hung up on as they come.
 */
size_t conns_hang_up_idle(struct conns *conns, unsigned quiet_ms);

#endif
