#include "server/net/lingering.h"

#include "core/base/thread.h"
#include "server/net/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_MS     100                  /* how often times are looked at */
#define QUIET_NS    UINT64_C(2000000000) /* a client that says nothing for so long has no more to say */
#define EVENTS      16
#define PIECE_BYTES ((size_t)64 << 10)

struct entry {
    int fd;
    uint64_t end_ns, heard_ns;
    struct entry *next;
};

struct lingering {
    pthread_t thread;
    int epoll_fd, wake_fd; /* wake_fd, of the epoll set too: an entry has come, or it is time to stop */
    uint64_t timeout_ns;
    pthread_mutex_t mutex;

    /* guarded by mutex */
    struct entry *first;
    size_t count;
    bool stopping;
};

/* Read one piece; nothing comes any more when it fails. */
static void discard(struct entry *entry)
{
    static char piece[PIECE_BYTES]; /* of the one thread */
    ssize_t got = recv(entry->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (got > 0)
        entry->heard_ns = watch_now_ns();
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        entry->end_ns = 0;
}

/* Close those whose time is up. */
static void drop_ended(struct lingering *l)
{
    uint64_t now_ns = watch_now_ns();
    for (struct entry **link = &l->first; *link != NULL;) {
        struct entry *entry = *link;
        if (!l->stopping && now_ns < entry->end_ns && now_ns < entry->heard_ns + QUIET_NS) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        l->count--;
        epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, entry->fd, NULL);
        close(entry->fd);
        free(entry);
    }
}

static void *lingering_main(void *argument)
{
    struct lingering *l = argument;
    struct epoll_event events[EVENTS];
    eventfd_t woken;
    for (bool stopping = false; !stopping;) {
        int ready = epoll_wait(l->epoll_fd, events, EVENTS, lingering_count(l) > 0 ? LOOK_MS : -1);
        pthread_mutex_lock(&l->mutex);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr == l)
                eventfd_read(l->wake_fd, &woken);
            else
                discard(events[i].data.ptr);
        drop_ended(l);
        stopping = l->stopping;
        pthread_mutex_unlock(&l->mutex);
    }
    return NULL;
}

static int watch_fd(struct lingering *l, int fd, void *who)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void close_fds(const struct lingering *l)
{
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
}

enum status lingering_create(unsigned timeout_ms, struct lingering **out, struct error *err)
{
    struct lingering *l = calloc(1, sizeof *l);
    if (l == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate what reads on");
    l->timeout_ns = (uint64_t)timeout_ms * 1000000;
    pthread_mutex_init(&l->mutex, NULL);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool open = l->epoll_fd >= 0 && l->wake_fd >= 0 && watch_fd(l, l->wake_fd, l) == 0;
    int failed = open ? thread_start(&l->thread, lingering_main, l) : errno;
    if (failed != 0) {
        close_fds(l);
        pthread_mutex_destroy(&l->mutex);
        free(l);
        return error_set(err, STATUS_INTERNAL, "no_thread", "cannot start reading on: %s", strerror(failed));
    }
    *out = l;
    return STATUS_OK;
}

void lingering_destroy(struct lingering *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->mutex);
    l->stopping = true;
    pthread_mutex_unlock(&l->mutex);
    eventfd_write(l->wake_fd, 1);
    pthread_join(l->thread, NULL);
    close_fds(l);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

void lingering_take(struct lingering *l, int fd)
{
    struct entry *entry = malloc(sizeof *entry);
    int own = entry == NULL ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) {
        free(entry);
        return;
    }
    uint64_t now_ns = watch_now_ns();
    *entry = (struct entry){.fd = own, .end_ns = now_ns + l->timeout_ns, .heard_ns = now_ns};
    shutdown(own, SHUT_WR);
    pthread_mutex_lock(&l->mutex);
    bool watched = watch_fd(l, own, entry) == 0;
    if (watched) {
        entry->next = l->first;
        l->first = entry;
        l->count++;
    }
    pthread_mutex_unlock(&l->mutex);
    eventfd_write(l->wake_fd, 1);
    if (!watched) {
        close(own);
        free(entry);
    }
}

size_t lingering_count(struct lingering *l)
{
    pthread_mutex_lock(&l->mutex);
    size_t count = l->count;
    pthread_mutex_unlock(&l->mutex);
    return count;
}
