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

#endif
