#include "server/net/handshake.h"

#include "server/net/conn.h"
#include "server/net/peer.h"
#include "server/observe/log.h"

#include <gnutls/gnutls.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#define LOG_EVERY_S 1

/* ---- noting how far they come ---- */

/* Which of our connections a session is of: libmicrohttpd has left a pointer to its own in it. */
static enum handshake *progress_of(gnutls_session_t session)
{
    struct MHD_Connection *connection = gnutls_session_get_ptr(session);
    struct conn *conn = conn_of(connection);
    return conn == NULL ? NULL : conn_handshake(conn);
}

/* Of the type gnutls_handshake_hook_func: a message of the handshake comes or goes. */
static int on_message(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                      const gnutls_datum_t *message)
{
    (void)when, (void)message;
    enum handshake *progress = progress_of(session), reached = HANDSHAKE_NONE;
    if (type == GNUTLS_HANDSHAKE_CLIENT_HELLO)
        reached = HANDSHAKE_HELLO;
    else if (type == GNUTLS_HANDSHAKE_CERTIFICATE_PKT)
        reached = incoming ? HANDSHAKE_CERTIFICATE : HANDSHAKE_ANSWERED;
    else if (type == GNUTLS_HANDSHAKE_FINISHED && incoming)
        reached = HANDSHAKE_DONE;
    if (progress != NULL && *progress < reached)
        *progress = reached;
    return 0;
}

void handshake_watch(struct MHD_Connection *connection, enum handshake *progress)
{
    const union MHD_ConnectionInfo *tls =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    *progress = HANDSHAKE_DONE;
    if (tls == NULL || gnutls_session_get_ptr(tls->tls_session) != connection)
        return;
    *progress = HANDSHAKE_NONE;
    gnutls_handshake_set_hook_function(tls->tls_session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_BOTH, on_message);
}

/* ---- telling ---- */

/* "192.0.2.1:5000"; of a unix socket "unix" */
static void name_peer(struct MHD_Connection *connection, char *text, size_t size)
{
    char host[64], port[16];
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *peer = info == NULL ? NULL : info->client_addr;
    socklen_t length = peer != NULL && peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                   : sizeof(struct sockaddr_in);
    bool known =
        peer != NULL && peer->sa_family != AF_UNIX &&
        getnameinfo(peer, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0;
    snprintf(text, size, known ? "%s:%s" : "unix", known ? host : "", known ? port : "");
}

/* NULL when nobody tried. */
static const char *reason_of(enum handshake progress, int fd, bool timed_out)
{
    if (timed_out)
        return "timeout";
    switch (progress) {
    case HANDSHAKE_NONE:
        return peer_received(fd) > 1 ? "not_tls" : NULL; /* the end of its stream counts as one */
    case HANDSHAKE_HELLO:
        return "nothing_in_common";
    case HANDSHAKE_ANSWERED:
        return "refused_by_client";
    default:
        return "client_certificate";
    }
}

static void warn(struct MHD_Connection *connection, const char *reason)
{
    static atomic_llong logged_s;
    static atomic_ulong unlogged;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long last = atomic_load(&logged_s);
    if ((last != 0 && now.tv_sec - last < LOG_EVERY_S) ||
        !atomic_compare_exchange_strong(&logged_s, &last, (long long)now.tv_sec)) {
        atomic_fetch_add(&unlogged, 1);
        return;
    }
    char peer[96];
    name_peer(connection, peer, sizeof peer);
    log_warn("TLS handshake failed", log_text("peer", peer), log_text("reason", reason),
             log_uint("others", atomic_exchange(&unlogged, 0)));
}

void handshake_report(enum handshake progress, struct MHD_Connection *connection, int fd, bool timed_out,
                      struct metrics *metrics)
{
    const char *reason = progress == HANDSHAKE_DONE ? NULL : reason_of(progress, fd, timed_out);
    if (reason == NULL)
        return;
    metrics_add(metrics, METRIC_TLS_FAILURES, metrics_label(LABEL_TLS_REASON, reason), 1);
    warn(connection, reason);
}
