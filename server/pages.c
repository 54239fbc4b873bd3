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
    {"/sample", "POST", NULL},        {"/livez", "GET, HEAD", livez},     {"/readyz", "GET, HEAD", readyz},
    {"/healthz", "GET, HEAD", livez}, {"/version", "GET, HEAD", version},
};

const struct route *pages_find(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}
