#ifndef SERVER_CORS_H
#define SERVER_CORS_H

#include "server/request/call.h"

/*
 * What lets pages of other origins call (Fetch Standard, "HTTP extensions"), at the main address alone, and
 * nothing at all while cors_origins is empty.
 */

/*
 * Whether this is a browser's question before a request: OPTIONS with Origin and
 * Access-Control-Request-Method.  It carries no token, whatever the request itself will.
 */
bool cors_is_preflight(const struct call *call, const char *method);

/* Add to an answer what its caller's origin may do and read; of call->preflight, what it may send. */
void cors_add_headers(const struct call *call, struct MHD_Response *response);

#endif
