#ifndef PROTO_KSERVE_MEMORY_H
#define PROTO_KSERVE_MEMORY_H

#include "core/status.h"

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
};

struct kserve_memory {
    /* Take a place into use, until unpin().  Errors: STATUS_INVALID when there is no such place. */
    enum status (*pin)(struct kserve_memory *memory, const struct kserve_place *place, struct kserve_pin *out,
                       struct error *err);
    void (*unpin)(struct kserve_memory *memory, struct kserve_pin *pin);

    /* Copy the bytes of the place.  Errors: STATUS_INVALID when they are there no longer. */
    enum status (*read)(const struct kserve_pin *pin, void *out, struct error *err);

    /* Write the first `bytes` of the place.  Errors as for read(). */
    enum status (*write)(const struct kserve_pin *pin, const void *data, size_t bytes, struct error *err);
};

#endif
