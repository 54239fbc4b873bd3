#include "server/pages.h"

#include "server/respond.h"

#include <stdio.h>
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

static const struct route routes[] = {
    {"/sample", "POST", NULL, 0},
    {"/livez", "GET, HEAD", livez, ROUTE_OPEN | ROUTE_ADMIN},
    {"/readyz", "GET, HEAD", readyz, ROUTE_OPEN | ROUTE_ADMIN},
    {"/healthz", "GET, HEAD", livez, ROUTE_OPEN | ROUTE_ADMIN},
    {"/version", "GET, HEAD", version, 0},
};

static bool is_here(const struct route *route, bool admin, bool has_admin)
{
    if (admin)
        return (route->reach & ROUTE_ADMIN) != 0;
    return !has_admin || (route->reach & ROUTE_MOVES) == 0;
}

const struct route *pages_find(const char *path, bool admin, bool has_admin)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (strcmp(routes[i].path, path) == 0 && is_here(&routes[i], admin, has_admin))
            return &routes[i];
    return NULL;
}
