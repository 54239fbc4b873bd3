#ifndef CORE_RNG_H
#define CORE_RNG_H

#include "core/base/status.h"

#include <stdint.h>

/* Where a draw stands: the same address gives the same number on every machine. */
struct rng_address {
    uint64_t seed;
    uint64_t offset; /* position in the sequence */
    uint32_t stream; /* the row's index when one seed serves all rows, else 0 */
    uint32_t draw;   /* 0 .. n - 1 */
};

/*
 * A uniform number in [0, 1), a multiple of 2^-53.
 *
 * Philox4x32-10, key = seed (low word, high word), counter = (offset low, offset high, stream, draw);
 * u = ((x[1] << 32 | x[0]) >> 11) * 2^-53.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
double rng_uniform(const struct rng_address *address);

/* The generator itself, for its known answers: out[4] from counter[4] and key[2]. */
void rng_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/*
 * A fresh seed of 53 bits from the operating system, which a JSON number can carry back.
 * Errors: STATUS_INTERNAL when the system gives none.
 */
enum status rng_fresh_seed(uint64_t *seed, struct error *err);

#endif
