#include "server/net/acceptor.h"

#include "core/base/thread.h"
#include "server/net/refusal.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* How soon to look again when there is no room, or no descriptor, for a connection that waits. */
#define RETRY_MS 5

#define LOG_EVERY_MS 60000

struct acceptor {
    pthread_t thread;
    struct acceptor_options options; /* listen_fds is the caller's */
    int64_t full_since_ms;           /* FREE while there is room */
    int64_t logged_ms;               /* the last line about refused ones; FREE before the first */
    unsigned long refused;           /* since then */
    size_t count;                    /* of listening sockets */
    size_t turn;         /* in [0, count): whose it is, so that a crowd at one does not shut out the others */
    struct pollfd fds[]; /* [count], and one that is readable when it is time to stop */
};

#define FREE INT64_C(-1)

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- refusing ---- */

/* Tell that a limit is reached, and of those refused before, unless a line has told lately. */
static void warn(struct acceptor *a, const char *limit)
{
    if (a->logged_ms != FREE && now_ms() - a->logged_ms < LOG_EVERY_MS)
        return;
    log_warn("no room for connections", log_text("limit", limit), log_uint("refused", a->refused),
             log_uint("max_connections", a->options.max_connections));
    a->logged_ms = now_ms();
    a->refused = 0;
}

static void count_refused(struct acceptor *a, const char *limit)
{
    metrics_add(a->options.metrics, METRIC_CONNECTIONS_REFUSED, metrics_label(LABEL_LIMIT, limit), 1);
    a->refused++;
    warn(a, limit);
}

/* In words, where these can be read. */
static void refuse(struct acceptor *a, int fd)
{
    struct error err;
    char text[REFUSAL_BYTES];
    error_set(&err, STATUS_OVERLOADED, "overloaded", "all %u connections are in use (max_connections); retry",
              a->options.max_connections);
    if (!a->options.tls) {
        size_t length = refusal_write(&err, MHD_HTTP_SERVICE_UNAVAILABLE, false, text);
        (void)!send(fd, text, length, MSG_NOSIGNAL);
        conns_part_with(a->options.conns, fd);
    } else {
        close(fd);
    }
    count_refused(a, "max_connections");
}

/* ---- accepting ---- */

static void admit(struct acceptor *a, int fd, const struct sockaddr_storage *address, socklen_t length)
{
    conns_announce(a->options.conns, 1);
    if (MHD_add_connection(a->options.daemon, fd, (const struct sockaddr *)address, length) == MHD_YES)
        return;
    conns_announce(a->options.conns, -1); /* and the socket is closed */
    count_refused(a, errno == ENFILE ? "max_connections_per_ip" : "memory");
}

/* Accept one connection of socket i, if only to refuse it; returns 0, or the reason why there is none. */
static int accept_one(struct acceptor *a, size_t i, bool full)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int fd = accept4(a->fds[i].fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno;
    if (full)
        refuse(a, fd);
    else
        admit(a, fd, &address, length);
    return 0;
}

static bool is_full(const struct acceptor *a)
{
    return conns_count(a->options.conns) >= a->options.max_connections;
}

/* Whether there is no room, and has been none for so long that those who wait had better know. */
static bool is_out_of_patience(struct acceptor *a)
{
    if (a->full_since_ms == FREE)
        a->full_since_ms = now_ms();
    return now_ms() - a->full_since_ms >= ACCEPTOR_PATIENCE_MS;
}

/* Whether it is nothing but the one connection that failed. */
static bool is_passing(int reason)
{
    return reason == 0 || reason == ECONNABORTED || reason == EINTR || reason == EPROTO || reason == EPERM;
}

/* Accept all that wait and have room.  Returns whether some may be left. */
static bool accept_many(struct acceptor *a)
{
    for (size_t empty = 0; empty < a->count; a->turn = (a->turn + 1) % a->count) {
        bool full = is_full(a);
        if (!full)
            a->full_since_ms = FREE;
        else if (!is_out_of_patience(a))
            return true;
        int reason = accept_one(a, a->turn, full);
        if (reason == EMFILE || reason == ENFILE)
            warn(a, "open_files"); /* who waits has to */
        if (reason != EAGAIN && !is_passing(reason))
            return true;
        empty = reason == EAGAIN ? empty + 1 : 0;
    }
    return false;
}

static void *acceptor_main(void *argument)
{
    struct acceptor *a = argument;
    struct pollfd *stop = &a->fds[a->count];
    bool left = false;
    for (;;) {
        if (left)
            poll(stop, 1, RETRY_MS);
        else
            poll(a->fds, a->count + 1, -1);
        if (stop->revents != 0)
            return NULL;
        left = accept_many(a);
    }
}

/* One that does not block, since what made it readable may be gone when it is accepted. */
static void watch(struct pollfd *place, int listen_fd)
{
    fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK);
    *place = (struct pollfd){listen_fd, POLLIN, 0};
}

enum status acceptor_create(const struct acceptor_options *options, struct acceptor **out, struct error *err)
{
    size_t count = options->count;
    struct acceptor *a = calloc(1, sizeof *a + (count + 1) * sizeof a->fds[0]);
    if (a == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the acceptor");
    *a = (struct acceptor){.options = *options, .full_since_ms = FREE, .logged_ms = FREE, .count = count};
    for (size_t i = 0; i < count; i++)
        watch(&a->fds[i], options->listen_fds[i]);
    int stop_fd = eventfd(0, EFD_CLOEXEC);
    a->fds[count] = (struct pollfd){stop_fd, POLLIN, 0};
    int failed = stop_fd < 0 ? errno : thread_start(&a->thread, acceptor_main, a);
    if (failed != 0) {
        if (stop_fd >= 0)
            close(stop_fd);
        free(a);
        return error_set(err, STATUS_INTERNAL, "no_thread", "cannot start accepting: %s", strerror(failed));
    }
    *out = a;
    return STATUS_OK;
}

/*
 * A connection that is established but not accepted yet is reset when the listening socket closes, with the
 * request that its client has sent already: so they are accepted to the last.
 */
void acceptor_destroy(struct acceptor *a)
{
    if (a == NULL)
        return;
    eventfd_write(a->fds[a->count].fd, 1);
    pthread_join(a->thread, NULL);
    for (size_t i = 0; i < a->count; i++)
        while (is_passing(accept_one(a, i, false)))
            ;
    for (size_t i = 0; i <= a->count; i++)
        close(a->fds[i].fd);
    free(a);
}
