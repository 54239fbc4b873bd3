#include "core/base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

static size_t round_up(size_t bytes)
{
    return (bytes + ARENA_ALIGNMENT - 1) & ~(ARENA_ALIGNMENT - 1);
}

enum status arena_init(struct arena *arena, size_t capacity, struct error *err)
{
    *arena = (struct arena){0};
    return arena_reserve(arena, capacity, err);
}

void arena_fini(struct arena *arena)
{
    free(arena->base);
    *arena = (struct arena){0};
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > arena->capacity - arena->used)
        return NULL;
    void *lent = arena->base + arena->used;
    /* capacity is a multiple of the alignment, so rounding up never passes it */
    arena->used += round_up(bytes);
    return lent;
}

void arena_reset(struct arena *arena)
{
    arena->used = 0;
}

size_t arena_mark(const struct arena *arena)
{
    return arena->used;
}

void arena_release(struct arena *arena, size_t mark)
{
    assert(mark <= arena->used);
    arena->used = mark;
}

enum status arena_reserve(struct arena *arena, size_t capacity, struct error *err)
{
    assert(arena->used == 0);
    if (capacity <= arena->capacity)
        return STATUS_OK;
    void *base =
        capacity > SIZE_MAX - ARENA_ALIGNMENT ? NULL : aligned_alloc(ARENA_ALIGNMENT, round_up(capacity));
    if (base == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate %zu bytes", capacity);
    free(arena->base);
    arena->base = base;
    arena->capacity = round_up(capacity);
    return STATUS_OK;
}
