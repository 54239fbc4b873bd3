#include "proto/numbers/decimal.h"

#include "proto/numbers/digits.h"

#include <stdio.h>
#include <stdlib.h>

/* 10^0 .. 10^22 are doubles: 5^22 < 2^53. */
#define EXACT_POWER_LIMIT 22

/*
 * Digits that decide every rounding.  A double, or the midpoint of two, is an integer m < 2^54 times
 * 2^-k, k <= 1075.  For k > 0 that is m * 5^k * 10^-k, with at most log10(2^54 * 5^1075) < 768 digits;
 * the others are integers below 2^1025, of 309 digits.  So all that matters behind 768 digits is
 * whether any is not 0: then the number lies strictly between two multiples of its 768th digit's unit,
 * and midpoints only lie on those.
 */
#define EXACT_DIGITS 768

/* Bounds the exponent as read: beyond what any text's length can make up for, within int64_t. */
#define EXPONENT_LIMIT INT64_C(100000000000000000)

/* With up to EXACT_DIGITS + 1 digits, 10^+-9999 is far out of a double's range. */
#define WRITTEN_EXPONENT_LIMIT 9999

const double decimal_power[2 * DECIMAL_POWER_LIMIT + 1] = {
    1e-37, 1e-36, 1e-35, 1e-34, 1e-33, 1e-32, 1e-31, 1e-30, 1e-29, 1e-28, 1e-27, 1e-26, 1e-25, 1e-24, 1e-23,
    1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9,  1e-8,
    1e-7,  1e-6,  1e-5,  1e-4,  1e-3,  1e-2,  1e-1,  1e0,   1e1,   1e2,   1e3,   1e4,   1e5,   1e6,   1e7,
    1e8,   1e9,   1e10,  1e11,  1e12,  1e13,  1e14,  1e15,  1e16,  1e17,  1e18,  1e19,  1e20,  1e21,  1e22,
    1e23,  1e24,  1e25,  1e26,  1e27,  1e28,  1e29,  1e30,  1e31,  1e32,  1e33,  1e34,  1e35,  1e36,  1e37,
};

/* Append the digits at p to *value, modulo 2^64; returns the first character that is none, or end. */
static const char *read_digits(const char *p, const char *end, uint64_t *value)
{
    for (;;) {
        uint64_t block = digits_load(p);
        unsigned n = digits_before(digits_stops(block));
        if (n > (size_t)(end - p))
            n = (unsigned)(end - p);
        if (n < DIGITS_PER_BLOCK) {
            *value = *value * digits_power[n] + digits_value_of(block, n);
            return p + n;
        }
        *value = *value * digits_power[DIGITS_PER_BLOCK] + digits_value(block);
        p += DIGITS_PER_BLOCK;
    }
}

/* Read what follows an 'e'; NULL if there is no digit. */
static const char *read_exponent(const char *p, const char *end, int64_t *exponent)
{
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    const char *first = p;
    int64_t e = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (e < EXPONENT_LIMIT)
            e = e * 10 + (*p - '0');
    *exponent = negative ? -e : e;
    return p == first ? NULL : p;
}

/* Keep DECIMAL_MAX_DIGITS significant digits. */
static void set_mantissa(struct decimal *d)
{
    uint64_t mantissa = 0;
    int kept = 0;
    d->exponent = d->scale;
    d->inexact = false;
    for (const char *p = d->digits; p < d->digits_end; p++) {
        if (*p == '.')
            continue;
        if (kept < DECIMAL_MAX_DIGITS) {
            mantissa = mantissa * 10 + (uint64_t)(*p - '0');
            kept += mantissa != 0;
        } else {
            d->exponent++;
            d->inexact |= *p != '0';
        }
    }
    d->mantissa = mantissa;
}

const char *decimal_scan(const char *text, const char *end, struct decimal *out)
{
    bool negative = text < end && *text == '-';
    const char *digits = text + negative;
    uint64_t mantissa = 0;
    const char *p = read_digits(digits, end, &mantissa);
    if (p == digits || (p - digits > 1 && *digits == '0'))
        return NULL;
    int64_t scale = 0, exponent = 0;
    if (p < end && *p == '.') {
        const char *fraction = p + 1;
        p = read_digits(fraction, end, &mantissa);
        if (p == fraction)
            return NULL;
        scale = fraction - p;
    }
    const char *digits_end = p;
    if (p < end && (*p == 'e' || *p == 'E') && (p = read_exponent(p + 1, end, &exponent)) == NULL)
        return NULL;
    scale += exponent;
    *out = (struct decimal){.digits = digits,
                            .digits_end = digits_end,
                            .scale = scale,
                            .mantissa = mantissa,
                            .exponent = scale,
                            .negative = negative};
    if (digits_end - digits > DECIMAL_MAX_DIGITS)
        set_mantissa(out);
    return p;
}

/*
 * Any number, by strtod.  It is written anew as an integer with an exponent: bounded in length, ended
 * by a NUL, and without the decimal point that is all a locale could change.
 */
static double read_exactly(const struct decimal *d)
{
    char text[EXACT_DIGITS + sizeof "1e-9999"];
    size_t n = 0;
    int64_t exponent = d->scale;
    bool more = false;
    for (const char *p = d->digits; p < d->digits_end; p++) {
        if (*p == '.' || (n == 0 && *p == '0'))
            continue;
        if (n < EXACT_DIGITS) {
            text[n++] = *p;
        } else {
            exponent++;
            more |= *p != '0';
        }
    }
    if (more) {
        text[n++] = '1';
        exponent--;
    }
    if (exponent > WRITTEN_EXPONENT_LIMIT)
        exponent = WRITTEN_EXPONENT_LIMIT;
    if (exponent < -WRITTEN_EXPONENT_LIMIT)
        exponent = -WRITTEN_EXPONENT_LIMIT;
    snprintf(text + n, sizeof text - n, "e%d", (int)exponent);
    return strtod(text, NULL);
}

/*
 * The absolute value.  Both operands exact, the one rounding is the right one.
 * Source: Clinger, How to read floating point numbers accurately, PLDI 1990.
 */
static double magnitude(const struct decimal *d)
{
    if (d->mantissa == 0)
        return 0;
    if (d->inexact || d->mantissa > UINT64_C(1) << 53)
        return read_exactly(d);
    double mantissa = (double)(int64_t)d->mantissa;
    if (d->exponent >= 0 && d->exponent <= EXACT_POWER_LIMIT)
        return mantissa * decimal_power[DECIMAL_POWER_LIMIT + d->exponent];
    if (d->exponent < 0 && d->exponent >= -EXACT_POWER_LIMIT)
        return mantissa / decimal_power[DECIMAL_POWER_LIMIT - d->exponent];
    return read_exactly(d);
}

double decimal_to_double(const struct decimal *d)
{
    double value = magnitude(d);
    return d->negative ? -value : value;
}

float decimal_to_float(const struct decimal *d)
{
    float value;
    bool within = d->exponent >= -DECIMAL_POWER_LIMIT && d->exponent <= DECIMAL_POWER_LIMIT;
    if (!within || !decimal_round(d->mantissa, d->exponent, &value))
        value = (float)magnitude(d);
    return d->negative ? -value : value;
}

bool decimal_read_whole(const char *text, const char *end, uint64_t *out)
{
    struct decimal n;
    *out = 0;
    const char *behind = text < end ? decimal_scan(text, end, &n) : NULL;
    if (behind == NULL || behind != end)
        return false;
    for (; n.exponent < 0 && n.mantissa > 0 && n.mantissa % 10 == 0; n.exponent++)
        n.mantissa /= 10;
    for (; n.exponent > 0 && n.mantissa > 0 && n.mantissa <= DECIMAL_LARGEST_EXACT; n.exponent--)
        n.mantissa *= 10;
    *out = n.mantissa;
    if (n.mantissa == 0)
        return !n.inexact;
    return !n.negative && !n.inexact && n.exponent == 0 && n.mantissa <= DECIMAL_LARGEST_EXACT;
}
