#ifndef SERVER_HEALTHCHECK_H
#define SERVER_HEALTHCHECK_H

#include "server/config/config.h"

#define HEALTHCHECK_TIMEOUT_MS 2000 /* for the whole exchange */

/*
 * Ask the server for /readyz: the exit status of samplerd --healthcheck.
 *
 * It is asked at admin_listen if there is one, else at listen, under TLS if that is on, without a look at its
 * certificate; 0.0.0.0 and :: are reached by loopback.  Returns 0 if it answers 200 in time; else 1, with the
 * reason on stderr.
 */
int healthcheck_run(const struct config *config);

#endif
