#ifndef SERVER_RESPOND_H
#define SERVER_RESPOND_H

#include "server/request/call.h"

/* The one place where a status becomes an HTTP code. */
unsigned respond_code(enum status status);

/* Queue a short text; it is copied. */
enum MHD_Result respond_text(struct call *call, unsigned code, const char *content_type, const char *text);

/* Queue 204, which is headers alone. */
enum MHD_Result respond_nothing(struct call *call);

/* Queue the answer of the call's exchange, an error's too, with the headers that its status asks for. */
enum MHD_Result respond_answer(struct call *call);

/*
 * Send the error of the call's exchange while its body is still coming, which libmicrohttpd cannot: the
 * connection ends with it, and reads on for a while.  Returns MHD_NO, as the access handler then must.
 */
enum MHD_Result respond_early(struct call *call);

#endif
