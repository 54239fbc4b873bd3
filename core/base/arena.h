#ifndef CORE_ARENA_H
#define CORE_ARENA_H

#include "core/base/status.h"

/*
 * A block of memory that is handed out from the front and taken back all at once.
 *
 * Not thread-safe: an arena has one owner (a request or a worker).
 */
struct arena {
    unsigned char *base;
    size_t capacity; /* bytes */
    size_t used;     /* bytes, <= capacity */
};

#define ARENA_ALIGNMENT ((size_t)64) /* a cache line, and the widest vector register */

/* Reserve capacity bytes.  Errors: STATUS_NO_MEMORY. */
enum status arena_init(struct arena *arena, size_t capacity, struct error *err);
void arena_fini(struct arena *arena);

/* Lend count * size bytes, aligned to ARENA_ALIGNMENT and not cleared; NULL when they do not fit. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);

/* Take everything back; what was lent is invalid from here on. */
void arena_reset(struct arena *arena);

/*
 * Take back all that was lent since the mark, which arena_mark() returned.
 */
size_t arena_mark(const struct arena *arena);
void arena_release(struct arena *arena, size_t mark);

/* Make room for capacity bytes in an arena that has lent nothing.  Errors: STATUS_NO_MEMORY, unchanged. */
enum status arena_reserve(struct arena *arena, size_t capacity, struct error *err);

#endif
