#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "core/base/status.h"

#include <microhttpd.h>
#include <stdbool.h>

/*
 * Whether everyone who reads this request agrees where it ends (RFC 9112, sections 2.2, 5 and 6): lines end
 * in CR LF, no white space before a colon, no folded or nameless header, no control characters; at most one
 * Content-Length, or a Transfer-Encoding that is "chunked" and nothing else, in HTTP/1.1; one Host, which
 * HTTP/1.0 may leave out.  A proxy that reads
 * it otherwise could be made to take the end of one request for the beginning of another.
 *
 *   method, version  the pointers that libmicrohttpd hands to its access handler
 *   *chunked         whether the body comes in chunks; libmicrohttpd ends their lines at a bare LF too, and
 *                    nobody else sees them, so such a connection should not go on after its answer
 *
 * Errors: STATUS_INVALID, code "malformed_header"; the connection must be closed after the answer.
 * To be called in the access handler's first call for a request, and there only.
 */
enum status framing_judge(struct MHD_Connection *connection, const char *method, const char *version,
                          bool *chunked, struct error *err);

/* Whether libmicrohttpd is of the versions of which is known how they lay out what they have parsed. */
bool framing_is_in_place(void);

/*
 * The path of a request's target, which may be a whole URL, as proxies are sent it (RFC 9112, section 3.2.2):
 * "/sample" of "http://host:8090/sample".  A loan of the target, or constant; the target itself where it is
 * neither.
 */
const char *framing_path(const char *target);

#endif
