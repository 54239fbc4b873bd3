#ifndef SERVER_HANDSHAKE_H
#define SERVER_HANDSHAKE_H

#include "server/observe/metrics.h"

#include <microhttpd.h>
#include <stdbool.h>

/*
 * Why TLS handshakes fail.  libmicrohttpd keeps GnuTLS's error to itself and frees the session before it says
 * that a connection has ended, so how far each one comes is noted as its messages pass.
 */
enum handshake {
    HANDSHAKE_NONE,        /* no message of TLS has come */
    HANDSHAKE_HELLO,       /* the client's first one has */
    HANDSHAKE_ANSWERED,    /* we have shown our certificate */
    HANDSHAKE_CERTIFICATE, /* the client has shown its own, or that it has none */
    HANDSHAKE_DONE         /* or there is no TLS */
};

/* Watch the handshake of a connection that begins; progress outlives it, and changes on its I/O thread. */
void handshake_watch(struct MHD_Connection *connection, enum handshake *progress);

/*
 * Of a connection that ends with an unfinished handshake: count it by its reason and write a warning with the
 * peer, at most one a second; the next line says how many there were besides.  One that sent nothing at all,
 * as a balancer's probe of the port does, is no failure.
 *
 *   fd         its socket, still open
 *   timed_out  it was ended because the handshake did not come
 *
 * Thread-safe.
 */
void handshake_report(enum handshake progress, struct MHD_Connection *connection, int fd, bool timed_out,
                      struct metrics *metrics);

#endif
