#ifndef SERVER_PREVIEW_H
#define SERVER_PREVIEW_H

#include "core/base/status.h"

#include <stddef.h>

/* A query may have so many fields; libmicrohttpd keeps each in the connection's memory, and hangs when that
 * is full. */
#define PREVIEW_QUERY_FIELDS 256

/*
 * Judge what libmicrohttpd would refuse by itself, in HTML and not as we say errors: too many fields in the
 * query, a header without a colon, a Content-Length that is no number or beyond 64 bits.
 *
 *   target          as MHD_OPTION_URI_LOG_CALLBACK is told it, of a connection whose memory is more than
 *                   32 KiB
 *   max_body_bytes  for the message
 *
 * Only as much of the header is judged as came together with the request line and lies on its page of memory,
 * which is nearly always all of it.
 * Errors: STATUS_INVALID, code "malformed_header"; STATUS_TOO_LARGE.
 */
enum status preview_judge(const char *target, size_t max_body_bytes, struct error *err);

#endif
