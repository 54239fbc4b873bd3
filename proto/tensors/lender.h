#ifndef PROTO_LENDER_H
#define PROTO_LENDER_H

#include "core/base/status.h"

/*
 * Where a decoder has large memory from, once it knows how much: logits that do not lie in the body as they
 * are to be read.  The owner counts it in its budget and keeps it for as long as the request.
 */
struct lender {
    /*
     * Lend bytes, aligned for any type and not cleared.
     * NULL with err set when they cannot be had: STATUS_TOO_LARGE, STATUS_OVERLOADED, STATUS_NO_MEMORY.
     */
    void *(*lend)(struct lender *lender, size_t bytes, struct error *err);
};

/*
 * The same bytes aligned to `alignment`, a power of two: where they are, or a copy that is lent.
 * NULL with err set when that cannot be had.
 */
const void *lender_align(struct lender *lender, const void *data, size_t bytes, size_t alignment,
                         struct error *err);

#define LENDER_MOST 32 /* loans of one request, at most */

#endif
