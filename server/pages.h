#ifndef SERVER_PAGES_H
#define SERVER_PAGES_H

#include "server/call.h"

/* Who may ask for a page, and where. */
enum route_reach {
    ROUTE_OPEN = 1,  /* it asks for no token */
    ROUTE_ADMIN = 2, /* it is at admin_listen too, */
    ROUTE_MOVES = 4  /* and then there alone */
};

/* What is at a path. */
struct route {
    const char *path;  /* in which * stands for a part without a slash */
    const char *allow; /* methods, as in the Allow header */
    enum MHD_Result (*page)(
        struct call *call); /* queues a page for GET and HEAD; NULL for what samples, which is POST */
    unsigned reach;         /* of enum route_reach */
    bool kserve;            /* of page NULL: an infer request, whatever its Content-Type */
};

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
