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
    unsigned max_connections;
    struct MHD_Daemon *daemon;
    struct conns *conns;
    size_t count;        /* of listening sockets */
    size_t turn;         /* in [0, count): whose it is, so that a crowd at one does not shut out the others */
    struct pollfd fds[]; /* [count], and one that is readable when it is time to stop */
};

/* Accept one connection of socket i; returns 0, or the reason why there is none. */
static int accept_one(struct acceptor *a, size_t i)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int fd = accept4(a->fds[i].fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
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
    for (size_t empty = 0; empty < a->count; a->turn = (a->turn + 1) % a->count) {
        if (conns_count(a->conns) >= a->max_connections)
            return true;
        int reason = accept_one(a, a->turn);
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

enum status acceptor_create(const int *listen_fds, size_t count, unsigned max_connections,
                            struct MHD_Daemon *daemon, struct conns *conns, struct acceptor **out,
                            struct error *err)
{
    struct acceptor *a = calloc(1, sizeof *a + (count + 1) * sizeof a->fds[0]);
    if (a == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the acceptor");
    *a = (struct acceptor){
        .max_connections = max_connections, .daemon = daemon, .conns = conns, .count = count};
    for (size_t i = 0; i < count; i++)
        watch(&a->fds[i], listen_fds[i]);
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
        while (is_passing(accept_one(a, i)))
            ;
    for (size_t i = 0; i <= a->count; i++)
        close(a->fds[i].fd);
    free(a);
}
