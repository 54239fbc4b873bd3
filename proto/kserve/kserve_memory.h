#ifndef PROTO_KSERVE_MEMORY_H
#define PROTO_KSERVE_MEMORY_H

#include "core/base/status.h"

/* Memory that a client shares with the server, as whoever has the regions lends it. */

/* Bytes of a region. */
struct kserve_place {
    const char *region;
    size_t offset, bytes;
};

/* A region in use. */
struct kserve_pin {
    void *region;              /* NULL: none */
    struct kserve_place place; /* its name lives as long as the pin */
    const void *data;          /* [place.bytes] where they lie; the client may change them at any time */
};

struct kserve_memory {
    /*
     * Take a place into use, until unpin(), which leaves *pin without a region.
     * Errors: STATUS_INVALID when there is no such place.
     */
    enum status (*pin)(struct kserve_memory *memory, const struct kserve_place *place, struct kserve_pin *out,
                       struct error *err);
    void (*unpin)(struct kserve_memory *memory, struct kserve_pin *pin);

    /*
     * Whether what was read there since pin() were the client's bytes.
     * Errors: STATUS_INVALID when the region has lost some of them: then they were zeros.
     */
    enum status (*check)(const struct kserve_pin *pin, struct error *err);

    /* Write the first `bytes` of the place.  Errors as for check(). */
    enum status (*write)(const struct kserve_pin *pin, const void *data, size_t bytes, struct error *err);
};

#endif
