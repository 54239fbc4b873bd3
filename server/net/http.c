#include "server/net/http.h"

#include "server/net/acceptor.h"
#include "server/net/conn.h"
#include "server/net/framing.h"
#include "server/net/preview.h"
#include "server/net/refusal.h"
#include "server/net/tls.h"
#include "server/observe/log.h"
#include "server/observe/process.h"
#include "server/request/call.h"
#include "server/request/pages.h"
#include "server/request/respond.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Measured: 128 KiB takes both small requests and 512-KiB uploads fastest. */
#define CONNECTION_MEMORY (128u << 10)

/* Of admin_listen: a health checker or two and what collects metrics. */
#define ADMIN_CONNECTIONS 64u

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    struct MHD_Daemon *admin;  /* NULL: none */
    struct conns *conns;       /* of shared_parts */
    struct conns *admin_conns; /* apart, since they may stay to the end of a drain */
    struct acceptor *acceptor;
};

/* ---- libmicrohttpd's callbacks ---- */

static struct shared *shared_of(void *cls)
{
    return ((struct http *)cls)->options.shared;
}

/* The request line has come; what is returned is *con_cls at first. */
static void *on_admin_request_line(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)cls;
    (void)uri;
    struct conn *conn = conn_of(connection);
    if (conn != NULL)
        conn_enter(conn, CONN_HEADER);
    return NULL;
}

/* Say in our words what libmicrohttpd would refuse in its own. */
static void refuse_at_once(const struct shared_parts *parts, struct conn *conn,
                           struct MHD_Connection *connection, const char *uri, const struct error *err)
{
    char text[REFUSAL_BYTES];
    size_t length = refusal_write(err, respond_code(err->status), pages_is_kserve(framing_path(uri)), text);
    metrics_add(parts->metrics, METRIC_REJECTIONS, metrics_label(LABEL_REASON, err->code), 1);
    conn_end_with(conn, connection, text, length);
}

static void *on_request_line(void *cls, const char *uri, struct MHD_Connection *connection)
{
    const struct shared_parts *parts = shared_parts(shared_of(cls));
    struct conn *conn = conn_of(connection);
    struct error err;
    if (conn != NULL && conn_enter(conn, CONN_HEADER) &&
        preview_judge(uri, parts->config->max_body_bytes, &err) != STATUS_OK)
        refuse_at_once(parts, conn, connection, uri, &err);
    return NULL;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **con_cls)
{
    if (*con_cls == NULL)
        return call_begin(shared_of(cls), false, connection, url, method, version, (struct call **)con_cls);
    if (*upload_data_size > 0)
        return call_take(*con_cls, upload_data, upload_data_size);
    return call_continue(*con_cls);
}

static enum MHD_Result on_admin_request(void *cls, struct MHD_Connection *connection, const char *url,
                                        const char *method, const char *version, const char *upload_data,
                                        size_t *upload_data_size, void **con_cls)
{
    if (*con_cls == NULL)
        return call_begin(shared_of(cls), true, connection, url, method, version, (struct call **)con_cls);
    return on_request(cls, connection, url, method, version, upload_data, upload_data_size, con_cls);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)code;
    struct conn *conn = conn_of(connection);
    bool gone =
        conn != NULL && !conn_enter(conn, CONN_IDLE); /* from here on no deadline calls for the call */
    if (*con_cls != NULL && gone)
        record_timeout(*con_cls);
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

static const struct config *config_of(const struct http *http)
{
    return shared_parts(http->options.shared)->config;
}

/* Files that are opened while it serves: those that a reload reads, and what GnuTLS and the log need. */
#define SPARE_FILES 32u

/*
 * How many connections the limit of open files allows, up to max_connections; so many descriptors are left
 * that the admin address and shared memory always have theirs.
 */
static unsigned allowed_connections(const struct http *http)
{
    const struct config *config = config_of(http);
    struct process_figures process;
    process_read(&process);
    uint64_t others = process.open_fds + SPARE_FILES +
                      (http->options.admin_fd == -1 ? 0 : ADMIN_CONNECTIONS) +
                      (config->system_shared_memory ? config->max_shared_memory_regions : 0);
    if (process.open_fds == PROCESS_UNKNOWN || process.max_fds == PROCESS_UNKNOWN ||
        process.max_fds >= others + config->max_connections)
        return (unsigned)config->max_connections;
    unsigned allowed = process.max_fds > others ? (unsigned)(process.max_fds - others) : 1;
    log_warn("max_connections does not fit the limit of open files",
             log_uint("max_connections", config->max_connections), log_uint("connections", allowed),
             log_uint("open_files_limit", process.max_fds),
             log_uint("open_files_needed", others + config->max_connections));
    return allowed;
}

static enum status start_accepting(struct http *http, struct error *err)
{
    struct acceptor_options options = {
        .listen_fds = http->options.listen_fds,
        .count = http->options.num_listen_fds,
        .max_connections = allowed_connections(http),
        .tls = tls_is_on(config_of(http)),
        .daemon = http->daemon,
        .conns = http->conns,
        .metrics = shared_parts(http->options.shared)->metrics,
    };
    conns_set_limit(http->conns, options.max_connections);
    return acceptor_create(&options, &http->acceptor, err);
}

static enum status start_daemon(struct http *http, struct error *err)
{
    const struct config *config = config_of(http);
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET;
    /* a pool of one thread is none */
    unsigned threads = http->options.io_threads > 1 ? (unsigned)http->options.io_threads : 0;
    /* the acceptor keeps max_connections; this one is shared out among the threads, and must not be less */
    unsigned limit = (unsigned)(config->max_connections * http->options.io_threads);
    flags |= tls_is_on(config) ? MHD_USE_TLS : 0;
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, limit,
        MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, conns_notify, http->conns, MHD_OPTION_URI_LOG_CALLBACK, on_request_line,
        http, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)config->max_connections_per_ip, MHD_OPTION_ARRAY,
        tls_options(config), MHD_OPTION_END);
    if (http->daemon == NULL)
        return error_set(err, STATUS_INTERNAL, "no_daemon", "cannot start serving: %s", strerror(errno));
    return start_accepting(http, err);
}

/* One thread, so that health and metrics are answered however busy the others are. */
static enum status start_admin(struct http *http, struct error *err)
{
    int fd = http->options.admin_fd;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    if (fd == -1)
        return STATUS_OK;
    if (conns_create(config_of(http), shared_parts(http->options.shared)->metrics, &http->admin_conns, err) !=
        STATUS_OK)
        return err->status;
    http->admin = MHD_start_daemon(flags, 0, NULL, NULL, on_admin_request, http, MHD_OPTION_EXTERNAL_LOGGER,
                                   on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                   ADMIN_CONNECTIONS, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
                                   MHD_OPTION_NOTIFY_CONNECTION, conns_notify, http->admin_conns,
                                   MHD_OPTION_URI_LOG_CALLBACK, on_admin_request_line, NULL, MHD_OPTION_END);
    if (http->admin == NULL)
        return error_set(err, STATUS_INTERNAL, "no_daemon", "cannot serve admin_listen: %s", strerror(errno));
    return STATUS_OK;
}

/* Those that nobody else has taken over. */
static void close_sockets(const struct http_options *options, bool admin_too)
{
    for (size_t i = 0; i < options->num_listen_fds; i++)
        close(options->listen_fds[i]);
    if (admin_too && options->admin_fd != -1)
        close(options->admin_fd);
}

enum status http_start(const struct http_options *options, struct http **out, struct error *err)
{
    struct http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        close_sockets(options, true);
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the server");
    }
    http->options = *options;
    http->conns = shared_parts(options->shared)->conns;
    if (start_admin(http, err) != STATUS_OK || start_daemon(http, err) != STATUS_OK) {
        close_sockets(options, http->admin == NULL);
        http_stop(http);
        return err->status;
    }
    *out = http;
    return STATUS_OK;
}

void http_quiesce(struct http *http)
{
    acceptor_destroy(http->acceptor);
    http->acceptor = NULL;
}

size_t http_hang_up_idle(struct http *http, unsigned quiet_ms)
{
    return conns_hang_up_idle(http->conns, quiet_ms);
}

void http_stop(struct http *http)
{
    if (http == NULL)
        return;
    acceptor_destroy(http->acceptor);
    if (http->daemon != NULL)
        MHD_stop_daemon(http->daemon);
    if (http->admin != NULL)
        MHD_stop_daemon(http->admin);
    conns_destroy(http->admin_conns);
    free(http);
}
