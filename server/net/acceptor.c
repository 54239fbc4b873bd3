#include "server/net/acceptor.h"

#include "core/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* How soon to look again when there is no room, or no descriptor, for a connection that waits. */
#define RETRY_MS 5

struct acceptor {
    pthread_t thread;
    int listen_fd, stop_fd; /* stop_fd: readable when it is time to stop */
    unsigned max_connections;
    struct MHD_Daemon *daemon;
    struct conns *conns;
};

/* Accept one connection; returns 0, or the reason why there is none. */
static int accept_one(struct acceptor *a)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int fd = accept4(a->listen_fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno;
    conns_announce(a->conns, 1);
    if (MHD_add_connection(a->daemon, fd, (struct sockaddr *)&address, length) != MHD_YES)
        conns_announce(a->conns, -1); /* too many from its address, say; the socket is closed */
    return 0;
}

/* Whether it is nothing but the one connection that failed. */
static bool is_passing(int reason)
{
    return reason == 0 || reason == ECONNABORTED || reason == EINTR || reason == EPROTO || reason == EPERM;
}

/* Accept all that wait and have room.  Returns whether some may be left. */
static bool accept_many(struct acceptor *a)
{
    int reason = 0;
    while (is_passing(reason)) {
        if (conns_count(a->conns) >= a->max_connections)
            return true;
        reason = accept_one(a);
    }
    return reason != EAGAIN;
}

static void *acceptor_main(void *argument)
{
    struct acceptor *a = argument;
    struct pollfd fds[2] = {{a->stop_fd, POLLIN, 0}, {a->listen_fd, POLLIN, 0}};
    bool left = false;
    for (;;) {
        if (left)
            poll(fds, 1, RETRY_MS);
        else
            poll(fds, 2, -1);
        if (fds[0].revents != 0)
            return NULL;
        left = accept_many(a);
    }
}

enum status acceptor_create(int listen_fd, unsigned max_connections, struct MHD_Daemon *daemon,
                            struct conns *conns, struct acceptor **out, struct error *err)
{
    struct acceptor *a = calloc(1, sizeof *a);
    if (a == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the acceptor");
    *a = (struct acceptor){.listen_fd = listen_fd, .max_connections = max_connections};
    a->daemon = daemon;
    a->conns = conns;
    fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK);
    a->stop_fd = eventfd(0, EFD_CLOEXEC);
    int failed = a->stop_fd < 0 ? errno : thread_start(&a->thread, acceptor_main, a);
    if (failed != 0) {
        if (a->stop_fd >= 0)
            close(a->stop_fd);
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
    eventfd_write(a->stop_fd, 1);
    pthread_join(a->thread, NULL);
    while (is_passing(accept_one(a)))
        ;
    close(a->listen_fd);
    close(a->stop_fd);
    free(a);
}
