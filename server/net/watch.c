#include "server/net/watch.h"

#include "core/base/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_ROOM 64

/*
 * A binary heap by key_ns, least first.  A deadline that moves away leaves its key: the entry is found in
 * vain once, and put where it belongs then.
 */
struct watch {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;    /* the first key is earlier than before, or the end */
    struct watch_entry **heap; /* [num_entries], guarded by mutex */
    size_t num_entries, room;  /* guarded by mutex */
    bool stopping;             /* guarded by mutex */
};

uint64_t watch_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t watch_in_ms(unsigned timeout_ms)
{
    return timeout_ms == 0 ? WATCH_NEVER : watch_now_ns() + (uint64_t)timeout_ms * 1000000;
}

void watch_lock(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
}

void watch_unlock(struct watch *watch)
{
    pthread_mutex_unlock(&watch->mutex);
}

/* ---- the heap ---- */

static void put_at(struct watch *watch, struct watch_entry *entry, size_t place)
{
    watch->heap[place] = entry;
    entry->place = place;
}

static void move_up(struct watch *watch, struct watch_entry *entry)
{
    size_t place = entry->place;
    for (; place > 0; place = (place - 1) / 2) {
        struct watch_entry *parent = watch->heap[(place - 1) / 2];
        if (parent->key_ns <= entry->key_ns)
            break;
        put_at(watch, parent, place);
    }
    put_at(watch, entry, place);
}

static void move_down(struct watch *watch, struct watch_entry *entry)
{
    size_t place = entry->place, n = watch->num_entries;
    for (size_t child = 2 * place + 1; child < n; child = 2 * place + 1) {
        if (child + 1 < n && watch->heap[child + 1]->key_ns < watch->heap[child]->key_ns)
            child++;
        if (entry->key_ns <= watch->heap[child]->key_ns)
            break;
        put_at(watch, watch->heap[child], place);
        place = child;
    }
    put_at(watch, entry, place);
}

enum status watch_add(struct watch *watch, struct watch_entry *entry, struct error *err)
{
    if (watch->num_entries == watch->room) {
        size_t room = watch->room == 0 ? FIRST_ROOM : 2 * watch->room;
        struct watch_entry **heap = realloc(watch->heap, room * sizeof(struct watch_entry *));
        if (heap == NULL)
            return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot watch %zu deadlines", room);
        watch->heap = heap;
        watch->room = room;
    }
    entry->deadline_ns = entry->key_ns = WATCH_NEVER;
    put_at(watch, entry, watch->num_entries++);
    return STATUS_OK;
}

void watch_set(struct watch *watch, struct watch_entry *entry, uint64_t deadline_ns)
{
    entry->deadline_ns = deadline_ns;
    if (deadline_ns >= entry->key_ns)
        return;
    entry->key_ns = deadline_ns;
    move_up(watch, entry);
    if (entry->place == 0)
        pthread_cond_signal(&watch->changed);
}

void watch_remove(struct watch *watch, struct watch_entry *entry)
{
    struct watch_entry *last = watch->heap[--watch->num_entries];
    if (last == entry)
        return;
    put_at(watch, last, entry->place);
    move_up(watch, last);
    move_down(watch, last);
}

/* ---- the thread ---- */

/* The first entry's key has come: is its deadline, too?  The callback may remove the entry and free it. */
static void look_at(struct watch *watch, struct watch_entry *entry, uint64_t now_ns)
{
    bool expired = entry->deadline_ns <= now_ns;
    if (expired)
        entry->deadline_ns = WATCH_NEVER;
    entry->key_ns = entry->deadline_ns;
    move_down(watch, entry);
    if (expired)
        entry->expire(entry);
}

static void wait_until(struct watch *watch, uint64_t time_ns)
{
    struct timespec until = {(time_t)(time_ns / 1000000000), (long)(time_ns % 1000000000)};
    if (time_ns == WATCH_NEVER)
        pthread_cond_wait(&watch->changed, &watch->mutex);
    else
        pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
}

static void *watch_main(void *argument)
{
    struct watch *watch = argument;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->stopping) {
        struct watch_entry *first = watch->num_entries > 0 ? watch->heap[0] : NULL;
        uint64_t now_ns = watch_now_ns();
        if (first != NULL && first->key_ns <= now_ns)
            look_at(watch, first, now_ns);
        else
            wait_until(watch, first == NULL ? WATCH_NEVER : first->key_ns);
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

static void free_watch(struct watch *watch)
{
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
    free(watch->heap);
    free(watch);
}

enum status watch_create(struct watch **out, struct error *err)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the deadlines");
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&watch->mutex, NULL);
    int failed = thread_start(&watch->thread, watch_main, watch);
    if (failed != 0) {
        free_watch(watch);
        return error_set(err, STATUS_INTERNAL, "no_thread", "cannot start the thread of the deadlines: %s",
                         strerror(failed));
    }
    *out = watch;
    return STATUS_OK;
}

void watch_destroy(struct watch *watch)
{
    if (watch == NULL)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->stopping = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    free_watch(watch);
}
