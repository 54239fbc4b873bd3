#ifndef CORE_LOAD_H
#define CORE_LOAD_H

#include "core/kernels/kernels.h"
#include "core/request.h"

/*
 * out[n] = the numbers of values[n], which are aligned for their dtype, as float32: those of 16 bits exactly,
 * of 64 rounded to nearest, ties to even.  Each is read once.
 */
void load_floats(const struct kernels *kernels, enum dtype dtype, const void *values, size_t n, float *out);

#endif
