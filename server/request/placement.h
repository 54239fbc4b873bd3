#ifndef SERVER_PLACEMENT_H
#define SERVER_PLACEMENT_H

#include "server/request/exchange.h"

/*
 * Where a request is decoded and sampled: on the I/O thread that read it, or on a worker.
 *
 * A handover wakes a worker and then the I/O thread again.  It pays where that thread has other requests to
 * see to, and a CPU is free to do this one meanwhile; elsewhere it only adds to the work.
 */
struct placement {
    size_t cpus;         /* that the process may use */
    size_t io_threads;   /* that read and write sockets */
    size_t in_flight;    /* requests begun and not answered, this one too */
    size_t busy_workers; /* pool_busy() */
};

/*
 * How many I/O threads this many CPUs (>= 1) should have: one each, as raw rows keep the threads busy that
 * read them, and JSON the workers; those without work cost nothing.
 */
size_t placement_io_threads(size_t cpus);

/* Microseconds up to which a request is answered where it stands. */
double placement_budget_us(const struct placement *placement);

/*
 * About how long decoding takes, in microseconds, within a factor of two or three; INFINITY where that cannot
 * be told before.
 */
double placement_decode_us(const struct exchange *exchange);

#endif
