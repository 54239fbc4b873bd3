#ifndef PROTO_JSON_SCAN_H
#define PROTO_JSON_SCAN_H

#include "core/base/status.h"

#include <stdbool.h>

/*
 * JSON as RFC 8259 has it and nothing looser, walked without building anything.  cJSON, which reads the
 * values, lets pass what this refuses: leading zeros, control characters, invalid UTF-8.
 */
struct json_scan {
    const char *start; /* of the text, from which messages count bytes */
    const char *end;
    const char *p; /* where the scan stands */
    struct error *err;
    const char *subject; /* what the text is, in messages; NULL for "the body" */
};

#define JSON_MAX_DEPTH 32

/* Longest text of a number that cJSON reads whole. */
#define JSON_MAX_NUMBER_BYTES ((size_t)63)

void json_scan_space(struct json_scan *scan);

/* Step over the byte order mark that some writers put first, which a reader may ignore (RFC 8259, 8.1). */
void json_scan_mark(struct json_scan *scan);

/*
 * Step over one value, which starts at p.
 * Errors: STATUS_INVALID malformed_json, with the reason and the byte; nested deeper than JSON_MAX_DEPTH;
 * out_of_range for a number longer than JSON_MAX_NUMBER_BYTES.
 */
enum status json_scan_value(struct json_scan *scan);

/* Step over a string; p stands on its first quote. */
enum status json_scan_string(struct json_scan *scan);

/* Whether a string's text, known to be valid, has the escape of a zero byte, which would end it early in C.
 */
bool json_has_zero_byte(const char *text, const char *end);

/* Step over this one character, or fail with "<what> is missing". */
enum status json_scan_expect(struct json_scan *scan, char c, const char *what);

/* Set malformed_json "<subject> is not valid JSON: <reason> at byte <p - start>". */
enum status json_scan_fail(struct json_scan *scan, const char *reason);

/* Bytes of the UTF-8 character at p < end, 1 to 4; 0 when it is not valid (overlong, a surrogate, too high,
 * cut off). */
size_t json_utf8_length(const char *p, const char *end);

/* Bytes of the longest prefix of text that is valid UTF-8 and at most limit bytes long. */
size_t json_utf8_prefix(const char *text, size_t length, size_t limit);

#endif
