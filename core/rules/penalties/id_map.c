#include "core/rules/penalties/id_map.h"

#include <assert.h>
#include <string.h>

/* At most a quarter of the slots is taken. */
static unsigned bits_for(size_t n)
{
    unsigned bits = 4;
    while (((size_t)1 << bits) < 4 * n)
        bits++;
    return bits;
}

size_t id_map_bytes(size_t n)
{
    return sizeof(struct id_map) + n * sizeof(struct id_entry) +
           sizeof(uint32_t) * ((size_t)1 << bits_for(n)) + 3 * ARENA_ALIGNMENT;
}

struct id_map *id_map_create(size_t n, struct arena *scratch)
{
    struct id_map *map = arena_alloc(scratch, 1, sizeof *map);
    assert(map != NULL);
    unsigned bits = bits_for(n);
    *map = (struct id_map){.entries = arena_alloc(scratch, n, sizeof *map->entries),
                           .slots = arena_alloc(scratch, (size_t)1 << bits, sizeof *map->slots),
                           .bits = bits};
    assert(map->entries != NULL && map->slots != NULL);
    memset(map->slots, 0, sizeof *map->slots << bits);
    memset(map->entries, 0, n * sizeof *map->entries);
    return map;
}

/* The slot of an id, or the free one where it belongs.  Fibonacci hashing: Knuth, TAOCP 3, 6.4. */
static inline uint32_t *slot_of(const struct id_map *map, int32_t id)
{
    size_t at = (uint32_t)id * UINT32_C(0x9e3779b1) >> (32 - map->bits);
    while (map->slots[at] != 0 && map->entries[map->slots[at] - 1].id != id)
        at = (at + 1) & (((size_t)1 << map->bits) - 1);
    return &map->slots[at];
}

/* Whether an id is new is as good as random, so nothing here branches on it. */
static inline struct id_entry *put(struct id_map *map, int32_t id)
{
    uint32_t *slot = slot_of(map, id);
    size_t is_new = *slot == 0, at = is_new ? map->count : *slot - 1;
    *slot = (uint32_t)at + 1;
    map->count += is_new;
    map->entries[at].id = id;
    return &map->entries[at];
}

struct id_entry *id_map_put(struct id_map *map, int32_t id)
{
    return put(map, id);
}

void id_map_count(struct id_map *map, const int32_t *ids, size_t n, size_t generated)
{
    for (size_t i = 0; i < n; i++) {
        struct id_entry *entry = put(map, ids[i]);
        entry->count++;
        entry->generated += i >= generated;
    }
}

const struct id_entry *id_map_find(const struct id_map *map, int32_t id)
{
    uint32_t slot = *slot_of(map, id);
    return slot == 0 ? NULL : &map->entries[slot - 1];
}
