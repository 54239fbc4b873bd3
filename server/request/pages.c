#include "server/request/pages.h"

#include "proto/kserve/kserve_meta.h"
#include "proto/openapi/openapi.h"
#include "server/observe/exposition.h"
#include "server/observe/process.h"
#include "server/request/respond.h"

#include "server/shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum MHD_Result livez(struct call *call)
{
    return respond_text(call, MHD_HTTP_OK, "text/plain; charset=utf-8", "ok\n");
}

static enum MHD_Result readyz(struct call *call)
{
    bool draining = shared_draining(call->shared);
    return respond_text(call, draining ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                        "text/plain; charset=utf-8", draining ? "draining\n" : "ok\n");
}

static enum MHD_Result version(struct call *call)
{
    char text[256];
    snprintf(text, sizeof text, "{\"name\":\"samplerd\",\"version\":\"%s\",\"kernels\":\"%s\"}",
             SAMPLERD_VERSION, shared_parts(call->shared)->kernels->name);
    return respond_text(call, MHD_HTTP_OK, "application/json", text);
}

static void read_gauges(struct shared *shared, uint64_t readings[NUM_METRICS])
{
    const struct shared_parts *parts = shared_parts(shared);
    struct process_figures process;
    process_read(&process);
    readings[METRIC_IN_FLIGHT] = shared_in_flight(shared);
    readings[METRIC_CONNECTIONS] = conns_count(parts->conns);
    readings[METRIC_CONNECTIONS_LIMIT] = conns_limit(parts->conns);
    readings[METRIC_QUEUE] = pool_queued(parts->pool);
    readings[METRIC_QUEUE_LIMIT] = parts->config->queue_depth;
    readings[METRIC_BUFFERS] = buffers_in_use(parts->buffers);
    readings[METRIC_BUFFERS_LIMIT] = buffers_limit(parts->buffers);
    readings[METRIC_REGIONS] = parts->shm == NULL ? EXPOSITION_UNKNOWN : shm_count(parts->shm);
    readings[METRIC_REGIONS_LIMIT] =
        parts->shm == NULL ? EXPOSITION_UNKNOWN : parts->config->max_shared_memory_regions;
    readings[METRIC_BUILD_INFO] = 1;
    readings[METRIC_PROCESS_CPU] = process.cpu_ns;
    readings[METRIC_PROCESS_MEMORY] = process.resident_bytes;
    readings[METRIC_PROCESS_OPEN_FDS] = process.open_fds;
    readings[METRIC_PROCESS_MAX_FDS] = process.max_fds;
    readings[METRIC_PROCESS_START] = metrics_started(parts->metrics);
    readings[METRIC_PROCESS_THREADS] = process.threads;
}

static enum MHD_Result metrics(struct call *call)
{
    uint64_t readings[NUM_METRICS] = {0};
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return MHD_NO;
    read_gauges(call->shared, readings);
    exposition_write(shared_parts(call->shared)->metrics, readings, out);
    enum MHD_Result queued = MHD_NO; /* when memory is short */
    if (fclose(out) == 0)
        queued = respond_text(call, MHD_HTTP_OK, EXPOSITION_CONTENT_TYPE, text);
    free(text);
    return queued;
}

static enum MHD_Result openapi(struct call *call)
{
    char *text = openapi_document();
    enum MHD_Result queued =
        text == NULL ? MHD_NO : respond_text(call, MHD_HTTP_OK, "application/json", text);
    free(text);
    return queued;
}

static enum MHD_Result respond_document(struct call *call, char *text)
{
    enum MHD_Result queued =
        text == NULL ? MHD_NO : respond_text(call, MHD_HTTP_OK, "application/json", text);
    free(text);
    return queued;
}

static enum MHD_Result kserve_server(struct call *call)
{
    return respond_document(call, kserve_meta_server(shared_parts(call->shared)->shm != NULL));
}

static enum MHD_Result kserve_model(struct call *call)
{
    return respond_document(call, kserve_meta_model());
}

static enum MHD_Result kserve_config(struct call *call)
{
    return respond_document(call, kserve_meta_config());
}

/* Not ready is an error here, as every other. */
static enum MHD_Result kserve_ready(struct call *call)
{
    if (!shared_draining(call->shared))
        return respond_text(call, MHD_HTTP_OK, "application/json", "{\"ready\":true}");
    return respond_text(call, MHD_HTTP_SERVICE_UNAVAILABLE, "application/json", "{\"error\":\"draining\"}");
}

static enum MHD_Result kserve_live(struct call *call)
{
    return respond_text(call, MHD_HTTP_OK, "application/json", "{\"live\":true}");
}

#define MODEL   "/v2/models/" KSERVE_MODEL
#define VERSION MODEL "/versions/" KSERVE_VERSION

/* ---- system shared memory ---- */

#define REGIONS "/v2/systemsharedmemory"
#define REGION  REGIONS "/region/"

static enum MHD_Result respond_error(struct call *call)
{
    exchange_answer_error(&call->x);
    return respond_answer(call);
}

/* The regions, if they are served. */
static struct shm *regions_of(struct call *call)
{
    struct shm *shm = shared_parts(call->shared)->shm;
    if (shm == NULL)
        error_set(&call->x.error, STATUS_NOT_FOUND, "not_found", "system_shared_memory is off");
    return shm;
}

/* The name in the path, which the caller frees; NULL where all regions are meant, or with err set. */
static char *region_name(struct call *call, enum status *status)
{
    *status = STATUS_OK;
    if (strncmp(call->url, REGION, strlen(REGION)) != 0)
        return NULL;
    const char *name = call->url + strlen(REGION);
    char *copy = strndup(name, strcspn(name, "/"));
    if (copy == NULL)
        *status = error_set(&call->x.error, STATUS_NO_MEMORY, "no_memory", "cannot allocate a name");
    return copy;
}

static enum status register_region(struct call *call, struct shm *shm, const char *name)
{
    struct exchange *x = &call->x;
    struct kserve_region region;
    char *texts = malloc(x->length + 1);
    if (texts == NULL)
        return error_set(&x->error, STATUS_NO_MEMORY, "no_memory", "cannot allocate a region");
    enum status status = kserve_region_decode(x->body.data, x->length, texts, &region, &x->error);
    if (status == STATUS_OK)
        status = shm_register(shm, name, &region, &x->error);
    free(texts);
    return status;
}

static enum status unregister_region(struct call *call, struct shm *shm, const char *name)
{
    (void)call;
    shm_unregister(shm, name);
    return STATUS_OK;
}

/* Do something to a region, or to all; the answer is an empty object. */
static enum MHD_Result
change_regions(struct call *call, enum status (*change)(struct call *call, struct shm *shm, const char *name))
{
    enum status status = STATUS_NOT_FOUND;
    struct shm *shm = regions_of(call);
    if (shm == NULL)
        return respond_error(call);
    char *name = region_name(call, &status);
    if (status == STATUS_OK)
        status = change(call, shm, name);
    free(name);
    return status == STATUS_OK ? respond_text(call, MHD_HTTP_OK, "application/json", "{}")
                               : respond_error(call);
}

static enum MHD_Result shm_register_page(struct call *call)
{
    return change_regions(call, register_region);
}

static enum MHD_Result shm_unregister_page(struct call *call)
{
    return change_regions(call, unregister_region);
}

static enum MHD_Result shm_status_page(struct call *call)
{
    char *text = NULL;
    size_t length;
    enum status status = STATUS_NOT_FOUND;
    struct shm *shm = regions_of(call);
    if (shm == NULL)
        return respond_error(call);
    char *name = region_name(call, &status);
    FILE *out = status == STATUS_OK ? open_memstream(&text, &length) : NULL;
    if (out != NULL)
        status = shm_write_status(shm, name, out, &call->x.error);
    free(name);
    if (out == NULL || fclose(out) != 0 || status != STATUS_OK) {
        free(text);
        return status == STATUS_OK ? MHD_NO : respond_error(call);
    }
    return respond_document(call, text);
}

static const struct route routes[] = {
    {"/sample", "POST", NULL, 0, false},
    {"/livez", "GET, HEAD", livez, ROUTE_OPEN | ROUTE_ADMIN, false},
    {"/readyz", "GET, HEAD", readyz, ROUTE_OPEN | ROUTE_ADMIN, false},
    {"/healthz", "GET, HEAD", livez, ROUTE_OPEN | ROUTE_ADMIN, false},
    {"/version", "GET, HEAD", version, 0, false},
    {"/metrics", "GET, HEAD", metrics, ROUTE_ADMIN | ROUTE_MOVES, false},
    {"/openapi.json", "GET, HEAD", openapi, 0, false},
    {"/v2", "GET, HEAD", kserve_server, 0, false},
    {"/v2/health/live", "GET, HEAD", kserve_live, ROUTE_OPEN, false},
    {"/v2/health/ready", "GET, HEAD", kserve_ready, ROUTE_OPEN, false},
    {MODEL, "GET, HEAD", kserve_model, 0, false},
    {MODEL "/ready", "GET, HEAD", kserve_ready, 0, false},
    {MODEL "/config", "GET, HEAD", kserve_config, 0, false},
    {MODEL "/infer", "POST", NULL, 0, true},
    {VERSION, "GET, HEAD", kserve_model, 0, false},
    {VERSION "/ready", "GET, HEAD", kserve_ready, 0, false},
    {VERSION "/config", "GET, HEAD", kserve_config, 0, false},
    {VERSION "/infer", "POST", NULL, 0, true},
    {REGIONS "/status", "GET, HEAD", shm_status_page, 0, false},
    {REGION "*/status", "GET, HEAD", shm_status_page, 0, false},
    {REGION "*/register", "POST", shm_register_page, 0, false},
    {REGIONS "/unregister", "POST", shm_unregister_page, 0, false},
    {REGION "*/unregister", "POST", shm_unregister_page, 0, false},
};
#define NUM_ROUTES (sizeof routes / sizeof routes[0])

static bool is_here(const struct route *route, bool admin, bool has_admin)
{
    if (admin)
        return (route->reach & ROUTE_ADMIN) != 0;
    return !has_admin || (route->reach & ROUTE_MOVES) == 0;
}

static bool matches(const char *pattern, const char *path)
{
    size_t before = strcspn(pattern, "*");
    if (pattern[before] == '\0')
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, before) != 0)
        return false;
    size_t part = strcspn(path + before, "/");
    return part > 0 && strcmp(pattern + before + 1, path + before + part) == 0;
}

const struct route *pages_find(const char *path, bool admin, bool has_admin)
{
    for (size_t i = 0; i < NUM_ROUTES; i++)
        if (matches(routes[i].path, path) && is_here(&routes[i], admin, has_admin))
            return &routes[i];
    return NULL;
}

bool pages_is_kserve(const char *path)
{
    return strncmp(path, "/v2", 3) == 0 && (path[3] == '\0' || path[3] == '/');
}

size_t pages_place(const struct route *route)
{
    return route == NULL ? NUM_ROUTES : (size_t)(route - routes);
}

const char *pages_path(size_t place)
{
    return place < NUM_ROUTES ? routes[place].path : NULL;
}
