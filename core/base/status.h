#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include <stddef.h>

/* What became of a call. server/http.c turns each into an HTTP status. */
enum status {
    STATUS_OK,
    STATUS_INVALID,      /* the request is wrong: 400 */
    STATUS_UNSAMPLABLE,  /* a row has NaN, +inf or no unmasked token: 422 */
    STATUS_TOO_LARGE,    /* over a limit, which the message names: 413 */
    STATUS_UNSUPPORTED,  /* a media type nobody here reads: 415 */
    STATUS_UNAUTHORIZED, /* nobody we know: 401 */
    STATUS_UNACCEPTABLE, /* an answer in no form that the client takes: 406 */
    STATUS_NOT_FOUND,    /* 404 */
    STATUS_WRONG_METHOD, /* 405 */
    STATUS_TIMEOUT,      /* the deadline of the request passed: 504 */
    STATUS_OVERLOADED,   /* full or draining; worth a retry: 503 */
    STATUS_NO_MEMORY,    /* 503 as well: less load may cure it */
    STATUS_INTERNAL      /* a bug: 500 */
};

#define ERROR_NO_ROW ((size_t)-1)

/*
 * One fault, as the user will read it.  param and code are string literals or live as long as the
 * parameter table; nothing here is owned.
 */
struct error {
    enum status status;
    const char *param; /* the field at fault, or NULL */
    const char *code;  /* stable word for programs: "out_of_range" */
    size_t row;        /* the row at fault, or ERROR_NO_ROW */
    char message[256];
};

/* Fill err (param NULL, no row) and return status.  A message that does not fit is cut. */
enum status error_set(struct error *err, enum status status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Name the field, and the row or ERROR_NO_ROW, of an error just set; returns err->status. */
enum status error_at(struct error *err, const char *param, size_t row);

#endif
