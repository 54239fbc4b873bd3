#ifndef SERVER_BUFFERS_H
#define SERVER_BUFFERS_H

#include "core/base/status.h"

#include <stddef.h>

/*
 * Recycled memory for bodies, decoded logits and answers, within one budget.
 *
 * A fresh block of half a MiB costs more in page faults than sampling the row it holds, so blocks go back to
 * a free list of their size class (powers of two) instead of the operating system.  All functions are
 * thread-safe.
 */
struct buffers;

/* Bytes that may be read past the end of any buffer: number readers look ahead. */
#define BUFFERS_PADDING 64

struct buffer {
    char *data;      /* aligned to 64 bytes; NULL when there is none */
    size_t capacity; /* usable bytes, as asked for; BUFFERS_PADDING not counted */
};

/*
 * in_use_limit bounds what is lent at any time (max_inflight_bytes), kept_limit what waits in the free lists.
 * Errors: STATUS_NO_MEMORY.
 */
enum status buffers_create(size_t in_use_limit, size_t kept_limit, struct buffers **out, struct error *err);
void buffers_destroy(struct buffers *buffers); /* everything lent must be back */

/*
 * Lend a buffer of at least `capacity` bytes, which is what it counts for in the budget.
 * Errors: STATUS_OVERLOADED when it would pass in_use_limit, STATUS_TOO_LARGE when it alone does,
 * STATUS_NO_MEMORY; *out is then unchanged.
 */
enum status buffers_take(struct buffers *buffers, size_t capacity, struct buffer *out, struct error *err);

/* Move the first `length` bytes to a buffer of at least `capacity`.  Errors as above; *buffer is then
 * unchanged. */
enum status buffers_grow(struct buffers *buffers, size_t capacity, size_t length, struct buffer *buffer,
                         struct error *err);

/* Give a buffer back and clear it; nothing happens when it has no data. */
void buffers_give(struct buffers *buffers, struct buffer *buffer);

/* in_use_limit */
size_t buffers_limit(const struct buffers *buffers);

/* Bytes lent at this moment. */
size_t buffers_in_use(struct buffers *buffers);

#endif
