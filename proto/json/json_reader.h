#ifndef PROTO_JSON_READER_H
#define PROTO_JSON_READER_H

#include "proto/json/json_scan.h"

#include <stddef.h>

/*
 * JSON of a known form, read member by member without building anything: the headers of tensor formats.  An
 * object is read by a function that is called for each of its members; strings are kept unescaped.
 */
struct json_reader {
    struct json_scan scan; /* where it stands, and whose err is written */
    char *texts;           /* [room] the strings read so far, each with a NUL */
    size_t room, used;
    const char *code;      /* of errors of form: "malformed_safetensors" */
    const char *complaint; /* how their messages begin: "the body is no safetensors file" */
};

/* Set "<complaint>: <reason> at byte <p - start>", with the code. */
enum status json_reader_fail(struct json_reader *r, const char *reason);

/* The character that the next value begins with, spaces left out; 0 at the end. */
char json_reader_peek(struct json_reader *r);

/* Step over a null, which leaves a member out; false when the value is another. */
bool json_reader_null(struct json_reader *r);

/* A string without a zero byte; *out is a loan of texts. */
enum status json_reader_string(struct json_reader *r, const char **out);

/* A list of at most `most` whole numbers. */
enum status json_reader_sizes(struct json_reader *r, size_t most, size_t *out, size_t *count);

/* A whole number. */
enum status json_reader_size(struct json_reader *r, size_t *out);

/* An object; `member` is called for each key with p on its value, and steps over that. */
enum status json_reader_object(struct json_reader *r, void *out,
                               enum status (*member)(struct json_reader *r, const char *key, void *out));

#endif
