#include "core/kernels/exact_math.h"

/*
 * x = 2^k m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m
 * + 1). |s| <= 0.1716, so the first term left out, s^25 / 25, is below 3e-21.
 */
double exact_log(double x)
{
    uint64_t bits = bits_of_double(x);
    double k = (double)(bits >> 52) - 1023.0;
    double m = bits_to_double((bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52));
    if (m > 1.4142135623730951) {
        m *= 0.5;
        k += 1.0;
    }
    double s = (m - 1.0) / (m + 1.0);
    double q = s * s;
    double series = 0.0;
    for (int odd = 23; odd >= 1; odd -= 2)
        series = series * q + 1.0 / odd;
    return k * 0x1.62e42fefa39efp-1 + 2.0 * s * series;
}
