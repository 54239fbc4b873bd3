#ifndef SERVER_ROUTE_H
#define SERVER_ROUTE_H

#include <microhttpd.h>
#include <stdbool.h>

struct call;

/* Who may ask for a page, and where. */
enum route_reach {
    ROUTE_OPEN = 1,  /* it asks for no token */
    ROUTE_ADMIN = 2, /* it is at admin_listen too, */
    ROUTE_MOVES = 4  /* and then there alone */
};

/* What is at a path. */
struct route {
    const char *path;                           /* in which * stands for a part without a slash */
    const char *allow;                          /* methods, as in the Allow header */
    enum MHD_Result (*page)(struct call *call); /* queues the answer; NULL for what samples, which is POST */
    unsigned reach;                             /* of enum route_reach */
    bool kserve; /* of page NULL: an infer request, whatever its Content-Type */
};

#endif
