#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "core/base/bits.h"

/*
 * The floats in order, as whole numbers: order_float(order_code(x)) == x, and codes rise with x.
 * -0.0 gets the code of 0.0.
 */
static inline int32_t order_code(float x)
{
    uint32_t bits = bits_of_float(x + 0.0f);
    return (int32_t)(bits >> 31 ? 0x80000000u - bits : bits);
}

static inline float order_float(int32_t code)
{
    return bits_to_float(code < 0 ? 0x80000000u - (uint32_t)code : (uint32_t)code);
}

#endif
