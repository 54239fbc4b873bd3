#include "server/net/conn.h"

#include "server/net/lingering.h"
#include "server/net/peer.h"
#include "server/net/refusal.h"
#include "server/net/watch.h"
#include "server/observe/log.h"

#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANNOUNCED_NS UINT64_C(5000000000)
#define SWEEP_MS     500
#define SETTLED_MS   200 /* what was read may still be on its way through libmicrohttpd */
#define SETTLED_NS   (SETTLED_MS * UINT64_C(1000000))

struct conn {
    struct watch_entry entry; /* first, so that one is the other */
    struct conns *conns;
    int fd;     /* open as long as the conn is in the list */
    bool plain; /* no TLS: what is sent here is what the client reads */
    atomic_bool dismissed;
    enum handshake handshake; /* of its I/O thread */

    /* guarded by the watch's lock */
    enum conn_phase phase;
    uint64_t since_ns;             /* of the phase */
    bool begun;                    /* in CONN_IDLE: the deadline is that of a header */
    uint64_t counted_ns, received; /* peer_received() of the CONN_IDLE that began at counted_ns */
    bool timed_out;                /* ended by expire() */
    bool kserve;                   /* the request in CONN_BODY is one of KServe */
    bool lingers;                  /* its client may be sending when it ends */
    void (*expire)(void *argument);
    void *argument;
    struct conn *previous, *next;
};

struct conns {
    struct watch_entry sweep; /* first, so that one is the other */
    struct metrics *metrics;  /* counts handshakes that fail */
    struct watch *watch;
    struct lingering *lingering;        /* what is left of connections that have ended */
    unsigned timeout_ms[CONN_GONE + 1]; /* by phase; 0: none */

    /* guarded by the watch's lock */
    struct conn *first;
    size_t count;
    size_t limit;
    size_t announced;
    uint64_t announced_ns; /* the last of them */
    bool closing;          /* none was left at the last look */
    bool closed;           /* and at the one before */
};

/* ---- expiry ---- */

static const char *const phase_names[] = {"idle", "header", "body", "sampling", "answer", "gone"};

/*
 * An answer where libmicrohttpd can give none: before the header is complete there is nothing to answer, and
 * in the middle of a body it does not ask.  No byte of an answer has been sent in these phases, and none can
 * be once the phase is CONN_GONE, so this text stands alone.
 */
static void say_timeout(const struct conn *conn)
{
    struct error err;
    char text[REFUSAL_BYTES];
    bool in_body = conn->phase == CONN_BODY;
    error_set(&err, STATUS_TIMEOUT, "timeout", "the %s did not come in %u ms, which is %s",
              in_body ? "body" : "header", conn->conns->timeout_ms[in_body ? CONN_BODY : CONN_HEADER],
              in_body ? "body_timeout_ms" : "header_timeout_ms");
    size_t length = refusal_write(&err, MHD_HTTP_REQUEST_TIMEOUT, in_body && conn->kserve, text);
    (void)!send(conn->fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void hang_up(struct conn *conn)
{
    conn->phase = CONN_GONE;
    watch_set(conn->conns->watch, &conn->entry, WATCH_NEVER);
    shutdown(conn->fd, SHUT_RDWR);
}

/*
 * Whether something of a request has come on an idle connection, be it unread or, since the last sweep,
 * in libmicrohttpd's hands.
 */
static bool has_begun(const struct conn *conn)
{
    return peer_unread(conn->fd) > 0 ||
           (conn->counted_ns == conn->since_ns && peer_received(conn->fd) != conn->received);
}

/*
 * End an idle connection.  A request may come at this very moment, so it is libmicrohttpd that decides: it
 * reads what has come, and closes only where it finds the end instead; the way back stays open until then.
 */
static void dismiss(struct conn *conn)
{
    if (atomic_exchange(&conn->dismissed, true))
        return;
    shutdown(conn->fd, SHUT_RD);
    watch_set(conn->conns->watch, &conn->entry, watch_in_ms(SETTLED_MS));
}

/* It has been idle for long enough, unless it is not. */
static void end_idle(struct conn *conn)
{
    if (!has_begun(conn))
        dismiss(conn);
    else if (!conn->begun) {
        conn->begun = true;
        watch_set(conn->conns->watch, &conn->entry, watch_in_ms(conn->conns->timeout_ms[CONN_HEADER]));
    }
}

/* On the watch's thread, with its lock held. */
static void expire(struct watch_entry *entry)
{
    struct conn *conn = (struct conn *)entry;
    /* to the kernel, too, an answer that nobody reads is memory: it goes when the socket is closed */
    static const struct linger at_once = {1, 0};
    if (conn->phase == CONN_SAMPLING) {
        conn->expire(conn->argument);
        return;
    }
    bool dismissed = atomic_load(&conn->dismissed);
    if (conn->phase == CONN_IDLE && !conn->begun && !dismissed) {
        end_idle(conn);
        return;
    }
    conn->timed_out = true;
    log_event(LOG_DEBUG, "connection timed out", log_text("phase", phase_names[conn->phase]));
    if (conn->phase == CONN_ANSWER || conn->phase == CONN_GONE)
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    else if (conn->plain && !dismissed)
        say_timeout(conn);
    hang_up(conn);
}

/*
 * A client that closes together with its last bytes is not noticed by libmicrohttpd 0.9.75: the edge of its
 * epoll came with the bytes.  Where a client owes us bytes that cannot come any more, the connection is over.
 */
static void look_at(struct conn *conn)
{
    if (atomic_load(&conn->dismissed))
        return; /* by us, and libmicrohttpd knows */
    if (peer_has_left(conn->fd))
        hang_up(conn);
    else if (conn->phase == CONN_IDLE && conn->counted_ns != conn->since_ns) {
        conn->counted_ns = conn->since_ns;
        conn->received = peer_received(conn->fd);
    }
}

static bool owes_bytes(const struct conn *conn)
{
    return conn->phase == CONN_IDLE || conn->phase == CONN_HEADER || conn->phase == CONN_BODY;
}

/* On the watch's thread, with its lock held. */
static void sweep(struct watch_entry *entry)
{
    struct conns *conns = (struct conns *)entry;
    uint64_t now_ns = watch_now_ns();
    for (struct conn *conn = conns->first; conn != NULL; conn = conn->next)
        if (owes_bytes(conn) && now_ns > conn->since_ns + SETTLED_NS)
            look_at(conn);
    watch_set(conns->watch, entry, watch_in_ms(SWEEP_MS));
}

/* ---- phases ---- */

bool conn_enter(struct conn *conn, enum conn_phase phase)
{
    struct watch *watch = conn->conns->watch;
    uint64_t now_ns = watch_now_ns();
    unsigned timeout_ms = conn->conns->timeout_ms[phase];
    watch_lock(watch);
    bool alive = conn->phase != CONN_GONE;
    if (alive) {
        conn->phase = phase;
        conn->since_ns = now_ns;
        conn->begun = false;
        watch_set(watch, &conn->entry,
                  timeout_ms == 0 ? WATCH_NEVER : now_ns + (uint64_t)timeout_ms * 1000000);
    }
    watch_unlock(watch);
    return alive;
}

void conn_set_kserve(struct conn *conn, bool kserve)
{
    if (conn->kserve == kserve) /* nobody else writes it */
        return;
    watch_lock(conn->conns->watch);
    conn->kserve = kserve;
    watch_unlock(conn->conns->watch);
}

bool conn_is_last(const struct conn *conn)
{
    return atomic_load_explicit(&conn->dismissed, memory_order_relaxed);
}

void conn_linger(struct conn *conn)
{
    watch_lock(conn->conns->watch);
    conn->lingers = true;
    watch_unlock(conn->conns->watch);
}

/* From here on nobody else sends; libmicrohttpd notices soon, or is told. */
static bool take_over(struct conn *conn)
{
    watch_lock(conn->conns->watch);
    bool alive = conn->phase != CONN_GONE;
    conn->phase = CONN_GONE;
    conn->lingers = alive;
    watch_set(conn->conns->watch, &conn->entry,
              alive ? watch_in_ms(conn->conns->timeout_ms[CONN_HEADER]) : WATCH_NEVER);
    watch_unlock(conn->conns->watch);
    return alive;
}

void conn_end_with(struct conn *conn, struct MHD_Connection *connection, const char *text, size_t length)
{
    const union MHD_ConnectionInfo *tls =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!take_over(conn))
        return;
    if (tls == NULL)
        (void)!send(conn->fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    else if (gnutls_record_send(tls->tls_session, text, length) > 0)
        gnutls_bye(tls->tls_session, GNUTLS_SHUT_WR);
    shutdown(conn->fd, SHUT_WR);
}

void conn_set_deadline(struct conn *conn, unsigned timeout_ms, void (*expire_call)(void *argument),
                       void *argument)
{
    struct watch *watch = conn->conns->watch;
    uint64_t deadline_ns = watch_in_ms(timeout_ms);
    watch_lock(watch);
    conn->expire = expire_call;
    conn->argument = argument;
    if (conn->phase == CONN_SAMPLING)
        watch_set(watch, &conn->entry, deadline_ns);
    watch_unlock(watch);
}

/* ---- the list ---- */

struct conn *conn_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

enum handshake *conn_handshake(struct conn *conn)
{
    return &conn->handshake;
}

void conns_announce(struct conns *conns, int change)
{
    uint64_t now_ns = watch_now_ns();
    watch_lock(conns->watch);
    if (change > 0 || conns->announced > 0)
        conns->announced += (size_t)change;
    conns->announced_ns = now_ns;
    watch_unlock(conns->watch);
}

/* When memory is short, libmicrohttpd drops a connection before it calls back: none is long on its way. */
static size_t count_all(struct conns *conns)
{
    if (conns->announced > 0 && watch_now_ns() > conns->announced_ns + ANNOUNCED_NS)
        conns->announced = 0;
    return conns->count + conns->announced + lingering_count(conns->lingering);
}

size_t conns_count(struct conns *conns)
{
    watch_lock(conns->watch);
    size_t count = count_all(conns);
    watch_unlock(conns->watch);
    return count;
}

#define MAX_PARTING 16 /* at once: a descriptor each, beyond the limit of connections */

void conns_part_with(struct conns *conns, int fd)
{
    if (lingering_count(conns->lingering) < MAX_PARTING)
        lingering_take(conns->lingering, fd);
    close(fd);
}

void conns_set_limit(struct conns *conns, size_t limit)
{
    watch_lock(conns->watch);
    conns->limit = limit;
    watch_unlock(conns->watch);
}

size_t conns_limit(struct conns *conns)
{
    watch_lock(conns->watch);
    size_t limit = conns->limit;
    watch_unlock(conns->watch);
    return limit;
}

static void begin(struct conns *conns, struct MHD_Connection *connection, void **socket_context)
{
    struct error err;
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct conn *conn = calloc(1, sizeof *conn);
    watch_lock(conns->watch);
    if (conns->announced > 0)
        conns->announced--;
    if (conn == NULL || conns->closed || watch_add(conns->watch, &conn->entry, &err) != STATUS_OK) {
        watch_unlock(conns->watch);
        free(conn);
        shutdown(fd, SHUT_RDWR);
        return;
    }
    conn->conns = conns;
    conn->entry.expire = expire;
    conn->fd = fd;
    conn->plain = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) == NULL;
    conn->since_ns = watch_now_ns();
    conn->begun = true;
    conn->counted_ns = conn->plain ? conn->since_ns : 0; /* of TLS, when hands have been shaken */
    watch_set(conns->watch, &conn->entry, watch_in_ms(conns->timeout_ms[CONN_HEADER]));
    conn->next = conns->first;
    if (conn->next != NULL)
        conn->next->previous = conn;
    conns->first = conn;
    conns->count++;
    watch_unlock(conns->watch);
    *socket_context = conn;
    handshake_watch(connection, &conn->handshake);
}

static void end(struct conns *conns, struct MHD_Connection *connection, struct conn *conn)
{
    watch_lock(conns->watch);
    bool timed_out = conn->timed_out;
    watch_remove(conns->watch, &conn->entry);
    if (conn->lingers)
        lingering_take(conns->lingering, conn->fd);
    if (conn->previous == NULL)
        conns->first = conn->next;
    else
        conn->previous->next = conn->next;
    if (conn->next != NULL)
        conn->next->previous = conn->previous;
    conns->count--;
    watch_unlock(conns->watch);
    if (conn->handshake != HANDSHAKE_DONE)
        handshake_report(conn->handshake, connection, conn->fd, timed_out, conns->metrics);
    free(conn);
}

/* The socket is still open when a connection ends, so a number in the list is never another's. */
void conns_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
                  enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        begin(cls, connection, socket_context);
    else if (*socket_context != NULL)
        end(cls, connection, *socket_context);
}

size_t conns_hang_up_idle(struct conns *conns, unsigned quiet_ms)
{
    uint64_t now_ns = watch_now_ns();
    watch_lock(conns->watch);
    for (struct conn *conn = conns->first; conn != NULL; conn = conn->next)
        if (conn->phase == CONN_IDLE && now_ns >= conn->since_ns + (uint64_t)quiet_ms * 1000000)
            end_idle(conn);
    size_t left = count_all(conns);
    conns->closed = left == 0 && conns->closing;
    conns->closing = left == 0;
    bool done = conns->closed;
    watch_unlock(conns->watch);
    return done ? 0 : left > 0 ? left : 1; /* one more look, for what was accepted and is not here yet */
}

static enum status start_sweep(struct conns *conns, struct error *err)
{
    conns->sweep.expire = sweep;
    watch_lock(conns->watch);
    enum status status = watch_add(conns->watch, &conns->sweep, err);
    if (status == STATUS_OK)
        watch_set(conns->watch, &conns->sweep, watch_in_ms(SWEEP_MS));
    watch_unlock(conns->watch);
    return status;
}

enum status conns_create(const struct config *config, struct metrics *metrics, struct conns **out,
                         struct error *err)
{
    struct conns *conns = calloc(1, sizeof *conns);
    if (conns == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the connections");
    conns->metrics = metrics;
    conns->timeout_ms[CONN_IDLE] = config->idle_timeout_ms;
    conns->timeout_ms[CONN_HEADER] = config->header_timeout_ms;
    conns->timeout_ms[CONN_BODY] = conns->timeout_ms[CONN_ANSWER] = config->body_timeout_ms;
    if (watch_create(&conns->watch, err) != STATUS_OK)
        goto free_conns;
    if (lingering_create(config->body_timeout_ms, &conns->lingering, err) != STATUS_OK)
        goto destroy_watch;
    if (start_sweep(conns, err) != STATUS_OK)
        goto destroy_linger;
    *out = conns;
    return STATUS_OK;

destroy_linger:
    lingering_destroy(conns->lingering);
destroy_watch:
    watch_destroy(conns->watch);
free_conns:
    free(conns);
    return err->status;
}

void conns_destroy(struct conns *conns)
{
    if (conns == NULL)
        return;
    watch_lock(conns->watch);
    watch_remove(conns->watch, &conns->sweep);
    watch_unlock(conns->watch);
    lingering_destroy(conns->lingering);
    watch_destroy(conns->watch);
    free(conns);
}
