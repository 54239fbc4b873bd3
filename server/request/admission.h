#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/request/call.h"

#define ADMISSION_TIMEOUT_HEADER "X-Request-Timeout-Ms"

/* Of an infer request, and of its answer: bytes of JSON before those of tensors. */
#define ADMISSION_KSERVE_HEADER "Inference-Header-Content-Length"

/*
 * Judge a request by its headers, before any of its body is taken: caller, route, method, media type,
 * deadline, length, load. Sets the call's route, media, timeout and body buffer. Errors: as the status says,
 * with the text in call->x.error.
 */
enum status admission_judge(struct call *call, const char *method);

/*
 * How much of a body that nobody needs is read to its end, so that the connection can go on after it:
 * max_body_bytes, 4 MiB at least.
 */
size_t admission_swallow_bytes(const struct config *config);

/*
 * Whether a refusal need not wait for the body: the client asked first with Expect: 100-continue, or the body
 * is more than is swallowed.  The connection cannot go on after it.
 */
bool admission_answers_at_once(const struct call *call);

#endif
