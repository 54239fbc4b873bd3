#ifndef SERVER_SHM_H
#define SERVER_SHM_H

#include "proto/kserve/kserve.h"
#include "proto/kserve/kserve_region.h"

#include <stdio.h>

/*
 * System shared memory of KServe v2: regions of /dev/shm that clients on this machine have registered.
 *
 * Regions are mapped (mapping.h), so that logits are read where the client put them.  A client that truncates
 * its region gets an error.  Thread-safe.
 * Source:
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_shared_memory.md
 */
struct shm;

/*
 *   max_regions  most regions at once, each with a mapping and a file descriptor; half of MAPPING_MOST leaves
 *                room for those in use
 *
 * Errors: STATUS_NO_MEMORY.
 */
enum status shm_create(size_t max_regions, struct shm **out, struct error *err);
void shm_destroy(struct shm *shm);

/*
 * Register bytes [offset, offset + byte_size) of the object that key names, under a name.
 *
 *   key  a file name of /dev/shm, with or without a slash before it
 *
 * Errors: STATUS_INVALID when there is no such object, it is too small, the name is taken or there are
 * max_regions; STATUS_OVERLOADED when no file descriptor is left; those of mapping_create().
 */
enum status shm_register(struct shm *shm, const char *name, const struct kserve_region *region,
                         struct error *err);

/* Forget a region, or all for NULL; a name that is not there is no error.  What is in use ends first. */
void shm_unregister(struct shm *shm, const char *name);

/* How many regions there are. */
size_t shm_count(struct shm *shm);

/* Write the regions, or the one of this name, as a JSON array.  Errors: STATUS_INVALID when it is unknown,
 * STATUS_NO_MEMORY. */
enum status shm_write_status(struct shm *shm, const char *name, FILE *out, struct error *err);

/* What decoders read from. */
struct kserve_memory *shm_memory(struct shm *shm);

#endif
