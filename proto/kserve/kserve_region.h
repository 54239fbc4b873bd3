#ifndef PROTO_KSERVE_REGION_H
#define PROTO_KSERVE_REGION_H

#include "core/base/status.h"

/* What registers a region: {"key":"/name","offset":0,"byte_size":64}, without offset 0 bytes. */
struct kserve_region {
    const char *key; /* a loan of texts */
    size_t offset, byte_size;
};

/*
 * Read that.  texts [length + 1] lends the key.  Errors: STATUS_INVALID malformed_kserve, malformed_json.
 */
enum status kserve_region_decode(const char *body, size_t length, char *texts, struct kserve_region *out,
                                 struct error *err);

#endif
