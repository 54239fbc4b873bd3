#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "server/config/config.h"
#include "server/request/access.h"

/*
 * SIGHUP: read the tokens, the TLS files and log_level again, without a pause in serving.  What cannot be
 * read is logged, and what was in force stays so.  Other keys need a restart.
 *
 * A thread of its own does it, so that neither serving nor shutdown waits for a file.
 */

/* All of it outlives the thread. */
struct reload_options {
    int argc; /* with argv and environment: where the configuration comes from, as config_load() has them */
    char *const *argv;
    char *const *environment;
    const struct config *config; /* in force */
    struct access *access;
};

/* From now on SIGHUP ends the process no more; it is kept for reload_start(). */
void reload_catch_signal(void);

/* Errors: STATUS_NO_MEMORY when there is no thread to be had. */
enum status reload_start(const struct reload_options *options, struct error *err);

/* End the thread; nothing if it was not started. */
void reload_stop(void);

#endif
