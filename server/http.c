#include "server/http.h"

#include "server/call.h"
#include "server/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Measured: 128 KiB takes both small requests and 512-KiB uploads fastest. */
#define CONNECTION_MEMORY (128u << 10)

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    atomic_bool draining;
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    size_t in_flight;                   /* guarded by mutex */
    struct idle_sampler *idle_samplers; /* guarded by mutex; at most one for each I/O thread is made */
};

struct idle_sampler {
    struct sampler sampler;
    struct idle_sampler *next;
};

const struct http_options *http_options(const struct http *http)
{
    return &http->options;
}

bool http_draining(const struct http *http)
{
    return atomic_load(&http->draining);
}

static struct idle_sampler *make_sampler(struct http *http)
{
    struct error ignored;
    struct idle_sampler *made = calloc(1, sizeof *made);
    if (made == NULL || sampler_init(&made->sampler, http->options.kernels, &ignored) != STATUS_OK) {
        free(made);
        return NULL;
    }
    return made;
}

struct sampler *http_borrow_sampler(struct http *http)
{
    pthread_mutex_lock(&http->mutex);
    struct idle_sampler *idle = http->idle_samplers;
    if (idle != NULL)
        http->idle_samplers = idle->next;
    pthread_mutex_unlock(&http->mutex);
    if (idle == NULL)
        idle = make_sampler(http);
    return idle == NULL ? NULL : &idle->sampler;
}

void http_return_sampler(struct http *http, struct sampler *sampler)
{
    struct idle_sampler *idle = (struct idle_sampler *)sampler; /* its first member */
    pthread_mutex_lock(&http->mutex);
    idle->next = http->idle_samplers;
    http->idle_samplers = idle;
    pthread_mutex_unlock(&http->mutex);
}

static void free_samplers(struct http *http)
{
    while (http->idle_samplers != NULL) {
        struct idle_sampler *idle = http->idle_samplers;
        http->idle_samplers = idle->next;
        sampler_fini(&idle->sampler);
        free(idle);
    }
}

void http_count(struct http *http, int change)
{
    pthread_mutex_lock(&http->mutex);
    http->in_flight += (size_t)change;
    if (http->in_flight == 0)
        pthread_cond_broadcast(&http->idle);
    pthread_mutex_unlock(&http->mutex);
}

/* ---- libmicrohttpd's callbacks ---- */

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **con_cls)
{
    (void)version;
    if (*con_cls == NULL)
        return call_begin(cls, connection, url, method, (struct call **)con_cls);
    if (*upload_data_size > 0)
        return call_take(*con_cls, upload_data, upload_data_size);
    return call_continue(*con_cls);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)connection;
    (void)code;
    if (*con_cls != NULL)
        call_destroy(*con_cls);
    *con_cls = NULL;
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
    free_samplers(http);
    pthread_cond_destroy(&http->idle);
    pthread_mutex_destroy(&http->mutex);
    free(http);
}
