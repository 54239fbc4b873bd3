#include "core/rules/penalties/id_map.h"

#include <assert.h>
#include <string.h>

/* At most half of the slots are taken. */
static unsigned bits_for(size_t n)
{
    unsigned bits = 4;
    while (((size_t)1 << bits) < 2 * n)
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
    return map;
}

/* The slot of an id, or the free one where it belongs.  Fibonacci hashing: Knuth, TAOCP 3, 6.4. */
static uint32_t *slot_of(const struct id_map *map, int32_t id)
{
    size_t at = (uint32_t)id * UINT32_C(0x9e3779b1) >> (32 - map->bits);
    while (map->slots[at] != 0 && map->entries[map->slots[at] - 1].id != id)
        at = (at + 1) & (((size_t)1 << map->bits) - 1);
    return &map->slots[at];
}

struct id_entry *id_map_put(struct id_map *map, int32_t id)
{
    uint32_t *slot = slot_of(map, id);
    if (*slot == 0) {
        map->entries[map->count] = (struct id_entry){.id = id};
        *slot = (uint32_t)++map->count;
    }
    return &map->entries[*slot - 1];
}

const struct id_entry *id_map_find(const struct id_map *map, int32_t id)
{
    uint32_t slot = *slot_of(map, id);
    return slot == 0 ? NULL : &map->entries[slot - 1];
}
