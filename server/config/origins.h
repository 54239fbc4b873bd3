#ifndef SERVER_ORIGINS_H
#define SERVER_ORIGINS_H

#include "core/base/status.h"

#include <stdbool.h>

/*
 * Lists of web origins (RFC 6454, section 6.1): "https://app.example, http://localhost:3000", separated by
 * commas or spaces.  "*" stands alone, for every origin; an empty list has none.
 */

/*
 * Check a list.  Each origin must be written as browsers send it, since they are compared byte for byte:
 * scheme://host or scheme://host:port, in small letters, without path, without the scheme's usual port.
 * "null" is none: every sandboxed frame and local file has it.
 *
 * Errors: STATUS_INVALID naming the origin that is none.
 */
enum status origins_check(const char *list, struct error *err);

/* Whether a list is "*". */
bool origins_is_every(const char *list);

/* Whether a checked list has the origin. */
bool origins_has(const char *list, const char *origin);

#endif
