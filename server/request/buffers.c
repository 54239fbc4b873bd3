#include "server/request/buffers.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_LOG2 12 /* 4 KiB */
#define CLASSES       (64 - SMALLEST_LOG2)

/* A free block holds its successor in its first bytes. */
struct free_block {
    struct free_block *next;
};

struct buffers {
    pthread_mutex_t mutex;
    struct free_block *free[CLASSES]; /* guarded by mutex */
    size_t in_use;                    /* guarded by mutex: bytes lent */
    size_t kept;                      /* guarded by mutex: bytes in the free lists */
    size_t in_use_limit, kept_limit;
};

static unsigned class_of(size_t block_bytes)
{
    unsigned c = 0;
    while (((size_t)1 << (c + SMALLEST_LOG2)) < block_bytes)
        c++;
    return c;
}

static size_t class_bytes(unsigned c)
{
    return (size_t)1 << (c + SMALLEST_LOG2);
}

enum status buffers_create(size_t in_use_limit, size_t kept_limit, struct buffers **out, struct error *err)
{
    struct buffers *b = calloc(1, sizeof *b);
    if (b == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the buffer lists");
    pthread_mutex_init(&b->mutex, NULL);
    b->in_use_limit = in_use_limit;
    b->kept_limit = kept_limit;
    *out = b;
    return STATUS_OK;
}

void buffers_destroy(struct buffers *b)
{
    if (b == NULL)
        return;
    assert(b->in_use == 0);
    for (unsigned c = 0; c < CLASSES; c++) {
        while (b->free[c] != NULL) {
            struct free_block *block = b->free[c];
            b->free[c] = block->next;
            free(block);
        }
    }
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

/* Reserve room in the budget and take a free block if there is one; false when the budget is spent. */
static bool reserve(struct buffers *b, size_t capacity, unsigned c, void **block)
{
    pthread_mutex_lock(&b->mutex);
    bool fits = b->in_use <= b->in_use_limit - capacity;
    if (fits) {
        b->in_use += capacity;
        if (b->free[c] != NULL) {
            *block = b->free[c];
            b->free[c] = b->free[c]->next;
            b->kept -= class_bytes(c);
        }
    }
    pthread_mutex_unlock(&b->mutex);
    return fits;
}

static void unreserve(struct buffers *b, size_t capacity)
{
    pthread_mutex_lock(&b->mutex);
    b->in_use -= capacity;
    pthread_mutex_unlock(&b->mutex);
}

enum status buffers_take(struct buffers *b, size_t capacity, struct buffer *out, struct error *err)
{
    void *block = NULL;
    if (capacity > b->in_use_limit)
        return error_set(err, STATUS_TOO_LARGE, "too_large",
                         "the request takes %zu bytes; max_inflight_bytes is %zu", capacity, b->in_use_limit);
    unsigned c = class_of(capacity + BUFFERS_PADDING);
    if (!reserve(b, capacity, c, &block))
        return error_set(err, STATUS_OVERLOADED, "overloaded",
                         "%zu more bytes would pass max_inflight_bytes, which is %zu; try again", capacity,
                         b->in_use_limit);
    if (block == NULL)
        block = aligned_alloc(64, class_bytes(c));
    if (block == NULL) {
        unreserve(b, capacity);
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate %zu bytes", class_bytes(c));
    }
    *out = (struct buffer){block, capacity};
    return STATUS_OK;
}

enum status buffers_grow(struct buffers *b, size_t capacity, size_t length, struct buffer *buffer,
                         struct error *err)
{
    struct buffer larger = {0};
    if (capacity <= buffer->capacity)
        return STATUS_OK;
    if (buffers_take(b, capacity, &larger, err) != STATUS_OK)
        return err->status;
    assert(larger.data != NULL);
    if (length > 0)
        memcpy(larger.data, buffer->data, length);
    buffers_give(b, buffer);
    *buffer = larger;
    return STATUS_OK;
}

void buffers_give(struct buffers *b, struct buffer *buffer)
{
    if (buffer->data == NULL)
        return;
    size_t capacity = buffer->capacity;
    unsigned c = class_of(capacity + BUFFERS_PADDING);
    struct free_block *block = (struct free_block *)(void *)buffer->data;
    *buffer = (struct buffer){0};
    pthread_mutex_lock(&b->mutex);
    b->in_use -= capacity;
    bool keep = b->kept + class_bytes(c) <= b->kept_limit;
    if (keep) {
        block->next = b->free[c];
        b->free[c] = block;
        b->kept += class_bytes(c);
    }
    pthread_mutex_unlock(&b->mutex);
    if (!keep)
        free(block);
}

size_t buffers_limit(const struct buffers *b)
{
    return b->in_use_limit;
}

size_t buffers_in_use(struct buffers *b)
{
    pthread_mutex_lock(&b->mutex);
    size_t in_use = b->in_use;
    pthread_mutex_unlock(&b->mutex);
    return in_use;
}
