#ifndef SERVER_ACCESS_H
#define SERVER_ACCESS_H

#include "server/config/config.h"
#include "server/net/address.h"

/*
 * Who may call: everybody, or those who show a bearer token of token_file.
 */
struct access;

/* Errors: as tokens_load() has them. */
enum status access_create(const struct config *config, struct access **out, struct error *err);

/* Read the token file again.  On an error the old tokens stay in force.  Thread-safe. */
enum status access_reload(struct access *access, struct error *err);

/*
 * Judge the value of an Authorization header, NULL when there is none (RFC 6750: "Bearer TOKEN").
 * Errors: STATUS_UNAUTHORIZED.  Thread-safe.
 */
enum status access_judge(struct access *access, const char *authorization, struct error *err);

/*
 * Whether the configuration lets the server accept callers there: anybody from this machine; others by a
 * token, by a client certificate, or because allow_anonymous says so.
 * Errors: STATUS_INVALID naming the keys.
 */
enum status access_check_address(const struct config *config, const struct address *address,
                                 struct error *err);

void access_destroy(struct access *access);

#endif
