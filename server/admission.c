#include "server/admission.h"

#include "server/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bodies of unknown length start with this and double. */
#define CHUNKED_FIRST_BYTES ((size_t)64 << 10)

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Whether a media type, its parameters left out, is this one. */
static bool is_media(const char *content_type, const char *name)
{
    size_t length = strcspn(content_type, "; \t");
    return length == strlen(name) && strncasecmp(content_type, name, length) == 0;
}

static enum status judge_media(struct call *call)
{
    const char *type = header(call->connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (type != NULL && is_media(type, "application/json"))
        call->x.media = MEDIA_JSON;
    else if (type != NULL && is_media(type, "application/octet-stream"))
        call->x.media = MEDIA_RAW;
    else
        return error_set(
            &call->x.error, STATUS_UNSUPPORTED, "unsupported_media_type",
            "Content-Type is %.80s; send application/json, or application/octet-stream for raw logits",
            type == NULL ? "missing" : type);
    return STATUS_OK;
}

/* The body's buffer, sized once where the client says how long it is. */
static enum status judge_length(struct call *call)
{
    size_t limit = http_options(call->http)->config->max_body_bytes, first = CHUNKED_FIRST_BYTES;
    const char *length = header(call->connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (length != NULL) {
        errno = 0;
        unsigned long long bytes = strtoull(length, NULL, 10);
        if (errno != 0 || bytes > limit)
            return error_set(&call->x.error, STATUS_TOO_LARGE, "too_large",
                             "the body has %.30s bytes; max_body_bytes is %zu", length, limit);
        first = (size_t)bytes;
    }
    return buffers_take(call->x.buffers, first < limit ? first : limit, &call->x.body, &call->x.error);
}

enum status admission_judge(struct call *call, const char *url, const char *method)
{
    struct error *err = &call->x.error;
    call->route = pages_find(url);
    if (call->route == NULL)
        return error_set(
            err, STATUS_NOT_FOUND, "not_found",
            "there is nothing at %.80s; POST /sample samples, GET /healthz and /version tell of the server",
            url);
    call->sample = call->route->page == NULL;
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (call->sample ? strcmp(method, MHD_HTTP_METHOD_POST) != 0 : !get)
        return error_set(err, STATUS_WRONG_METHOD, "method_not_allowed", "%s takes %s, not %.20s",
                         call->route->path, call->route->allow, method);
    if (!call->sample)
        return STATUS_OK;
    if (judge_media(call) != STATUS_OK)
        return err->status;
    return judge_length(call);
}

bool admission_answers_at_once(const struct call *call)
{
    const char *expect = header(call->connection, MHD_HTTP_HEADER_EXPECT);
    const char *length = header(call->connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    bool asked = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    bool huge = length != NULL && strtoull(length, NULL, 10) > ADMISSION_SWALLOW_BYTES;
    return call->refused && (asked || huge);
}
