#include "server/request/respond.h"

#include "server/request/admission.h"
#include "server/request/cors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned respond_code(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return MHD_HTTP_OK;
    case STATUS_INVALID:
        return MHD_HTTP_BAD_REQUEST;
    case STATUS_UNSAMPLABLE:
        return MHD_HTTP_UNPROCESSABLE_CONTENT;
    case STATUS_TOO_LARGE:
        return MHD_HTTP_CONTENT_TOO_LARGE;
    case STATUS_UNSUPPORTED:
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    case STATUS_UNAUTHORIZED:
        return MHD_HTTP_UNAUTHORIZED;
    case STATUS_UNACCEPTABLE:
        return MHD_HTTP_NOT_ACCEPTABLE;
    case STATUS_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case STATUS_WRONG_METHOD:
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    case STATUS_TIMEOUT:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    case STATUS_OVERLOADED:
    case STATUS_NO_MEMORY:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case STATUS_INTERNAL:
        break;
    }
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* What every answer has; of content_type NULL, which has no body, no type. */
static void add_headers(struct call *call, unsigned code, const char *content_type, size_t bytes,
                        struct MHD_Response *response)
{
    if (content_type != NULL)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (call->close || shared_draining(call->shared))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    cors_add_headers(call, response);
    record_answer(call, code, bytes, response);
}

static enum MHD_Result send_response(struct call *call, unsigned code, const char *content_type, size_t bytes,
                                     struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO;
    if (!conn_enter(call->conn, CONN_ANSWER)) {
        MHD_destroy_response(response);
        return MHD_NO;
    }
    add_headers(call, code, content_type, bytes, response);
    enum MHD_Result queued = MHD_queue_response(call->connection, code, response);
    MHD_destroy_response(response);
    return queued;
}

enum MHD_Result respond_text(struct call *call, unsigned code, const char *content_type, const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    return send_response(call, code, content_type, strlen(text), response);
}

enum MHD_Result respond_nothing(struct call *call)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    return send_response(call, MHD_HTTP_NO_CONTENT, NULL, 0, response);
}

/* The free callback of a response: its buffer goes back to the lists. */
struct lent_answer {
    struct buffers *buffers;
    struct buffer buffer;
};

static void give_answer_back(void *argument)
{
    struct lent_answer *lent = argument;
    buffers_give(lent->buffers, &lent->buffer);
    free(lent);
}

/* The response takes the answer over. */
static struct MHD_Response *response_of(struct exchange *x)
{
    if (x->error_answer != NULL) {
        struct MHD_Response *response =
            MHD_create_response_from_buffer(x->answer_length, x->error_answer, MHD_RESPMEM_MUST_FREE);
        if (response != NULL)
            x->error_answer = NULL;
        return response;
    }
    struct lent_answer *lent = malloc(sizeof *lent);
    if (lent == NULL || x->answer.data == NULL) {
        free(lent);
        return NULL;
    }
    *lent = (struct lent_answer){x->buffers, x->answer};
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        x->answer_length, x->answer.data, give_answer_back, lent);
    if (response == NULL)
        free(lent); /* the buffer stays the exchange's */
    else
        x->answer = (struct buffer){0};
    return response;
}

/* What an answer of token ids alone cannot say: the seed that draws them again. */
static void add_seed(struct MHD_Response *response, const struct sample_request *request)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, request->seed.values[0]);
    if (!request->seed.per_row)
        MHD_add_response_header(response, "X-Samplerd-Seed", text);
}

/* Of an answer whose tensors are bytes. */
static enum answer_form add_header_length(struct MHD_Response *response, size_t bytes)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", bytes);
    MHD_add_response_header(response, ADMISSION_KSERVE_HEADER, text);
    return ANSWER_IDS;
}

/* What some errors must have. */
static void add_error_headers(const struct call *call, unsigned code, struct MHD_Response *response)
{
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, call->route->allow);
    if (code == MHD_HTTP_UNAUTHORIZED) /* RFC 6750, section 3: with one parameter at least */
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"samplerd\"");
    if (code == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
}

enum MHD_Result respond_answer(struct call *call)
{
    struct MHD_Response *response = response_of(&call->x);
    if (response == NULL)
        return MHD_NO;
    unsigned code = respond_code(call->x.status);
    add_error_headers(call, code, response);
    enum answer_form form = code == MHD_HTTP_OK ? call->x.form : ANSWER_JSON;
    if (form == ANSWER_IDS)
        add_seed(response, &call->x.request);
    if (code == MHD_HTTP_OK && call->x.answer_header_length > 0)
        form = add_header_length(response, call->x.answer_header_length);
    return send_response(call, code, negotiation_media[form], call->x.answer_length, response);
}

/* ---- in the middle of a body ---- */

static enum MHD_Result write_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    fprintf(cls, "%s: %s\r\n", name, value);
    return MHD_YES;
}

/* As libmicrohttpd would write it. */
static void write_answer(const struct exchange *x, unsigned code, struct MHD_Response *headers, FILE *out)
{
    fprintf(out, "HTTP/1.1 %u %s\r\n", code, MHD_get_reason_phrase_for(code));
    MHD_get_response_headers(headers, write_header, out);
    fprintf(out, "Content-Length: %zu\r\n\r\n", x->answer_length);
    fwrite(x->error_answer, 1, x->answer_length, out);
}

enum MHD_Result respond_early(struct call *call)
{
    const struct exchange *x = &call->x;
    unsigned code = respond_code(x->status);
    char *text = NULL;
    size_t length = 0;
    struct MHD_Response *headers = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    FILE *out = x->error_answer == NULL ? NULL : open_memstream(&text, &length);
    call->close = true;
    if (headers != NULL && out != NULL) {
        add_error_headers(call, code, headers);
        add_headers(call, code, negotiation_media[ANSWER_JSON], x->answer_length, headers);
        write_answer(x, code, headers, out);
    }
    if (out != NULL && fclose(out) == 0 && length > 0)
        conn_end_with(call->conn, call->connection, text, length);
    free(text);
    if (headers != NULL)
        MHD_destroy_response(headers);
    return MHD_NO;
}
