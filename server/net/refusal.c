#include "server/net/refusal.h"

#include "proto/kserve/kserve_answer.h"
#include "server/observe/trace.h"

#include <microhttpd.h>
#include <stdio.h>

size_t refusal_write(const struct error *err, unsigned code, bool kserve, char text[REFUSAL_BYTES])
{
    char body[ENCODE_ERROR_BYTES] = "", id[TRACE_ID_LENGTH + 1];
    size_t length = (kserve ? kserve_answer_error : encode_error)(err, body, sizeof body);
    trace_make_id(id);
    const char *retry = code == MHD_HTTP_SERVICE_UNAVAILABLE ? "Retry-After: 1\r\n" : "";
    return (size_t)snprintf(text, REFUSAL_BYTES,
                            "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nConnection: close\r\n"
                            "%sX-Request-Id: %s\r\nContent-Length: %zu\r\n\r\n%.*s",
                            code, MHD_get_reason_phrase_for(code), retry, id, length, (int)length, body);
}
