#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include <stdint.h>

/*
 * The floats in order, as whole numbers: order_float(order_code(x)) == x, and codes rise with x.
 * -0.0 gets the code of 0.0.
 */
static inline int32_t order_code(float x)
{
    union {
        float f;
        uint32_t u;
    } bits = {.f = x + 0.0f};
    return (int32_t)(bits.u >> 31 ? 0x80000000u - bits.u : bits.u);
}

static inline float order_float(int32_t code)
{
    union {
        uint32_t u;
        float f;
    } bits = {.u = code < 0 ? 0x80000000u - (uint32_t)code : (uint32_t)code};
    return bits.f;
}

#endif
