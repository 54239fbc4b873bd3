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

#define SHM_MAX_REGIONS ((size_t)64) /* each has a mapping and a file descriptor */

/* Errors: STATUS_NO_MEMORY. */
enum status shm_create(struct shm **out, struct error *err);
void shm_destroy(struct shm *shm);

/*
 * Register bytes [offset, offset + byte_size) of the object that key names, under a name.
 *
 *   key  "/" and a file name of /dev/shm, without another slash
 *
 * Errors: STATUS_INVALID when there is no such object, it is too small, or the name is taken; those of
 * mapping_create().
 */
enum status shm_register(struct shm *shm, const char *name, const struct kserve_region *region,
                         struct error *err);

/* Forget a region, or all for NULL; a name that is not there is no error.  What is in use ends first. */
void shm_unregister(struct shm *shm, const char *name);

/* Write the regions, or the one of this name, as a JSON array.  Errors: STATUS_INVALID when it is unknown,
 * STATUS_NO_MEMORY. */
enum status shm_write_status(struct shm *shm, const char *name, FILE *out, struct error *err);

/* What decoders read from. */
struct kserve_memory *shm_memory(struct shm *shm);

#endif
