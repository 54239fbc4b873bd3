#ifndef PROTO_DECIMAL_H
#define PROTO_DECIMAL_H

#include "core/base/bits.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * One JSON number, taken apart and rounded: any length, any exponent, no locale, no allocation.
 * Text is read as numbers.h says: at most NUMBERS_PADDING bytes past `end`.
 */

#define DECIMAL_MAX_DIGITS 18 /* 10^18 < 2^63 */

struct decimal {
    const char *digits;     /* first digit; a loan of the text */
    const char *digits_end; /* after the last digit; a '.' may lie between */
    int64_t scale;          /* the last digit counts 10^scale */
    uint64_t mantissa;      /* the first DECIMAL_MAX_DIGITS significant digits, or all if fewer */
    int64_t exponent;       /* value = mantissa * 10^exponent, apart from what was cut off */
    bool inexact;           /* other digits than 0 were cut off */
    bool negative;
};

/*
 * Take apart the number of the RFC 8259 grammar at text.
 *
 * Returns the first character after it, or NULL if none starts there: a leading zero, or no digit
 * where the grammar asks for one.  out is written only if there is one.
 */
const char *decimal_scan(const char *text, const char *end, struct decimal *out);

/* Up to it every whole number is a double. */
#define DECIMAL_LARGEST_EXACT (UINT64_C(1) << 53)

/*
 * Read a number that fills the text from `text` to `end` and is whole and from 0 to DECIMAL_LARGEST_EXACT, to
 * its last digit, however it is written: 7, 7.0, 70e-1.  Returns false for any other; out is written then,
 * too.
 */
bool decimal_read_whole(const char *text, const char *end, uint64_t *out);

/* The nearest double, as strtod has it; ties to even, +-HUGE_VAL or +-0 out of range. */
double decimal_to_double(const struct decimal *d);

/* Exactly (float)decimal_to_double(d), twice rounded as that is, and much faster. */
float decimal_to_float(const struct decimal *d);

/* 10^e, rounded to the nearest double, at [e + DECIMAL_POWER_LIMIT]. */
#define DECIMAL_POWER_LIMIT 37
extern const double decimal_power[2 * DECIMAL_POWER_LIMIT + 1];

/*
 * Round x = mantissa * 10^exponent to float, exactly as by way of strtod, or return false if a single
 * product cannot tell; out is written either way.  mantissa < 2^63; |exponent| <= DECIMAL_POWER_LIMIT.
 *
 * Let u = 2^-53.  Three roundings make the product p: of the mantissa, of the power of ten and of
 * their product, each by a factor within 1 +- u.  If x had more digits than DECIMAL_MAX_DIGITS, what
 * was cut off is less than 10^-17 = 0.09 u of it.  So |p - x| < 3.1 u x, and 2^53 ulp(x) > x makes
 * this 3.1 ulp(x).  strtod's value s is within 0.5 ulp(x) of x.  Hence |p - s| < 3.6 ulp(x), and
 * < 7.2 ulp(p) even if a power of two lies between p and x.
 *
 * (float) is a step function, and its steps lie at the midpoints of neighbouring floats: doubles whose
 * last 29 bits (53 - 24) are 100...0.  If none of them is within 8 ulp of p, none lies between p and s
 * or on s, so that (float)p == (float)s; the case of s on a midpoint itself, where strtod's own
 * rounding decides, is among those refused.  The last step, from FLT_MAX to infinity, has the same 29
 * bits.  Only below FLT_MIN = 1.2e-38 do midpoints lie elsewhere, and x is 0, which is exact, or at
 * least 10^-37.
 */
static inline bool decimal_round(uint64_t mantissa, int64_t exponent, float *out)
{
    const uint64_t mask = (UINT64_C(1) << 29) - 1, midpoint = UINT64_C(1) << 28, margin = 8;
    double product = (double)(int64_t)mantissa * decimal_power[exponent + DECIMAL_POWER_LIMIT];
    uint64_t bits = bits_of_double(product);
    *out = (float)product;
    return (bits & mask) - (midpoint - margin) > 2 * margin;
}

#endif
