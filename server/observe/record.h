#ifndef SERVER_RECORD_H
#define SERVER_RECORD_H

#include "server/observe/trace.h"

#include <microhttpd.h>
#include <stddef.h>
#include <stdint.h>

struct call;

/*
 * What is told of one request: its metrics, its X-Request-Id, its Server-Timing and, if asked for, its line
 * in the log.  Part of a call; all on the connection's I/O thread.
 */
struct record {
    const char *id;                    /* X-Request-Id: the client's, a loan of the connection, or made_id */
    char made_id[TRACE_ID_LENGTH + 1]; /* for a client that sends none */
    size_t method;                     /* place in the list of LABEL_METHOD */
    unsigned code;                     /* of the answer; 0 while there is none */
    size_t request_bytes;              /* of the body, as far as it came */
    size_t answer_bytes;               /* of the body */
};

/* The headers have come. */
void record_begin(struct call *call, const char *method);

/* An answer is about to be queued: note it, and add to its headers. */
void record_answer(struct call *call, unsigned code, size_t bytes, struct MHD_Response *response);

/* A deadline ended the connection: 408, unless an answer was on its way already.  Before record_end(). */
void record_timeout(struct call *call);

/* The last byte of the answer is sent, or the client has gone: count and log. */
void record_end(struct call *call);

#endif
