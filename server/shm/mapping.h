#ifndef SERVER_MAPPING_H
#define SERVER_MAPPING_H

#include "core/base/status.h"

#include <stdbool.h>

/*
 * Memory that another process can take away: part of an object of /dev/shm, mapped.
 *
 * Touching a page behind the end of an object that was truncated raises SIGBUS.  Here the handler of that
 * signal puts pages of zeros in the place of the whole mapping, and the thread goes on as if nothing had
 * been: what it read is worth nothing, which mapping_check() tells it afterwards.  A SIGBUS from anywhere
 * else ends the process as it would have.
 */
struct mapping;

/* At once: as many as there can be regions, and as many that are still in use after they were unregistered.
 */
#define MAPPING_MOST 2048

/*
 * Map bytes [offset, offset + bytes) of an object, of which the caller knows that it has them.
 *
 *   fd        of the object; taken over, on an error closed
 *   writable  whether mapping_data() may be written to
 *
 * Errors: STATUS_OVERLOADED when there are MAPPING_MOST, STATUS_NO_MEMORY, STATUS_INVALID when the object
 * cannot be mapped.  Thread-safe.
 */
enum status mapping_create(int fd, size_t offset, size_t bytes, bool writable, struct mapping **out,
                           struct error *err);
void mapping_destroy(struct mapping *mapping); /* nobody touches it any more */

/* The bytes.  They may change while they are read: what is decided by one must not be read again. */
void *mapping_data(const struct mapping *mapping);

/* False when a page was missing, or the object has become too small: then for ever, or until it has grown. */
bool mapping_check(const struct mapping *mapping);

#endif
