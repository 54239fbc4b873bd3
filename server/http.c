#include "server/http.h"

#include "server/exchange.h"
#include "server/log.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* Measured: 128 KiB takes both small requests and 512-KiB uploads fastest. */
#define CONNECTION_MEMORY (128u << 10)

/* A refused body is read to its end up to here, so that the client sees the answer and not a reset. */
#define SWALLOW_BYTES ((size_t)4 << 20)

/* Bodies of unknown length start with this and double. */
#define CHUNKED_FIRST_BYTES ((size_t)64 << 10)

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    atomic_bool draining;
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    size_t in_flight; /* guarded by mutex */
};

struct route {
    const char *path;
    const char *allow; /* as in the Allow header */
    enum MHD_Result (*answer)(struct http *http, struct MHD_Connection *connection); /* NULL for /sample */
};

/* One request of a connection, from its headers to its last byte. */
struct call {
    struct http *http;
    struct MHD_Connection *connection;
    const struct route *route;
    bool post;        /* to be sampled, unless refused */
    bool refused;     /* x.error says why */
    bool close;       /* after the answer */
    bool submitted;   /* to the pool, or answered where it stood */
    size_t swallowed; /* bytes of a refused body */
    struct exchange x;
};

/* The one place where a status becomes an HTTP code. */
static unsigned http_code(enum status status)
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
    case STATUS_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case STATUS_WRONG_METHOD:
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    case STATUS_OVERLOADED:
    case STATUS_NO_MEMORY:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case STATUS_INTERNAL:
        break;
    }
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* ---- answers ---- */

static enum MHD_Result send_response(struct http *http, struct MHD_Connection *connection, unsigned code,
                                     const char *content_type, bool close, struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (close || atomic_load(&http->draining))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result queued = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return queued;
}

/* text is copied */
static enum MHD_Result send_text(struct http *http, struct MHD_Connection *connection, unsigned code,
                                 const char *content_type, const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    return send_response(http, connection, code, content_type, false, response);
}

static enum MHD_Result answer_livez(struct http *http, struct MHD_Connection *connection)
{
    return send_text(http, connection, MHD_HTTP_OK, "text/plain; charset=utf-8", "ok\n");
}

static enum MHD_Result answer_readyz(struct http *http, struct MHD_Connection *connection)
{
    bool draining = atomic_load(&http->draining);
    return send_text(http, connection, draining ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                     "text/plain; charset=utf-8", draining ? "draining\n" : "ok\n");
}

static enum MHD_Result answer_version(struct http *http, struct MHD_Connection *connection)
{
    char text[256];
    snprintf(text, sizeof text, "{\"name\":\"samplerd\",\"version\":\"%s\",\"kernels\":\"%s\"}",
             SAMPLERD_VERSION, http->options.kernels->name);
    return send_text(http, connection, MHD_HTTP_OK, "application/json", text);
}

static const struct route routes[] = {
    {"/sample", "POST", NULL},
    {"/livez", "GET, HEAD", answer_livez},
    {"/readyz", "GET, HEAD", answer_readyz},
    {"/healthz", "GET, HEAD", answer_livez},
    {"/version", "GET, HEAD", answer_version},
};

static const struct route *find_route(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
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

static enum MHD_Result send_answer(struct call *call)
{
    struct MHD_Response *response = response_of(&call->x);
    if (response == NULL)
        return MHD_NO;
    unsigned code = http_code(call->x.status);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, call->route->allow);
    if (code == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    return send_response(call->http, call->connection, code, "application/json", call->close, response);
}

/* ---- judging a request by its headers ---- */

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
    size_t limit = call->http->options.config->max_body_bytes, first = CHUNKED_FIRST_BYTES;
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

static enum status judge(struct call *call, const char *url, const char *method)
{
    struct error *err = &call->x.error;
    call->route = find_route(url);
    if (call->route == NULL)
        return error_set(
            err, STATUS_NOT_FOUND, "not_found",
            "there is nothing at %.80s; POST /sample samples, GET /healthz and /version tell of the server",
            url);
    call->post = call->route->answer == NULL;
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (call->post ? strcmp(method, MHD_HTTP_METHOD_POST) != 0 : !get)
        return error_set(err, STATUS_WRONG_METHOD, "method_not_allowed", "%s takes %s, not %.20s",
                         call->route->path, call->route->allow, method);
    if (!call->post)
        return STATUS_OK;
    if (judge_media(call) != STATUS_OK)
        return err->status;
    return judge_length(call);
}

/* ---- the body ---- */

static void refuse(struct call *call)
{
    call->refused = true;
    buffers_give(call->x.buffers, &call->x.body);
    exchange_answer_error(&call->x);
}

static enum status append(struct call *call, const char *data, size_t size)
{
    struct exchange *x = &call->x;
    size_t limit = call->http->options.config->max_body_bytes, needed = x->length + size;
    if (needed > limit)
        return error_set(&x->error, STATUS_TOO_LARGE, "too_large",
                         "the body has more than %zu bytes, which is max_body_bytes", limit);
    if (needed > x->body.capacity) {
        size_t doubled = 2 * needed < limit ? 2 * needed : limit;
        if (buffers_grow(x->buffers, doubled, x->length, &x->body, &x->error) != STATUS_OK)
            return x->error.status;
    }
    memcpy(x->body.data + x->length, data, size);
    x->length = needed;
    return STATUS_OK;
}

static enum MHD_Result take_body(struct call *call, const char *data, size_t *size)
{
    if (!call->refused && call->post && append(call, data, *size) != STATUS_OK)
        refuse(call);
    if (call->refused || !call->post) {
        call->swallowed += *size;
        if (call->swallowed > SWALLOW_BYTES)
            return MHD_NO;
    }
    *size = 0;
    return MHD_YES;
}

/* ---- sampling ---- */

static void exchange_done(struct exchange *x)
{
    struct call *call = x->owner;
    MHD_resume_connection(call->connection);
}

static enum MHD_Result collect_field(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    struct exchange *x = cls;
    x->fields[x->num_fields++] = (struct raw_field){key, value};
    return MHD_YES;
}

/* The query, as loans of the connection that live until the answer is sent. */
static enum status collect_query(struct call *call)
{
    struct exchange *x = &call->x;
    int count = MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, NULL, NULL);
    x->fields = calloc(count > 0 ? (size_t)count : 1, sizeof *x->fields);
    if (x->fields == NULL)
        return error_set(&x->error, STATUS_NO_MEMORY, "no_memory", "cannot allocate %d query fields", count);
    MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, collect_field, x);
    return STATUS_OK;
}

/* A worker may finish before this returns, so the connection is suspended first. */
static enum MHD_Result submit(struct call *call)
{
    struct exchange *x = &call->x;
    call->submitted = true;
    if (collect_query(call) != STATUS_OK) {
        refuse(call);
        return send_answer(call);
    }
    x->done = exchange_done;
    x->owner = call;
    MHD_suspend_connection(call->connection);
    if (exchange_submit(x, call->http->options.pool, &x->error) != STATUS_OK) {
        refuse(call);
        MHD_resume_connection(call->connection);
    }
    return MHD_YES;
}

/* ---- libmicrohttpd's callbacks ---- */

static void count_call(struct http *http, int change)
{
    pthread_mutex_lock(&http->mutex);
    http->in_flight += (size_t)change;
    if (http->in_flight == 0)
        pthread_cond_broadcast(&http->idle);
    pthread_mutex_unlock(&http->mutex);
}

static struct call *call_create(struct http *http, struct MHD_Connection *connection)
{
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    call->http = http;
    call->connection = connection;
    exchange_init(&call->x, http->options.buffers, http->options.config->max_answer_bytes);
    count_call(http, 1);
    return call;
}

/*
 * A refusal that need not wait for the body: the client asked first with Expect: 100-continue, or the body is
 * more than we would read.  The connection cannot go on after it.
 */
static bool answer_at_once(struct call *call)
{
    const char *expect = header(call->connection, MHD_HTTP_HEADER_EXPECT);
    const char *length = header(call->connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    bool asked = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    bool huge = length != NULL && strtoull(length, NULL, 10) > SWALLOW_BYTES;
    return call->refused && (asked || huge);
}

static enum MHD_Result begin(struct http *http, struct MHD_Connection *connection, const char *url,
                             const char *method, void **con_cls)
{
    struct call *call = call_create(http, connection);
    if (call == NULL)
        return MHD_NO;
    *con_cls = call;
    if (judge(call, url, method) != STATUS_OK)
        refuse(call);
    if (!answer_at_once(call))
        return MHD_YES;
    call->close = true;
    return send_answer(call);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **con_cls)
{
    (void)version;
    struct http *http = cls;
    if (*con_cls == NULL)
        return begin(http, connection, url, method, con_cls);
    struct call *call = *con_cls;
    if (*upload_data_size > 0)
        return take_body(call, upload_data, upload_data_size);
    if (call->post && !call->refused && !call->submitted)
        return submit(call);
    if (call->post || call->refused)
        return send_answer(call);
    return call->route->answer(http, connection);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    (void)connection;
    (void)code;
    struct http *http = cls;
    struct call *call = *con_cls;
    if (call == NULL)
        return;
    *con_cls = NULL;
    free(call->x.fields);
    exchange_fini(&call->x);
    free(call);
    count_call(http, -1);
}

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format, va_list args)
{
    (void)cls;
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    log_event(LOG_DEBUG, "libmicrohttpd", log_text("message", text));
}

static enum status start_daemon(struct http *http, struct error *err)
{
    const struct config *config = http->options.config;
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    /* a pool of one thread is none; libmicrohttpd counts seconds */
    unsigned threads = http->options.io_threads > 1 ? (unsigned)http->options.io_threads : 0;
    unsigned idle_seconds = ((unsigned)config->idle_timeout_ms + 999) / 1000;
    http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
                                    on_log, NULL, MHD_OPTION_LISTEN_SOCKET, http->options.listen_fd,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                                    MHD_OPTION_CONNECTION_LIMIT, (unsigned)config->max_connections,
                                    MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds, MHD_OPTION_THREAD_POOL_SIZE,
                                    threads, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
    if (http->daemon == NULL)
        return error_set(err, STATUS_INTERNAL, "no_daemon", "cannot start serving: %s", strerror(errno));
    return STATUS_OK;
}

enum status http_start(const struct http_options *options, struct http **out, struct error *err)
{
    struct http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        close(options->listen_fd);
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the server");
    }
    http->options = *options;
    pthread_mutex_init(&http->mutex, NULL);
    pthread_cond_init(&http->idle, NULL);
    if (start_daemon(http, err) != STATUS_OK) {
        close(options->listen_fd);
        http_stop(http);
        return err->status;
    }
    *out = http;
    return STATUS_OK;
}

void http_drain(struct http *http)
{
    atomic_store(&http->draining, true);
}

void http_quiesce(struct http *http)
{
    int fd = MHD_quiesce_daemon(http->daemon);
    if (fd >= 0)
        close(fd);
}

size_t http_in_flight(struct http *http)
{
    pthread_mutex_lock(&http->mutex);
    size_t in_flight = http->in_flight;
    pthread_mutex_unlock(&http->mutex);
    return in_flight;
}

bool http_wait_idle(struct http *http, unsigned timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&http->mutex);
    int waited = 0;
    while (http->in_flight > 0 && waited == 0)
        waited = pthread_cond_timedwait(&http->idle, &http->mutex, &until);
    bool idle = http->in_flight == 0;
    pthread_mutex_unlock(&http->mutex);
    return idle;
}

void http_stop(struct http *http)
{
    if (http == NULL)
        return;
    if (http->daemon != NULL)
        MHD_stop_daemon(http->daemon);
    pthread_cond_destroy(&http->idle);
    pthread_mutex_destroy(&http->mutex);
    free(http);
}
