#include "server/config/reload.h"

#include "server/config/systemd.h"
#include "server/net/tls.h"
#include "server/observe/log.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static sem_t requests; /* posted by each SIGHUP, and to end the thread */
static atomic_bool stopping;
static bool started;
static pthread_t thread;
static struct reload_options options;

static void on_hangup(int number)
{
    (void)number;
    int kept = errno;
    sem_post(&requests);
    errno = kept;
}

void reload_catch_signal(void)
{
    struct sigaction action = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};
    sem_init(&requests, 0, 0);
    sigfillset(&action.sa_mask);
    sigaction(SIGHUP, &action, NULL);
}

static enum status renew_log_level(struct error *err)
{
    struct config fresh;
    enum config_action action;
    if (config_load(options.argc, options.argv, options.environment, &fresh, &action, err) != STATUS_OK)
        return err->status;
    log_set_level((enum log_level)fresh.log_level);
    return STATUS_OK;
}

/* Whether a step succeeded; the log says so if not. */
static bool done(const char *what, enum status status, const struct error *err)
{
    if (status == STATUS_OK)
        return true;
    log_error("not reloaded; what was in force stays so", log_text("what", what),
              log_text("reason", err->message));
    return false;
}

static void reload(void)
{
    struct error err;
    systemd_notify_reloading();
    bool tokens = done("tokens", access_reload(options.access, &err), &err);
    bool tls = done("certificates", tls_load(options.config, &err), &err);
    bool level = done("log_level", renew_log_level(&err), &err);
    if (tokens && tls && level)
        log_info("reloaded");
    systemd_notify("READY=1");
}

static void *run(void *unused)
{
    (void)unused;
    for (;;) {
        while (sem_wait(&requests) != 0 && errno == EINTR)
            ;
        if (atomic_load(&stopping))
            return NULL;
        reload();
    }
}

enum status reload_start(const struct reload_options *given, struct error *err)
{
    options = *given;
    int failure = pthread_create(&thread, NULL, run, NULL);
    if (failure != 0)
        return error_set(err, STATUS_NO_MEMORY, "no_thread", "cannot start the thread that reloads: %s",
                         strerror(failure));
    started = true;
    return STATUS_OK;
}

void reload_stop(void)
{
    if (!started)
        return;
    atomic_store(&stopping, true);
    sem_post(&requests);
    pthread_join(thread, NULL);
    started = false;
}
