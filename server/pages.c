#include "server/pages.h"

#include "proto/kserve_meta.h"
#include "proto/openapi.h"
#include "server/exposition.h"
#include "server/process.h"
#include "server/respond.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum MHD_Result livez(struct call *call)
{
    return respond_text(call, MHD_HTTP_OK, "text/plain; charset=utf-8", "ok\n");
}

static enum MHD_Result readyz(struct call *call)
{
    bool draining = http_draining(call->http);
    return respond_text(call, draining ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                        "text/plain; charset=utf-8", draining ? "draining\n" : "ok\n");
}

static enum MHD_Result version(struct call *call)
{
    char text[256];
    snprintf(text, sizeof text, "{\"name\":\"samplerd\",\"version\":\"%s\",\"kernels\":\"%s\"}",
             SAMPLERD_VERSION, http_options(call->http)->kernels->name);
    return respond_text(call, MHD_HTTP_OK, "application/json", text);
}

static void read_gauges(struct http *http, uint64_t readings[NUM_METRICS])
{
    const struct http_options *options = http_options(http);
    struct process_figures process;
    process_read(&process);
    readings[METRIC_IN_FLIGHT] = http_in_flight(http);
    readings[METRIC_QUEUE] = pool_queued(options->pool);
    readings[METRIC_QUEUE_LIMIT] = options->config->queue_depth;
    readings[METRIC_BUFFERS] = buffers_in_use(options->buffers);
    readings[METRIC_BUFFERS_LIMIT] = buffers_limit(options->buffers);
    readings[METRIC_BUILD_INFO] = 1;
    readings[METRIC_PROCESS_CPU] = process.cpu_ns;
    readings[METRIC_PROCESS_MEMORY] = process.resident_bytes;
    readings[METRIC_PROCESS_OPEN_FDS] = process.open_fds;
    readings[METRIC_PROCESS_MAX_FDS] = process.max_fds;
    readings[METRIC_PROCESS_START] = metrics_started(options->metrics);
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
    read_gauges(call->http, readings);
    exposition_write(http_options(call->http)->metrics, readings, out);
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
    return respond_document(call, kserve_meta_server());
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
    if (!http_draining(call->http))
        return respond_text(call, MHD_HTTP_OK, "application/json", "{\"ready\":true}");
    return respond_text(call, MHD_HTTP_SERVICE_UNAVAILABLE, "application/json", "{\"error\":\"draining\"}");
}

static enum MHD_Result kserve_live(struct call *call)
{
    return respond_text(call, MHD_HTTP_OK, "application/json", "{\"live\":true}");
}

#define MODEL   "/v2/models/" KSERVE_MODEL
#define VERSION MODEL "/versions/" KSERVE_VERSION

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
};
#define NUM_ROUTES (sizeof routes / sizeof routes[0])

static bool is_here(const struct route *route, bool admin, bool has_admin)
{
    if (admin)
        return (route->reach & ROUTE_ADMIN) != 0;
    return !has_admin || (route->reach & ROUTE_MOVES) == 0;
}

const struct route *pages_find(const char *path, bool admin, bool has_admin)
{
    for (size_t i = 0; i < NUM_ROUTES; i++)
        if (strcmp(routes[i].path, path) == 0 && is_here(&routes[i], admin, has_admin))
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
