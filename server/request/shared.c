#include "server/request/shared.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct idle_sampler {
    struct sampler sampler; /* first, so that one is the other */
    struct idle_sampler *next;
};

struct shared {
    struct shared_parts parts;
    atomic_bool draining;
    pthread_mutex_t mutex;
    size_t in_flight;                   /* guarded by mutex */
    struct idle_sampler *idle_samplers; /* guarded by mutex; at most one for each I/O thread is made */
};

enum status shared_create(const struct shared_parts *parts, struct shared **out, struct error *err)
{
    struct shared *shared = calloc(1, sizeof *shared);
    if (shared == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate what requests share");
    shared->parts = *parts;
    pthread_mutex_init(&shared->mutex, NULL);
    *out = shared;
    return STATUS_OK;
}

void shared_destroy(struct shared *shared)
{
    if (shared == NULL)
        return;
    assert(shared->in_flight == 0);
    while (shared->idle_samplers != NULL) {
        struct idle_sampler *idle = shared->idle_samplers;
        shared->idle_samplers = idle->next;
        sampler_fini(&idle->sampler);
        free(idle);
    }
    pthread_mutex_destroy(&shared->mutex);
    free(shared);
}

const struct shared_parts *shared_parts(const struct shared *shared)
{
    return &shared->parts;
}

static struct idle_sampler *make_sampler(const struct shared *shared)
{
    struct error ignored;
    struct idle_sampler *made = calloc(1, sizeof *made);
    if (made == NULL || sampler_init(&made->sampler, shared->parts.kernels, &ignored) != STATUS_OK) {
        free(made);
        return NULL;
    }
    return made;
}

struct sampler *shared_borrow_sampler(struct shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    struct idle_sampler *idle = shared->idle_samplers;
    if (idle != NULL)
        shared->idle_samplers = idle->next;
    pthread_mutex_unlock(&shared->mutex);
    if (idle == NULL)
        idle = make_sampler(shared);
    return idle == NULL ? NULL : &idle->sampler;
}

void shared_return_sampler(struct shared *shared, struct sampler *sampler)
{
    struct idle_sampler *idle = (struct idle_sampler *)sampler;
    pthread_mutex_lock(&shared->mutex);
    idle->next = shared->idle_samplers;
    shared->idle_samplers = idle;
    pthread_mutex_unlock(&shared->mutex);
}

void shared_count(struct shared *shared, int change)
{
    pthread_mutex_lock(&shared->mutex);
    shared->in_flight += (size_t)change;
    pthread_mutex_unlock(&shared->mutex);
}

size_t shared_in_flight(struct shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    size_t in_flight = shared->in_flight;
    pthread_mutex_unlock(&shared->mutex);
    return in_flight;
}

void shared_drain(struct shared *shared)
{
    atomic_store(&shared->draining, true);
}

bool shared_draining(const struct shared *shared)
{
    return atomic_load(&shared->draining);
}
