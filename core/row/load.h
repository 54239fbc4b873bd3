#ifndef CORE_LOAD_H
#define CORE_LOAD_H

#include "core/kernels/kernels.h"
#include "core/request.h"

/* out[n] = the numbers of values[n], which are aligned for their dtype, as float32; each is read once. */
void load_floats(const struct kernels *kernels, enum dtype dtype, const void *values, size_t n, float *out);

#endif
