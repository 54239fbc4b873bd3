#include "core/row/rng.h"

#include <Random123/philox.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

void rng_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    philox4x32_ctr_t c = {{counter[0], counter[1], counter[2], counter[3]}};
    philox4x32_key_t k = {{key[0], key[1]}};
    philox4x32_ctr_t x = philox4x32_R(10, c, k);
    memcpy(out, x.v, sizeof x.v);
}

double rng_uniform(const struct rng_address *a)
{
    uint32_t counter[4] = {(uint32_t)a->offset, (uint32_t)(a->offset >> 32), a->stream, a->draw};
    uint32_t key[2] = {(uint32_t)a->seed, (uint32_t)(a->seed >> 32)};
    uint32_t x[4];
    rng_philox4x32(counter, key, x);
    uint64_t word = (uint64_t)x[1] << 32 | x[0];
    return (double)(word >> 11) * 0x1p-53;
}

/* Words of the operating system that this thread has not used yet: one system call for many requests. */
#define STOCK_WORDS 32
static _Thread_local struct {
    uint64_t words[STOCK_WORDS];
    size_t left;
} stock;

static bool fill_stock(void)
{
    ssize_t got;
    do
        got = getrandom(stock.words, sizeof stock.words, 0);
    while (got < 0 && errno == EINTR);
    stock.left = got == sizeof stock.words ? STOCK_WORDS : 0;
    return stock.left > 0;
}

enum status rng_fresh_seed(uint64_t *seed, struct error *err)
{
    if (stock.left == 0 && !fill_stock())
        return error_set(err, STATUS_INTERNAL, "no_entropy", "the system gives no random numbers: %s",
                         strerror(errno));
    uint64_t *word = &stock.words[--stock.left];
    *seed = *word >> 11;
    *word = 0;
    return STATUS_OK;
}
