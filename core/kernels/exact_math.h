#ifndef CORE_EXACT_MATH_H
#define CORE_EXACT_MATH_H

#include "core/base/bits.h"

/*
 * exp and ln in float64 from additions and multiplications alone, so that every CPU and compiler gives the
 * same bits (libm picks another code path where the CPU has a fused multiply-add).
 */

/* 1.5 * 2^52: adding it rounds a double to a whole number and leaves that in the low bits. */
#define EXACT_ROUNDER 0x1.8p52

/* 2^n for a whole n in [-1022, 1023] */
static inline double exact_pow2(double n)
{
    return bits_to_double((bits_of_double(n + EXACT_ROUNDER) << 52) + (UINT64_C(1023) << 52));
}

/*
 * e^x for x <= 0, subnormal results included; 0 below -746 and for -INFINITY.
 *
 * x = n ln2 + r with |r| <= ln2 / 2; e^r by Taylor's series to r^13 / 13!, whose remainder is below
 * 0.3466^14 / 14! = 4.2e-18.  LN2_HI has 21 trailing zero bits, so n * LN2_HI is exact for |n| < 2^21.
 */
static inline double exact_exp(double x)
{
    const double LN2_HI = 0x1.62e42feep-1, LN2_LO = 0x1.a39ef35793c76p-33;
    double n = (x * 0x1.71547652b82fep0 + EXACT_ROUNDER) - EXACT_ROUNDER;
    double r = (x - n * LN2_HI) - n * LN2_LO;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    /* two steps, so that a subnormal result is rounded once */
    double half = (n * 0.5 + EXACT_ROUNDER) - EXACT_ROUNDER;
    double e = p * exact_pow2(half) * exact_pow2(n - half);
    return bits_to_double(bits_of_double(e) & -(uint64_t)(x >= -746.0));
}

/* ln(x) for finite x >= DBL_MIN; relative error below 4e-16 but next to x = 1, where it is absolute. */
double exact_log(double x);

/* e^x and x^y for x > 0, of any finite exponent; INFINITY and 0 where they leave float64. */
static inline double exact_exp_any(double x)
{
    return x <= 0.0 ? exact_exp(x) : 1.0 / exact_exp(-x);
}

static inline double exact_pow(double x, double y)
{
    return exact_exp_any(y * exact_log(x));
}

/* x^n by squaring. */
static inline double exact_power(double x, uint64_t n)
{
    double power = 1.0;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            power *= x;
    return power;
}

#endif
