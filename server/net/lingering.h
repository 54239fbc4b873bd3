#ifndef SERVER_LINGERING_H
#define SERVER_LINGERING_H

#include "core/base/status.h"

#include <stddef.h>

/*
 * Connections that have their answer, and whose client is sending still.
 *
 * To close such a socket resets the connection, and a client that is busy sending sees a broken pipe instead
 * of its answer.  So only the writing side is closed, and a thread reads on, and throws away, until the
 * client closes its own, says nothing for a while, or its time is up.
 */
struct lingering;

/*
 *   timeout_ms  most time for one connection
 *
 * Errors: STATUS_NO_MEMORY, STATUS_INTERNAL.
 */
enum status lingering_create(unsigned timeout_ms, struct lingering **out, struct error *err);

/* Close them all. */
void lingering_destroy(struct lingering *lingering);

/*
 * Close the writing side of this socket and read on; the descriptor stays the caller's, to close as ever.
 * Does nothing where memory or descriptors are short.  Thread-safe.
 */
void lingering_take(struct lingering *lingering, int fd);

/* How many are open.  Thread-safe. */
size_t lingering_count(struct lingering *lingering);

#endif
