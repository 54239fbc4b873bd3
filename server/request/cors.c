#include "server/request/cors.h"

#include "server/config/origins.h"
#include "server/request/admission.h"

#include <string.h>

/* Headers that requests are read for; browsers send Accept unasked, but not every value of it. */
#define REQUEST_HEADERS                                                                                      \
    "Authorization, Content-Type, Content-Encoding, Accept, X-Request-Id, "                                  \
    "traceparent, " ADMISSION_TIMEOUT_HEADER ", " ADMISSION_KSERVE_HEADER

/* Headers of answers that a page could not read otherwise. */
#define ANSWER_HEADERS                                                                                       \
    "X-Request-Id, X-Samplerd-Seed, " ADMISSION_KSERVE_HEADER                                                \
    ", Server-Timing, Retry-After, WWW-Authenticate, Allow"

/* Of a path where nothing is: its page may read the 404. */
#define ANY_METHOD "GET, HEAD, POST"

#define PREFLIGHT_SECONDS "7200" /* no browser but Firefox remembers for longer */

static const char *header(const struct call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* cors_origins, or "" where they do not hold. */
static const char *origins_of(const struct call *call)
{
    return call->admin ? "" : shared_parts(call->shared)->config->cors_origins;
}

bool cors_is_preflight(const struct call *call, const char *method)
{
    return origins_of(call)[0] != '\0' && strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0 &&
           header(call, MHD_HTTP_HEADER_ORIGIN) != NULL &&
           header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_METHOD) != NULL;
}

static void add_preflight(const struct call *call, struct MHD_Response *response)
{
    const char *methods = call->route == NULL ? ANY_METHOD : call->route->allow;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, methods);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
}

void cors_add_headers(const struct call *call, struct MHD_Response *response)
{
    const char *origins = origins_of(call), *origin = header(call, MHD_HTTP_HEADER_ORIGIN);
    if (origins[0] == '\0')
        return;
    bool every = origins_is_every(origins);
    if (!every) /* without an Origin too: a cache must not give that answer to a page */
        MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    if (origin == NULL || !origins_has(origins, origin))
        return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, every ? "*" : origin);
    if (call->preflight && call->x.status == STATUS_OK)
        add_preflight(call, response);
    else
        MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
}
