#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "server/config/config.h"

#include <microhttpd.h>
#include <stdbool.h>

/*
 * The certificate, its key and the authorities of clients, which may be replaced while the server runs. There
 * is one set in force in the process, since GnuTLS asks for it by a callback that knows nothing but the
 * session.
 */

bool tls_is_on(const struct config *config);

/*
 * Read the files that the configuration names and put them in force; handshakes begun later use them.
 * Errors: STATUS_INVALID for a file that cannot be read, is not PEM of its kind, or a key that is another
 * certificate's; STATUS_NO_MEMORY.  What was in force then stays so.  Thread-safe.
 */
enum status tls_load(const struct config *config, struct error *err);

/*
 * What libmicrohttpd needs beside MHD_USE_TLS, as MHD_OPTION_ARRAY takes it; empty when TLS is off.  Sessions
 * show the certificate in force and, where authorities are in force, demand one of the client.
 */
struct MHD_OptionItem *tls_options(const struct config *config);

/* Forget what is in force; no session may be left. */
void tls_unload(void);

#endif
