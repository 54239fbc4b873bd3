#include "server/shm/shm.h"

#include "proto/answer/writer.h"
#include "server/shm/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct region {
    size_t offset, byte_size;
    struct mapping *mapping;
    bool writable;
    size_t pins;     /* under the mutex: one for being registered, one for each use */
    const char *key; /* behind the name */
    char name[];
};

struct shm {
    struct kserve_memory memory; /* first: its functions are called with it */
    size_t max_regions;
    pthread_mutex_t mutex; /* guards what follows */
    size_t count;
    struct region *regions[]; /* [count], room for max_regions */
};

/* ---- regions ---- */

static struct region *region_create(const char *name, const struct kserve_region *r)
{
    size_t name_bytes = strlen(name) + 1, key_bytes = strlen(r->key) + 1;
    struct region *region = malloc(sizeof *region + name_bytes + key_bytes);
    if (region == NULL)
        return NULL;
    char *key = region->name + name_bytes;
    *region = (struct region){.offset = r->offset, .byte_size = r->byte_size, .pins = 1, .key = key};
    memcpy(region->name, name, name_bytes);
    memcpy(key, r->key, key_bytes);
    return region;
}

static void region_destroy(struct region *region)
{
    mapping_destroy(region->mapping);
    free(region);
}

static size_t find(const struct shm *shm, const char *name)
{
    size_t i = 0;
    while (i < shm->count && strcmp(shm->regions[i]->name, name) != 0)
        i++;
    return i;
}

static void release(struct shm *shm, struct region *region)
{
    pthread_mutex_lock(&shm->mutex);
    bool last = --region->pins == 0;
    pthread_mutex_unlock(&shm->mutex);
    if (last)
        region_destroy(region);
}

static enum status unknown(const char *name, struct error *err)
{
    return error_set(err, STATUS_INVALID, "not_found", "there is no shared memory region %.80s", name);
}

static enum status shrunk(const struct region *region, struct error *err)
{
    return error_set(err, STATUS_INVALID, "out_of_range",
                     "the object %.80s of the shared memory region %.80s has become too small or has no "
                     "memory; register it again",
                     region->key, region->name);
}

/* ---- for decoders ---- */

static enum status pin(struct kserve_memory *memory, const struct kserve_place *place, struct kserve_pin *out,
                       struct error *err)
{
    struct shm *shm = (struct shm *)memory;
    size_t end;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&shm->mutex);
    size_t i = find(shm, place->region);
    struct region *region = i < shm->count ? shm->regions[i] : NULL;
    if (region == NULL)
        status = unknown(place->region, err);
    else if (__builtin_add_overflow(place->offset, place->bytes, &end) || end > region->byte_size)
        status = error_set(err, STATUS_INVALID, "out_of_range",
                           "%zu bytes at %zu are not in the shared memory region %.80s, which has %zu",
                           place->bytes, place->offset, place->region, region->byte_size);
    else {
        region->pins++;
        *out = (struct kserve_pin){region,
                                   {region->name, place->offset, place->bytes},
                                   (const char *)mapping_data(region->mapping) + place->offset};
    }
    pthread_mutex_unlock(&shm->mutex);
    return status;
}

static void unpin(struct kserve_memory *memory, struct kserve_pin *pin)
{
    release((struct shm *)memory, pin->region);
    pin->region = NULL;
}

static enum status check(const struct kserve_pin *pin, struct error *err)
{
    const struct region *region = pin->region;
    return mapping_check(region->mapping) ? STATUS_OK : shrunk(region, err);
}

static enum status write_pinned(const struct kserve_pin *pin, const void *data, size_t bytes,
                                struct error *err)
{
    const struct region *region = pin->region;
    if (!region->writable)
        return error_set(err, STATUS_INVALID, "out_of_range",
                         "cannot write to the shared memory region %.80s: %s", region->name,
                         strerror(EACCES));
    memcpy((char *)mapping_data(region->mapping) + pin->place.offset, data, bytes);
    return check(pin, err);
}

struct kserve_memory *shm_memory(struct shm *shm)
{
    return shm == NULL ? NULL : &shm->memory;
}

/* ---- registering ---- */

enum status shm_create(size_t max_regions, struct shm **out, struct error *err)
{
    struct shm *shm = calloc(1, sizeof *shm + max_regions * sizeof(void *));
    if (shm == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the list of regions");
    pthread_mutex_init(&shm->mutex, NULL);
    shm->max_regions = max_regions;
    shm->memory = (struct kserve_memory){pin, unpin, check, write_pinned};
    *out = shm;
    return STATUS_OK;
}

void shm_destroy(struct shm *shm)
{
    if (shm == NULL)
        return;
    shm_unregister(shm, NULL);
    pthread_mutex_destroy(&shm->mutex);
    free(shm);
}

/* A file name of /dev/shm: shm_open() would take no other, and ".." is none of it. */
static bool is_file_name(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/*
 * An object as large as the region says; *fd is open, and the caller's, after an error too.  What bears the
 * name may be a FIFO, which is not waited for.
 */
static enum status open_object(struct region *region, int *fd, struct error *err)
{
    struct stat object;
    size_t end;
    if (!is_file_name(region->key + (region->key[0] == '/')))
        return error_set(err, STATUS_INVALID, "out_of_range",
                         "key is \"%.80s\"; it must be a name without a slash, but for one before it",
                         region->key);
    *fd = shm_open(region->key, O_RDWR | O_NONBLOCK, 0);
    region->writable = *fd >= 0;
    if (*fd < 0 && errno == EACCES)
        *fd = shm_open(region->key, O_RDONLY | O_NONBLOCK, 0); /* for inputs alone */
    if (*fd < 0 && (errno == EMFILE || errno == ENFILE))
        return error_set(err, STATUS_OVERLOADED, "overloaded",
                         "no file descriptor is left for a shared memory region; try again");
    if (*fd < 0)
        return error_set(err, STATUS_INVALID, "not_found", "cannot open the shared memory object %.80s: %s",
                         region->key, strerror(errno));
    bool is_file = fstat(*fd, &object) == 0 && S_ISREG(object.st_mode);
    if (!is_file || __builtin_add_overflow(region->offset, region->byte_size, &end) ||
        end > (uint64_t)object.st_size)
        return error_set(err, STATUS_INVALID, "out_of_range",
                         "the shared memory object %.80s has %lld bytes; offset is %zu and byte_size %zu",
                         region->key, is_file ? (long long)object.st_size : 0, region->offset,
                         region->byte_size);
    return STATUS_OK;
}

static enum status map_object(struct region *region, struct error *err)
{
    int fd = -1;
    if (open_object(region, &fd, err) == STATUS_OK)
        return mapping_create(fd, region->offset, region->byte_size, region->writable, &region->mapping, err);
    if (fd >= 0)
        close(fd);
    return err->status;
}

static enum status add_region(struct shm *shm, struct region *region, struct error *err)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&shm->mutex);
    if (find(shm, region->name) < shm->count)
        status = error_set(err, STATUS_INVALID, "duplicate_parameter",
                           "there is a shared memory region %.80s already", region->name);
    else if (shm->count == shm->max_regions)
        status = error_set(err, STATUS_INVALID, "out_of_range",
                           "there are %zu shared memory regions, as many as max_shared_memory_regions allows",
                           shm->max_regions);
    else
        shm->regions[shm->count++] = region;
    pthread_mutex_unlock(&shm->mutex);
    return status;
}

enum status shm_register(struct shm *shm, const char *name, const struct kserve_region *r, struct error *err)
{
    struct region *region = region_create(name, r);
    if (region == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate a shared memory region");
    if (map_object(region, err) == STATUS_OK && add_region(shm, region, err) == STATUS_OK)
        return STATUS_OK;
    region_destroy(region);
    return err->status;
}

/* Take one out of the list; NULL when there is none. */
static struct region *take_out(struct shm *shm, const char *name)
{
    struct region *region = NULL;
    pthread_mutex_lock(&shm->mutex);
    size_t i = name == NULL ? 0 : find(shm, name);
    if (i < shm->count) {
        region = shm->regions[i];
        shm->count--;
        for (; i < shm->count; i++)
            shm->regions[i] = shm->regions[i + 1];
    }
    pthread_mutex_unlock(&shm->mutex);
    return region;
}

void shm_unregister(struct shm *shm, const char *name)
{
    struct region *region;
    while ((region = take_out(shm, name)) != NULL)
        release(shm, region);
}

/* ---- status ---- */

size_t shm_count(struct shm *shm)
{
    pthread_mutex_lock(&shm->mutex);
    size_t count = shm->count;
    pthread_mutex_unlock(&shm->mutex);
    return count;
}

static bool put_string(FILE *out, const char *text)
{
    size_t length = strlen(text);
    char *escaped = malloc(6 * length + 2);
    if (escaped == NULL)
        return false;
    struct writer w = {escaped};
    writer_string(&w, text, length);
    fwrite(escaped, 1, (size_t)(w.p - escaped), out);
    free(escaped);
    return true;
}

static enum status put_region(FILE *out, const struct region *r, struct error *err)
{
    fputs("{\"name\":", out);
    bool whole = put_string(out, r->name);
    fputs(",\"key\":", out);
    whole = whole && put_string(out, r->key);
    fprintf(out, ",\"offset\":%zu,\"byte_size\":%zu}", r->offset, r->byte_size);
    return whole ? STATUS_OK
                 : error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the status of a region");
}

enum status shm_write_status(struct shm *shm, const char *name, FILE *out, struct error *err)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&shm->mutex);
    if (name != NULL && find(shm, name) == shm->count)
        status = unknown(name, err);
    bool first = true;
    fputc('[', out);
    for (size_t i = 0; i < shm->count && status == STATUS_OK; i++) {
        const struct region *r = shm->regions[i];
        if (name != NULL && strcmp(r->name, name) != 0)
            continue;
        if (!first)
            fputc(',', out);
        first = false;
        status = put_region(out, r, err);
    }
    fputc(']', out);
    pthread_mutex_unlock(&shm->mutex);
    return status;
}
