#include "server/request/admission.h"

#include "server/request/cors.h"
#include "server/request/pages.h"

#include <errno.h>
#include <limits.h>
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

static const struct {
    const char *name;
    enum media media;
} media_types[] = {
    {"application/json", MEDIA_JSON},
    {"application/octet-stream", MEDIA_RAW},
    {"application/x-npy", MEDIA_NPY},
    {"application/x-safetensors", MEDIA_SAFETENSORS},
};

/* A header's whole number, ULLONG_MAX where it is too large; false when it is none. */
static bool read_whole(const char *text, unsigned long long *out)
{
    size_t digits = strspn(text, "0123456789");
    *out = strtoull(text, NULL, 10);
    return digits > 0 && text[digits] == '\0';
}

/* How much of an infer request is JSON, behind which tensors follow as bytes. */
static enum status judge_header_length(struct call *call)
{
    const char *text = header(call->connection, ADMISSION_KSERVE_HEADER);
    call->x.header_length = KSERVE_ALL_JSON;
    if (text == NULL)
        return STATUS_OK;
    unsigned long long bytes;
    if (!read_whole(text, &bytes) || bytes >= SIZE_MAX)
        return error_set(&call->x.error, STATUS_INVALID, "out_of_range",
                         ADMISSION_KSERVE_HEADER " is \"%.40s\"; it must be the bytes of the JSON", text);
    call->x.header_length = (size_t)bytes;
    return STATUS_OK;
}

/* Of an infer request the path says what it is; its clients send any Content-Type, or none. */
static enum status judge_kserve(struct call *call)
{
    call->x.media = MEDIA_KSERVE;
    return judge_header_length(call);
}

/* Compressed bytes could pass for raw logits. */
static enum status judge_coding(struct call *call)
{
    const char *coding = header(call->connection, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (coding == NULL || *coding == '\0' || strcasecmp(coding, "identity") == 0)
        return STATUS_OK;
    return error_set(&call->x.error, STATUS_UNSUPPORTED, "unsupported_media_type",
                     "Content-Encoding is %.40s; bodies are taken as they are", coding);
}

static enum status judge_media(struct call *call)
{
    if (call->route->kserve)
        return judge_kserve(call);
    const char *type = header(call->connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    for (size_t i = 0; type != NULL && i < sizeof media_types / sizeof media_types[0]; i++) {
        if (is_media(type, media_types[i].name)) {
            call->x.media = media_types[i].media;
            return STATUS_OK;
        }
    }
    return error_set(&call->x.error, STATUS_UNSUPPORTED, "unsupported_media_type",
                     "Content-Type is %.60s; send application/json, application/octet-stream for raw logits, "
                     "application/x-npy or application/x-safetensors",
                     type == NULL ? "missing" : type);
}

static enum MHD_Result take_accept(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    if (value != NULL && strcasecmp(key, MHD_HTTP_HEADER_ACCEPT) == 0)
        negotiation_add(cls, value);
    return MHD_YES;
}

static enum status judge_accept(struct call *call)
{
    if (call->route->kserve)
        return STATUS_OK; /* the request itself says which outputs are bytes */
    struct negotiation accept = {0};
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, take_accept, &accept);
    if (negotiation_choose(&accept, &call->x.form))
        return STATUS_OK;
    return error_set(&call->x.error, STATUS_UNACCEPTABLE, "not_acceptable",
                     "Accept allows neither of the two answers there are: %s, and %s for token ids alone",
                     negotiation_media[ANSWER_JSON], negotiation_media[ANSWER_IDS]);
}

/* The body's buffer, sized once where the client says how long it is. */
static enum status judge_length(struct call *call)
{
    size_t limit = shared_parts(call->shared)->config->max_body_bytes, first = CHUNKED_FIRST_BYTES;
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

/* Whoever is unknown learns nothing, not even what there is. */
static enum status judge_caller(struct call *call)
{
    if (call->admin || (call->route != NULL && (call->route->reach & ROUTE_OPEN) != 0))
        return STATUS_OK;
    return access_judge(shared_parts(call->shared)->access,
                        header(call->connection, MHD_HTTP_HEADER_AUTHORIZATION), &call->x.error);
}

/* X-Request-Timeout-Ms: a client may wait less than request_timeout_ms, never more. */
static enum status judge_timeout(struct call *call)
{
    const char *text = header(call->connection, ADMISSION_TIMEOUT_HEADER);
    if (text == NULL)
        return STATUS_OK;
    unsigned long long ms;
    if (!read_whole(text, &ms) || ms == 0) {
        error_set(&call->x.error, STATUS_INVALID, "out_of_range",
                  ADMISSION_TIMEOUT_HEADER " is \"%.40s\"; it must be a whole number of milliseconds from 1",
                  text);
        return error_at(&call->x.error, ADMISSION_TIMEOUT_HEADER, ERROR_NO_ROW);
    }
    unsigned most = call->timeout_ms == 0 ? UINT_MAX : call->timeout_ms;
    call->timeout_ms = ms < most ? (unsigned)ms : most;
    return STATUS_OK;
}

static enum status not_found(const char *url, struct error *err)
{
    static const char models[] = "/v2/models/";
    if (strncmp(url, models, strlen(models)) == 0)
        return error_set(err, STATUS_NOT_FOUND, "not_found",
                         "there is nothing at %.80s; the one model is " KSERVE_MODEL
                         ", its one version " KSERVE_VERSION,
                         url);
    return error_set(
        err, STATUS_NOT_FOUND, "not_found",
        "there is nothing at %.80s; POST /sample samples, GET /healthz and /version tell of the server", url);
}

enum status admission_judge(struct call *call, const char *method)
{
    struct error *err = &call->x.error;
    const struct config *config = shared_parts(call->shared)->config;
    call->route = pages_find(call->url, call->admin, config->admin_listen[0] != '\0');
    call->route_place = pages_place(call->route);
    call->preflight = cors_is_preflight(call, method);
    if (call->preflight)
        return STATUS_OK;
    if (judge_caller(call) != STATUS_OK)
        return err->status;
    if (call->route == NULL)
        return not_found(call->url, err);
    call->sample = call->route->page == NULL;
    call->takes_body = strcmp(call->route->allow, MHD_HTTP_METHOD_POST) == 0;
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (call->takes_body ? strcmp(method, MHD_HTTP_METHOD_POST) != 0 : !get)
        return error_set(err, STATUS_WRONG_METHOD, "method_not_allowed", "%s takes %s, not %.20s",
                         call->route->path, call->route->allow, method);
    if (!call->takes_body)
        return STATUS_OK;
    if (judge_coding(call) != STATUS_OK)
        return err->status;
    if (call->sample && (judge_media(call) != STATUS_OK || judge_accept(call) != STATUS_OK ||
                         judge_timeout(call) != STATUS_OK))
        return err->status;
    return judge_length(call);
}

size_t admission_swallow_bytes(const struct config *config)
{
    static const size_t least = (size_t)4 << 20;
    return config->max_body_bytes > least ? config->max_body_bytes : least;
}

bool admission_answers_at_once(const struct call *call)
{
    const char *expect = header(call->connection, MHD_HTTP_HEADER_EXPECT);
    const char *length = header(call->connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    bool asked = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    size_t swallowed = admission_swallow_bytes(shared_parts(call->shared)->config);
    bool huge = length != NULL && strtoull(length, NULL, 10) > swallowed;
    return call->refused && (asked || huge);
}
