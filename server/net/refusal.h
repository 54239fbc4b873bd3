#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "proto/answer/encode.h"

#include <stdbool.h>

#define REFUSAL_BYTES (ENCODE_ERROR_BYTES + 256)

/*
 * Write a whole answer, header and all, that libmicrohttpd does not send: an error after which the
 * connection ends.
 *
 *   kserve  as {"error":"message"}
 *
 * Returns its length.
 */
size_t refusal_write(const struct error *err, unsigned code, bool kserve, char text[REFUSAL_BYTES]);

#endif
