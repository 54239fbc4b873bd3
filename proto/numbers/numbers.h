#ifndef PROTO_NUMBERS_H
#define PROTO_NUMBERS_H

#include "core/base/status.h"

#include <stddef.h>

/*
 * JSON numbers, read exactly and without a locale.
 *
 * Every function here may look at up to NUMBERS_PADDING bytes after `end`; the caller owns them and
 * their contents do not matter.  Nothing is allocated, and all of it is thread-safe.  Rounding is to
 * nearest, as the process has it unless told otherwise; the machine is little-endian (digits.h).
 */
#define NUMBERS_PADDING 64

#define NUMBERS_MAX_RANK 3

struct shape {
    size_t rank;                   /* 1 .. NUMBERS_MAX_RANK */
    size_t dims[NUMBERS_MAX_RANK]; /* outermost first */
};

/*
 * Read one number of the RFC 8259 grammar at text; the value is strtod's of the same characters in
 * the C locale (so it may be +-HUGE_VAL or 0 when out of range).
 *
 * Returns the first character after the number, at most end, or NULL when no number starts at text: a
 * leading zero, or no digit where the grammar asks for one ("-", "1.", "1e+"), included.  What follows
 * the number is the caller's to judge.  out is written only on success.
 */
const char *numbers_read_double(const char *text, const char *end, double *out);

/* The word at text that other writers put where JSON has no number, such as "NaN" or "-Infinity"; or NULL. */
const char *numbers_foreign_word(const char *text, const char *end);

/*
 * Upper bound of the numbers in any array inside text: its commas plus one.
 */
size_t numbers_count_bound(const char *text, size_t length);

/*
 * Read an array of numbers, nested one to three deep and rectangular, straight into float32.
 *
 *   cursor    points at the '['; left after the matching ']' on success, at the offending byte otherwise
 *   out       [capacity] receives the numbers in order; `null` becomes -INFINITY; every value is
 *             (float)strtod(text), so it may be +-INFINITY when out of range
 *   capacity  at least numbers_count_bound() of the text
 *   shape     the lengths found, written only on success; a rank is as deep as the first '[' run, an
 *             empty array is an error
 *   param     names the field in messages ("logits", "bias"); lent for as long as err is used
 *
 * Errors: STATUS_INVALID with code malformed_json (not the RFC's grammar, NaN and Infinity included),
 * wrong_type (a string, true, an object ... where a number belongs) or wrong_length (rows of unequal
 * length; empty; too deep); STATUS_INTERNAL if capacity is too small, beyond which nothing is written.
 * Messages name the position as a path such as logits[2][17], and bytes counted from the '['.
 * err->row is the outermost index if the rank is 2, else ERROR_NO_ROW.
 */
enum status numbers_read_array(const char **cursor, const char *end, float *out, size_t capacity,
                               struct shape *shape, const char *param, struct error *err);

#endif
