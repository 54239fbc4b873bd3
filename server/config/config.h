#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include "core/base/status.h"
#include "server/net/address.h"

#include <stddef.h>
#include <stdio.h>

#define CONFIG_MOST_IO_THREADS 64

#define CONFIG_PATH_BYTES 161 /* key, path and blanks fit a line of the INI file, which inih cuts at 198 */

#define CONFIG_ORIGINS_BYTES 181 /* as much */

/* The settings in force; plain data, nothing to free.  server/option.c has each key's range and default. */
struct config {
    char listen[ADDRESS_TEXT_BYTES]; /* as written; address_parse() accepts it */
    unsigned unix_socket_mode;
    char admin_listen[ADDRESS_TEXT_BYTES]; /* or "" */
    unsigned io_threads;                   /* <= CONFIG_MOST_IO_THREADS; 0: automatic */
    size_t max_body_bytes;
    size_t max_inflight_bytes; /* >= max_body_bytes */
    size_t max_answer_bytes;
    unsigned max_connections;
    unsigned max_connections_per_ip; /* 0: no limit */
    unsigned header_timeout_ms;
    unsigned body_timeout_ms;
    unsigned request_timeout_ms; /* 0: none */
    unsigned idle_timeout_ms;
    unsigned drain_delay_ms;
    char cors_origins[CONFIG_ORIGINS_BYTES]; /* origins_check() accepts it */

    char token_file[CONFIG_PATH_BYTES]; /* or "", as the following */
    unsigned allow_anonymous;           /* 0 or 1 */
    unsigned system_shared_memory;      /* 0 or 1 */
    unsigned max_shared_memory_regions;
    char tls_cert_file[CONFIG_PATH_BYTES]; /* both of these or neither; */
    char tls_key_file[CONFIG_PATH_BYTES];
    char tls_client_ca_file[CONFIG_PATH_BYTES]; /* only with them */

    unsigned workers; /* 0: one per usable CPU */
    unsigned kernels; /* index into config_kernels_names */
    unsigned queue_depth;

    unsigned log_format;    /* enum log_format */
    unsigned log_level;     /* enum log_level */
    unsigned log_requests;  /* enum config_log_requests */
    unsigned server_timing; /* 1: on */
};

/* Requests that get a line in the log: "off", "errors", "all", NULL */
enum config_log_requests { CONFIG_LOG_OFF, CONFIG_LOG_ERRORS, CONFIG_LOG_ALL };
extern const char *const config_log_requests_names[];

/* "auto", "generic", "avx2", "avx512", "neon", NULL */
extern const char *const config_kernels_names[];

/* What the command line asks for. */
enum config_action {
    CONFIG_SERVE,
    CONFIG_PRINT_CONFIG,
    CONFIG_CHECK_CONFIG,
    CONFIG_HEALTHCHECK,
    CONFIG_PRINT_VERSION,
    CONFIG_PRINT_HELP
};

/*
 * Gather the configuration: defaults, then the INI file of --config, then SAMPLERD_* variables, then
 * flags; the later wins.  Of variables that are no key environment_warn() tells.
 *
 *   argc, argv   as main() has them
 *   environment  NULL-terminated "NAME=value" list, or NULL
 *   out          complete, also where the action is to print the help or the version (both of which
 *                look at the command line only)
 *
 * Errors: STATUS_INVALID for an unknown key, section or flag, a value out of range or a file
 * that cannot be read; the message names where it stands.  Not thread-safe (getaddrinfo, inih).
 */
enum status config_load(int argc, char *const *argv, char *const *environment, struct config *out,
                        enum config_action *action, struct error *err);

/* The defaults alone. */
void config_init(struct config *config);

/* Write a complete INI file with these values; config_load() reads it back to the same configuration. */
void config_print(const struct config *config, FILE *out);

/* Write the text of --help. */
void config_help(FILE *out);

#endif
