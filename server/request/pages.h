#ifndef SERVER_PAGES_H
#define SERVER_PAGES_H

#include "server/request/route.h"

#include <stddef.h>

/*
 * The route of a path, or NULL.
 *
 *   admin      whether the request came by admin_listen
 *   has_admin  whether there is one
 */
const struct route *pages_find(const char *path, bool admin, bool has_admin);

/* Whether a path is of KServe v2, where errors are {"error":"message"}. */
bool pages_is_kserve(const char *path);

/*
 * The place of a route in the list of all; of NULL, which is no route, one behind.  The label of its metrics.
 */
size_t pages_place(const struct route *route);

/* The path at a place; NULL behind the last. */
const char *pages_path(size_t place);

#endif
