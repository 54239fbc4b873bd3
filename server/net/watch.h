#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include "core/base/status.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Deadlines: one thread that calls back when a time has come.
 *
 * What is watched is an entry inside the caller's own struct.  Most deadlines are moved, again and again,
 * before they come; moving one to a later time costs a store, to an earlier one a few comparisons.
 */
struct watch;

#define WATCH_NEVER UINT64_MAX

struct watch_entry {
    void (*expire)(struct watch_entry *entry); /* on the watch's thread, lock held; once per deadline */

    /* the watch's own; guarded by its lock */
    uint64_t deadline_ns;
    uint64_t key_ns; /* <= deadline_ns: when to look at the entry again */
    size_t place;    /* in the heap */
};

/* Start the thread.  Errors: STATUS_NO_MEMORY, STATUS_INTERNAL. */
enum status watch_create(struct watch **out, struct error *err);

/* Stop the thread; no callback comes any more, and every entry must have been removed. */
void watch_destroy(struct watch *watch);

/* The lock that guards the entries and is held in callbacks: what a callback reads may be guarded by it too.
 */
void watch_lock(struct watch *watch);
void watch_unlock(struct watch *watch);

/* Nanoseconds on the clock of the deadlines. */
uint64_t watch_now_ns(void);

/* The time in timeout_ms; 0 is WATCH_NEVER. */
uint64_t watch_in_ms(unsigned timeout_ms);

/* The three below are called with the lock held, from callbacks too. */

/* Watch an entry, whose `expire` is set, with no deadline yet.  Errors: STATUS_NO_MEMORY. */
enum status watch_add(struct watch *watch, struct watch_entry *entry, struct error *err);

/* Give it a deadline in place of its last. */
void watch_set(struct watch *watch, struct watch_entry *entry, uint64_t deadline_ns);

/* Forget it; its callback will not come any more. */
void watch_remove(struct watch *watch, struct watch_entry *entry);

#endif
