#ifndef SERVER_PAGES_H
#define SERVER_PAGES_H

#include "server/call.h"

/* What is at a path. */
struct route {
    const char *path;
    const char *allow; /* methods, as in the Allow header */
    enum MHD_Result (*page)(
        struct call *call); /* queues a page for GET and HEAD; NULL for /sample, which is POST */
};

/* The route of a path, or NULL. */
const struct route *pages_find(const char *path);

/*
 * The place of a route in the list of all; of NULL, which is no route, one behind.  The label of its metrics.
 */
size_t pages_place(const struct route *route);

/* The path at a place; NULL behind the last. */
const char *pages_path(size_t place);

#endif
