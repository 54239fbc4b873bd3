#include "server/request/placement.h"

#include "proto/tensors/safetensors.h"
#include "server/config/config.h"

#include <math.h>

/*
 * Measured over loopback: of a handover, some 10 us fall to the I/O thread, which wakes the worker and is
 * woken by it, and as much to the worker.
 */
#define HANDOVER_US 10.0

/*
 * Other connections of the thread wait as long, which is what one of them costs that brings 513 KB.  Above it
 * a handover is a small part of the work, and rows of one request gain by running side by side.
 */
#define HERE_US 50.0

size_t placement_io_threads(size_t cpus)
{
    return cpus < CONFIG_MOST_IO_THREADS ? cpus : CONFIG_MOST_IO_THREADS;
}

double placement_budget_us(const struct placement *p)
{
    bool others_wait = p->in_flight > p->io_threads;
    bool cpu_free = p->io_threads + p->busy_workers < p->cpus;
    return others_wait && cpu_free ? HANDOVER_US : HERE_US;
}

/* How much of the body is JSON. */
static size_t json_bytes(const struct exchange *x)
{
    size_t header = x->header_length < x->length ? x->header_length : x->length;
    return x->media == MEDIA_JSON          ? x->length
           : x->media == MEDIA_KSERVE      ? header
           : x->media == MEDIA_SAFETENSORS ? safetensors_header_bytes(x->body.data, x->length)
                                           : 0;
}

double placement_decode_us(const struct exchange *x)
{
    /* microseconds a byte: 28 ns for a number of 20 bytes; a copy of tensors that are not aligned */
    const double JSON = 1.4e-3, COPY = 3e-5;
    if (x->media == MEDIA_KSERVE && x->memory != NULL) /* what is in shared memory may be large */
        return INFINITY;
    size_t json = json_bytes(x);
    double copied = x->media == MEDIA_RAW ? 0.0 : (double)(x->length - json);
    return JSON * (double)json + COPY * copied;
}
