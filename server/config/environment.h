#ifndef SERVER_ENVIRONMENT_H
#define SERVER_ENVIRONMENT_H

#include "core/base/status.h"
#include "server/config/config.h"

#include <stdbool.h>

/*
 * SAMPLERD_* variables: SAMPLERD_KEY=value sets a key.  An empty value counts as if the variable were absent,
 * since composed and templated environments cannot leave one out.
 *
 *   environment  NULL-terminated "NAME=value" list, or NULL
 */

/*
 * Set what the environment sets.  Names that are no key are passed over.
 *
 * Errors: STATUS_INVALID for a value out of range; the message names the variable.
 */
enum status environment_load(char *const *environment, struct config *config, struct error *err);

/*
 * Log a warning for each variable that looks like a setting and is none, with the nearest known name.  Those
 * that describe a service (environment_is_service()) are none of ours.
 */
void environment_warn(char *const *environment);

/*
 * Whether an entry "NAME=value" describes a service whose name begins with samplerd, as Kubernetes writes it
 * for every Service of a namespace and docker for a link:
 *
 *   SAMPLERD_CANARY_SERVICE_HOST, SAMPLERD_CANARY_SERVICE_PORT, SAMPLERD_CANARY_SERVICE_PORT_HTTP,
 *   SAMPLERD_CANARY_PORT=tcp://10.0.0.1:8090, SAMPLERD_CANARY_PORT_8090_TCP, ..._TCP_ADDR and so on;
 *   SAMPLERD_NAME=/web/samplerd, SAMPLERD_ENV_PATH (docker alone)
 *
 * Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 */
bool environment_is_service(const char *entry);

#endif
