#ifndef SERVER_TRACE_H
#define SERVER_TRACE_H

#include <stdbool.h>

/* Names that follow a request through several programs. */

#define TRACE_ID_LENGTH     32
#define TRACE_ID_MAX_LENGTH 128 /* of a client's own X-Request-Id */

/* Whether a client's X-Request-Id can be taken over: 1 to 128 visible ASCII characters. */
bool trace_id_usable(const char *id);

/* A new id, in hex: 8 random bytes of this process, then 8 that no other request of it has.  Thread-safe. */
void trace_make_id(char id[TRACE_ID_LENGTH + 1]);

/*
 * The trace-id of a traceparent header, in lower-case hex.  Returns false, and "" in trace_id, for one that
 * is malformed in any way. Source: W3C Trace Context, https://www.w3.org/TR/trace-context/, section 3.2
 */
bool trace_parse_parent(const char *traceparent, char trace_id[TRACE_ID_LENGTH + 1]);

#endif
