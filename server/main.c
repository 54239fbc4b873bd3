/*
 * samplerd: logits in over HTTP, token ids out.
 *
 * Everything that lives as long as the process is made here, in order, and destroyed in reverse.
 */
#include "core/base/cpus.h"
#include "core/pool.h"
#include "core/row/mix.h"
#include "server/config/config.h"
#include "server/config/environment.h"
#include "server/config/reload.h"
#include "server/config/systemd.h"
#include "server/net/conn.h"
#include "server/net/http.h"
#include "server/net/sockets.h"
#include "server/net/tls.h"
#include "server/observe/healthcheck.h"
#include "server/observe/log.h"
#include "server/observe/process.h"
#include "server/request/access.h"
#include "server/request/buffers.h"
#include "server/request/pages.h"
#include "server/request/placement.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What a served process is made of. */
struct service {
    const struct kernels *kernels;
    struct pool *pool;
    struct buffers *buffers;
    struct access *access;
    struct metrics *metrics;
    struct conns *conns;
    struct shm *shm; /* NULL when it is off */
    struct shared *shared;
    struct http *http;
    size_t workers, io_threads;
};

/*
 * An open connection may still bring a request that is on its way: in a drain it is given this long.  A
 * client that sends one after another must not be taken for idle because its machine is busy.
 */
#define QUIET_MS 500
#define LOOK_MS  25 /* how often it is looked at */

#define HANDSHAKE_MS 50 /* for connections that have begun: several round trips of a data center */

static enum status choose_kernels(const struct config *config, const struct kernels **out, struct error *err)
{
    const char *name = config_kernels_names[config->kernels], *why;
    *out = kernels_select(name, &why);
    if (*out == NULL)
        return error_set(err, STATUS_INVALID, "out_of_range", "kernels = %s: %s", name, why);
    return STATUS_OK;
}

static enum status service_start(struct service *s, const struct config *config,
                                 const struct sockets *sockets, struct error *err)
{
    size_t cpus = cpus_usable();
    s->workers = config->workers > 0 ? config->workers : cpus;
    s->io_threads = config->io_threads > 0 ? config->io_threads : placement_io_threads(cpus);
    mix_setup();
    process_raise_max_fds();
    if (choose_kernels(config, &s->kernels, err) != STATUS_OK || tls_load(config, err) != STATUS_OK ||
        access_create(config, &s->access, err) != STATUS_OK ||
        buffers_create(config->max_inflight_bytes, config->max_inflight_bytes / 4, &s->buffers, err) !=
            STATUS_OK ||
        (config->system_shared_memory &&
         shm_create(config->max_shared_memory_regions, &s->shm, err) != STATUS_OK) ||
        metrics_create(pages_path, s->kernels->name, &s->metrics, err) != STATUS_OK ||
        conns_create(config, s->metrics, &s->conns, err) != STATUS_OK ||
        pool_create(s->workers, config->queue_depth, s->kernels, &s->pool, err) != STATUS_OK) {
        sockets_close(sockets);
        return err->status;
    }
    struct shared_parts parts = {
        .config = config,
        .kernels = s->kernels,
        .pool = s->pool,
        .buffers = s->buffers,
        .access = s->access,
        .metrics = s->metrics,
        .conns = s->conns,
        .shm = s->shm,
        .cpus = cpus,
        .io_threads = s->io_threads,
    };
    if (shared_create(&parts, &s->shared, err) != STATUS_OK) {
        sockets_close(sockets);
        return err->status;
    }
    struct http_options options = {s->shared, sockets->main_fds, sockets->num_main, sockets->admin_fd,
                                   s->io_threads};
    return http_start(&options, &s->http, err);
}

/* The pool goes first: its last jobs resume connections that the HTTP side must still have. */
static void service_stop(struct service *s)
{
    pool_destroy(s->pool);
    http_stop(s->http);
    conns_destroy(s->conns);
    shared_destroy(s->shared);
    buffers_destroy(s->buffers);
    metrics_destroy(s->metrics);
    shm_destroy(s->shm);
    access_destroy(s->access);
    tls_unload();
}

/* Where the server really listens, and a line that can be pasted. */
static void print_banner(const struct address *address, const struct config *config)
{
    bool tls = tls_is_on(config), tokens = config->token_file[0] != '\0';
    const char *scheme = tls ? "https" : "http";
    const char *body =
        "{\"logits\":[[10,8,6,3]],\"temperature\":0.8,\"top_p\":0.95,\"seed\":7,\"top_candidates\":3}";
    const char *text = address->text, *curl = "curl -s";
    printf("samplerd %s listens on %s%s%s\n", SAMPLERD_VERSION, address_is_unix(address) ? "" : scheme,
           address_is_unix(address) ? "" : "://", text);
    if (address_is_abstract(address))
        printf("Try:  %s --abstract-unix-socket %s %s://localhost/sample", curl, text + strlen("unix:@"),
               scheme);
    else if (address_is_unix(address))
        printf("Try:  %s --unix-socket %s %s://localhost/sample", curl, text + strlen("unix:"), scheme);
    else
        printf("Try:  %s %s://%s/sample", curl, scheme, text);
    if (tls) /* who issued the certificate, curl may not know */
        printf(" --cacert %s", config->tls_cert_file);
    if (config->tls_client_ca_file[0] != '\0')
        printf(" --cert CERT --key KEY");
    if (tokens)
        printf(" -H \"Authorization: Bearer $TOKEN\"");
    printf(" -H 'Content-Type: application/json' -d '%s'\n", body);
    fflush(stdout);
}

/*
 * SIGTERM and SIGINT, counted.  By handler and not by sigwait(): libraries have threads of their own, whose
 * signal masks are not ours to set.
 */
static sem_t stop_requests;
static volatile sig_atomic_t last_signal;

static void on_signal(int number)
{
    last_signal = number;
    sem_post(&stop_requests);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sem_init(&stop_requests, 0, 0);
    sigfillset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static void wait_for_signal(void)
{
    while (sem_wait(&stop_requests) != 0 && errno == EINTR)
        ;
}

/* Whether a signal comes within this time. */
static bool signal_within(unsigned timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)timeout_ms * 1000000;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    int waited;
    do
        waited = sem_clockwait(&stop_requests, CLOCK_MONOTONIC, &until);
    while (waited != 0 && errno == EINTR);
    return waited == 0;
}

/*
 * Finish what was accepted: go on accepting while load balancers learn that we are not ready, every answer
 * closing its connection; then take no more, and hang up on who asks for nothing, until nobody is left.
 * Returns false when a second signal cuts it short.
 */
static bool drain(struct service *service, struct sockets *sockets, unsigned delay_ms)
{
    shared_drain(service->shared);
    if (signal_within(delay_ms))
        return false;
    sockets_withdraw(sockets);
    if (signal_within(HANDSHAKE_MS))
        return false;
    http_quiesce(service->http);
    while (http_hang_up_idle(service->http, QUIET_MS) > 0)
        if (signal_within(LOOK_MS))
            return false;
    return true;
}

/* Serve until a signal comes; the service is started, and stopped by the caller. */
static bool serve_until_signal(struct service *service, struct sockets *sockets, const struct config *config)
{
    log_event(LOG_INFO, "listening", log_text("address", sockets->main[0].text),
              log_text("admin_address", sockets->admin_fd == -1 ? "none" : sockets->admin.text),
              log_text("kernels", service->kernels->name), log_text("blas", mix_blas_core()),
              log_uint("workers", service->workers), log_uint("io_threads", service->io_threads));
    for (size_t i = 1; i < sockets->num_main; i++)
        log_event(LOG_INFO, "listening there too", log_text("address", sockets->main[i].text));
    print_banner(&sockets->main[0], config);
    systemd_notify("READY=1");
    wait_for_signal();
    systemd_notify("STOPPING=1");
    log_event(LOG_INFO, "stopping", log_text("signal", strsignal(last_signal)));
    return drain(service, sockets, config->drain_delay_ms);
}

static int fail(const struct error *err)
{
    fprintf(stderr, "samplerd: %s\n", err->message);
    return EXIT_FAILURE;
}

static int serve(const struct config *config, const struct reload_options *reload_options)
{
    struct service service = {0};
    struct reload_options reload = *reload_options;
    struct sockets sockets;
    struct error err;
    log_init((enum log_format)config->log_format, (enum log_level)config->log_level);
    environment_warn(environ);
    catch_signals();
    reload_catch_signal();
    if (sockets_open(config, &sockets, &err) != STATUS_OK)
        return fail(&err);
    enum status status = service_start(&service, config, &sockets, &err);
    reload.access = service.access;
    if (status != STATUS_OK || reload_start(&reload, &err) != STATUS_OK) {
        service_stop(&service);
        sockets_cleanup(&sockets);
        return fail(&err);
    }
    bool finished = serve_until_signal(&service, &sockets, config);
    sockets_cleanup(&sockets);
    if (!finished) {
        log_event(LOG_WARN, "stopped at once", log_text("reason", "a second signal"));
        _exit(EXIT_FAILURE);
    }
    reload_stop();
    service_stop(&service);
    log_event(LOG_INFO, "stopped");
    return EXIT_SUCCESS;
}

static int check_config(const struct config *config)
{
    const struct kernels *kernels;
    struct access *access = NULL;
    struct address address;
    struct error err;
    log_init((enum log_format)config->log_format, (enum log_level)config->log_level);
    environment_warn(environ);
    bool good = choose_kernels(config, &kernels, &err) == STATUS_OK &&
                address_parse(config->listen, &address, &err) == STATUS_OK &&
                access_check_address(config, &address, &err) == STATUS_OK &&
                access_create(config, &access, &err) == STATUS_OK && tls_load(config, &err) == STATUS_OK;
    access_destroy(access);
    tls_unload();
    if (!good)
        return fail(&err);
    printf("The configuration is valid.\n");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct config config;
    enum config_action action;
    struct error err;
    if (config_load(argc, argv, environ, &config, &action, &err) != STATUS_OK)
        return fail(&err);
    switch (action) {
    case CONFIG_PRINT_CONFIG:
        config_print(&config, stdout);
        return EXIT_SUCCESS;
    case CONFIG_CHECK_CONFIG:
        return check_config(&config);
    case CONFIG_HEALTHCHECK:
        return healthcheck_run(&config);
    case CONFIG_PRINT_VERSION:
        printf("samplerd %s\n", SAMPLERD_VERSION);
        return EXIT_SUCCESS;
    case CONFIG_PRINT_HELP:
        config_help(stdout);
        return EXIT_SUCCESS;
    case CONFIG_SERVE:
        break;
    }
    struct reload_options reload = {.argc = argc, .argv = argv, .environment = environ, .config = &config};
    return serve(&config, &reload);
}
