#ifndef PROTO_NUMBER_FAST_H
#define PROTO_NUMBER_FAST_H

#include "proto/numbers/decimal.h"
#include "proto/numbers/digits.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * The JSON number as most writers print it, read to float32 in a few nanoseconds, without a loop and
 * with hardly a branch that depends on its digits.  In a header, for the caller's loop to inline;
 * only number_fast_read is for use outside.  decimal.h reads everything else.
 */

/* gcc -O2 would call them: 1.3 to 1.5 times slower. */
#define NUMBER_FAST_INLINE static inline __attribute__((always_inline))

static inline bool number_fast_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number's digits without their point. */
struct number_fast_digits {
    uint64_t mantissa;
    int exponent;
    const char *stop;
};

/* Eight digits of two blocks that are one byte apart: all of `head` before the point, `tail` from it on. */
static inline uint64_t number_fast_join(uint64_t head, uint64_t tail, unsigned whole)
{
    uint64_t before = (UINT64_C(1) << (8 * whole)) - 1;
    return (head & before) | (tail & ~before);
}

/*
 * Read D.D of seven digits or more; the point is at p[whole].  Three blocks at fixed distances from p,
 * so that no load waits for the length of what precedes it.
 * Returns false for more digits than 63 bits hold.
 */
NUMBER_FAST_INLINE bool number_fast_read_long(const char *p, unsigned whole, struct number_fast_digits *out)
{
    static const uint64_t most[DIGITS_PER_BLOCK] = {
        /* floor((2^63 - 1) / 10^n) - 1 */
        9223372036854775806, 922337203685477579, 92233720368547757, 9223372036854774,
        922337203685476,     92233720368546,     9223372036853,     922337203684,
    };
    uint64_t joined = number_fast_join(digits_load(p), digits_load(p + 1), whole);
    unsigned n = digits_before(digits_stops(joined));
    if (n < DIGITS_PER_BLOCK) {
        *out = (struct number_fast_digits){digits_value_of(joined, n), (int)whole - (int)n, p + 1 + n};
        return true;
    }
    uint64_t value = digits_value(joined);
    p += 1 + DIGITS_PER_BLOCK;
    uint64_t block = digits_load(p);
    n = digits_before(digits_stops(block));
    if (n < DIGITS_PER_BLOCK) {
        value = value * digits_power[n] + digits_value_of(block, n);
        *out = (struct number_fast_digits){value, (int)whole - (int)(DIGITS_PER_BLOCK + n), p + n};
        return true;
    }
    value = value * digits_power[DIGITS_PER_BLOCK] + digits_value(block);
    p += DIGITS_PER_BLOCK;
    block = digits_load(p);
    n = digits_before(digits_stops(block));
    if (n == DIGITS_PER_BLOCK || value > most[n])
        return false;
    value = value * digits_power[n] + digits_value_of(block, n);
    *out = (struct number_fast_digits){value, (int)whole - (int)(2 * DIGITS_PER_BLOCK + n), p + n};
    return true;
}

/*
 * Take apart the number at p, its sign left out; `head` has its first seven characters.
 *
 * The next number cannot begin before the end of this one is known, so that comes first and shortest:
 * the point and the end are found side by side, from the same marks.  The eighth place is marked
 * whatever it holds, so there always is an end; if the text has a digit there, the number is longer.
 */
NUMBER_FAST_INLINE bool number_fast_read_unsigned(const char *p, uint64_t head,
                                                  struct number_fast_digits *out)
{
    uint64_t stops = digits_stops(head) | UINT64_C(0xf0) << 56;
    unsigned whole = digits_before_mark(stops);
    bool leading_zero = (*p == '0') & (whole != 1);
    if ((whole == 0) | leading_zero)
        return false;
    if (p[whole] != '.') {
        *out = (struct number_fast_digits){digits_value_of(head, whole), 0, p + whole};
        return !number_fast_is_digit(p[whole]);
    }
    /* The mark of '.' is 0x30: the lowest bit of all marks and the one above it. */
    uint64_t first = stops & -stops;
    unsigned length = digits_before_mark(stops ^ (first | first << 1));
    if (number_fast_is_digit(p[length]))
        return number_fast_read_long(p, whole, out);
    uint64_t value = digits_value_of(number_fast_join(head, head >> 8, whole), length - 1);
    *out = (struct number_fast_digits){value, (int)whole + 1 - (int)length, p + length};
    return length > whole + 1;
}

/*
 * Read the usual number: up to six digits, perhaps a point and more digits, no exponent.
 *
 * Returns the first character after it, which may lie up to 26 bytes past the text, or NULL for
 * anything else, which decimal_scan then judges.
 */
NUMBER_FAST_INLINE const char *number_fast_read(const char *text, float *out)
{
    uint64_t head = digits_load(text);
    uint32_t sign = (head & 0xff) == ('-' ^ '0');
    struct number_fast_digits plain;
    float magnitude;
    if (!number_fast_read_unsigned(text + sign, head >> (8 * sign), &plain))
        return NULL;
    if ((*plain.stop | 0x20) == 'e' || !decimal_round(plain.mantissa, plain.exponent, &magnitude))
        return NULL;
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    bits |= sign << 31;
    memcpy(out, &bits, sizeof bits);
    return plain.stop;
}

#endif
