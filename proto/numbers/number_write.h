#ifndef PROTO_NUMBER_WRITE_H
#define PROTO_NUMBER_WRITE_H

#include <stddef.h>

#define NUMBER_MAX_BYTES (sizeof "-1.23456789e-308") /* with a NUL, that number_write() may leave behind */

/*
 * Write x with 9 significant digits, as printf's "%.9g" in the C locale does to the character; `null` when it
 * is not finite, which JSON has no number for.
 *
 *   out  [NUMBER_MAX_BYTES]
 *
 * Returns the bytes written, no NUL counted.  From 1e-36 to 1e9 no locale is looked at; beyond, printf is
 * called and its decimal point is put right.  Thread-safe.  Rounding is to nearest, as the process has it
 * unless told otherwise.
 */
size_t number_write(char *out, double x);

#endif
