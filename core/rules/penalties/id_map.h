#ifndef CORE_ID_MAP_H
#define CORE_ID_MAP_H

#include "core/base/arena.h"

#include <stdint.h>

/* What is known of a token id that came up. */
struct id_entry {
    int32_t id;
    uint32_t count;     /* how often it came up, or another number of the map's owner */
    uint32_t generated; /* how often among generated ids */
};

/* Distinct token ids in the order in which they came, found by hashing. */
struct id_map {
    struct id_entry *entries; /* [count], and zeros behind them */
    size_t count;
    uint32_t *slots; /* [1 << bits] 1 + an entry's place, or 0 */
    unsigned bits;
};

/* Room for n ids, lent: id_map_bytes(n). */
struct id_map *id_map_create(size_t n, struct arena *scratch);
size_t id_map_bytes(size_t n);

/* The entry of an id, a new one with nothing counted where there was none. */
struct id_entry *id_map_put(struct id_map *map, int32_t id);

/* Count ids [n], of which those from `generated` on were generated. */
void id_map_count(struct id_map *map, const int32_t *ids, size_t n, size_t generated);

/* NULL where there is none. */
const struct id_entry *id_map_find(const struct id_map *map, int32_t id);

#endif
