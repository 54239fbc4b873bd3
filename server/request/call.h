#ifndef SERVER_CALL_H
#define SERVER_CALL_H

#include "server/net/conn.h"
#include "server/observe/record.h"
#include "server/request/exchange.h"
#include "server/request/route.h"
#include "server/request/shared.h"

#include <microhttpd.h>

/*
 * One request of a connection, from its headers to the last byte of its answer.
 *
 * libmicrohttpd calls for the headers, for each piece of the body, at its end, and again when a suspended
 * connection resumes; http.c hands these on in that order.  All on the connection's I/O thread.
 */

struct call {
    struct shared *shared;
    struct MHD_Connection *connection;
    struct conn *conn;
    const struct route *route; /* NULL when the path has none */
    size_t route_place;        /* pages_place(route) */
    bool admin;                /* came by admin_listen */
    const char *url;           /* its path; a loan of the connection */
    bool sample;               /* to be sampled, unless refused */
    bool preflight;            /* a browser asks what it may send; see cors.h */
    bool takes_body;           /* that, or its page reads the body */
    bool refused;              /* x.error says why */
    bool close;                /* the connection, after the answer */
    bool submitted;            /* to the pool */
    unsigned timeout_ms;       /* from the whole request to its answer; 0: none */
    size_t swallowed;          /* bytes of a body that nobody needs */
    struct record record;
    struct exchange x;
};

/* Headers have come.  *out is set unless memory is short; the answer may be queued already. */
enum MHD_Result call_begin(struct shared *shared, bool admin, struct MHD_Connection *connection,
                           const char *target, const char *method, const char *version, struct call **out);

/* A piece of the body has come. */
enum MHD_Result call_take(struct call *call, const char *data, size_t *size);

/* The body has ended, or sampling has: submit, or answer. */
enum MHD_Result call_continue(struct call *call);

void call_destroy(struct call *call);

#endif
