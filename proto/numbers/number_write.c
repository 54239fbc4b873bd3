#include "proto/numbers/number_write.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DIGITS    9
#define TOO_LARGE 1e9 /* 10^DIGITS */

#define EXACT_POWER 22 /* the largest power of ten that a double holds */

static const double powers[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                               1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* x = 0.d1d2...d9 * 10^(exponent + 1), d1 > 0 */
struct digits {
    uint32_t value; /* d1d2...d9 */
    int exponent;   /* of d1 */
};

/* A sum of two doubles, |low| about 2^-53 |high|. */
struct sum {
    double high, low;
};

/*
 * x * 10^k, 0 <= k <= 44.  Up to 22 the sum is exact, the product of two doubles having 106 bits.  Above, the
 * second product is of a sum: what its low part is rounded by is at most 2^-104 of the whole.
 */
static struct sum scale(double x, int k)
{
    double power = powers[k < EXACT_POWER ? k : EXACT_POWER];
    double high = x * power, low = fma(x, power, -high);
    if (k <= EXACT_POWER)
        return (struct sum){high, low};
    double rest = powers[k - EXACT_POWER], product = high * rest;
    return (struct sum){product, fma(high, rest, -product) + low * rest};
}

/* The nine digits of x > 0, to nearest and ties to even; false if this cannot tell, or rounds to 1e9. */
static bool find_digits(double x, struct digits *out)
{
    /* x >= 2^b, and 1233 / 4096 < log10(2) < 1234 / 4096: at most the true exponent, and seldom less */
    int b = ilogb(x), exponent = (b * (b < 0 ? 1234 : 1233)) >> 12;
    if (exponent < DIGITS - 1 - 2 * EXACT_POWER || exponent >= DIGITS)
        return false;
    struct sum s = scale(x, DIGITS - 1 - exponent);
    while (s.high >= TOO_LARGE && exponent < DIGITS - 1)
        s = scale(x, DIGITS - 1 - ++exponent);
    if (s.high >= TOO_LARGE)
        return false;
    /* s.high < 2^30, so that its fraction is exact, and what is above a half has the right sign */
    double whole = floor(s.high), above = (s.high - whole - 0.5) + s.low;
    /* 2^30 * 2^-104, with some to spare */
    if (DIGITS - 1 - exponent > EXACT_POWER && fabs(above) < 0x1p-70)
        return false;
    uint32_t value = (uint32_t)whole;
    value += above > 0 || (above == 0 && value % 2 == 1);
    bool carries = value == (uint32_t)TOO_LARGE;
    *out = (struct digits){carries ? value / 10 : value, exponent + carries};
    return out->exponent < DIGITS;
}

/* Digits to text; returns how many are left without the zeros at the end. */
static size_t put_digits(char text[DIGITS], uint32_t value)
{
    for (size_t i = DIGITS; i-- > 0; value /= 10)
        text[i] = (char)('0' + value % 10);
    size_t kept = DIGITS;
    while (kept > 1 && text[kept - 1] == '0')
        kept--;
    return kept;
}

/* d.ddd without zeros at the end; `whole` digits are before the point. */
static char *put_fixed(char *p, const char *text, size_t kept, size_t whole)
{
    memcpy(p, text, whole);
    p += whole;
    if (kept <= whole)
        return p;
    *p++ = '.';
    memcpy(p, text + whole, kept - whole);
    return p + kept - whole;
}

/* As "%.9g" chooses: with an exponent below 1e-4, here of two digits, and without from there to 1e9. */
static char *put(char *p, const struct digits *d)
{
    char text[DIGITS];
    size_t kept = put_digits(text, d->value);
    if (d->exponent >= 0)
        return put_fixed(p, text, kept, (size_t)d->exponent + 1);
    if (d->exponent >= -4) {
        size_t zeros = (size_t)-d->exponent - 1;
        memcpy(p, "0.000", 2 + zeros);
        memcpy(p + 2 + zeros, text, kept);
        return p + 2 + zeros + kept;
    }
    p = put_fixed(p, text, kept, 1);
    *p++ = 'e';
    *p++ = '-';
    *p++ = (char)('0' - d->exponent / 10);
    *p++ = (char)('0' + -d->exponent % 10);
    return p;
}

/* printf, with a point even where the locale has a comma. */
static size_t print(char *out, double x)
{
    char text[64];
    size_t n = 0;
    snprintf(text, sizeof text, "%.9g", x);
    for (const char *p = text; *p != '\0'; p++) {
        bool known = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';
        if (known)
            out[n++] = *p;
        else if (n > 0 && out[n - 1] != '.')
            out[n++] = '.';
    }
    return n;
}

size_t number_write(char *out, double x)
{
    char *p = out;
    struct digits d;
    if (!isfinite(x)) {
        memcpy(out, "null", sizeof "null");
        return 4;
    }
    if (x == 0 || !find_digits(fabs(x), &d))
        return print(out, x);
    if (x < 0)
        *p++ = '-';
    return (size_t)(put(p, &d) - out);
}
