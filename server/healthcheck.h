#ifndef SERVER_HEALTHCHECK_H
#define SERVER_HEALTHCHECK_H

#include "server/config.h"

#define HEALTHCHECK_TIMEOUT_MS 2000 /* for the whole exchange */

/*
 * Ask the server at config->listen (0.0.0.0 and :: by loopback) for /readyz: the exit status of
 * samplerd --healthcheck.  Returns 0 if it answers 200 in time; else 1, with the reason on stderr.
 */
int healthcheck_run(const struct config *config);

#endif
