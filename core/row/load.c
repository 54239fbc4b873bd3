#include "core/row/load.h"

#include <string.h>

void load_floats(const struct kernels *kernels, enum dtype dtype, const void *values, size_t n, float *out)
{
    switch (dtype) {
    case DTYPE_F32:
        memcpy(out, values, n * sizeof *out);
        break;
    case DTYPE_F16:
        kernels->widen_f16(values, n, out);
        break;
    case DTYPE_BF16:
        kernels->widen_bf16(values, n, out);
        break;
    case DTYPE_F64:
        kernels->round_f64(values, n, out); /* what overflows is infinite, as a JSON number of that size is */
        break;
    }
}
