#ifndef CORE_MIX_H
#define CORE_MIX_H

#include "core/arena.h"
#include "core/kernels.h"
#include "core/request.h"

/* Whether the rows of this request are computed rather than read where they lie. */
static inline bool mix_needed(const struct sample_request *request)
{
    return request->mix != NULL || request->bias != NULL || request->dtype != DTYPE_F32;
}

size_t mix_scratch_bytes(const struct sample_request *request);

/*
 * One row, widened to float32: out[v] = sum_m mix[m] * logits[m][row][v] + bias[row][v].
 *
 *   out  [vocab_size]; a token masked in any stack of non-zero weight, or by the bias, is -INFINITY
 *
 * By sgemv over blocks of tokens and saxpy, on the caller's thread.  A row's bits depend on that row alone,
 * not on its place in the batch. Errors: STATUS_UNSAMPLABLE on NaN or +inf in any stack, whatever its weight.
 */
enum status mix_row(const struct sample_request *request, size_t row, const struct kernels *kernels,
                    struct arena *scratch, float *out, struct error *err);

/* Keep BLAS on the thread that calls it.  Once, before the first mix_row. */
void mix_setup(void);

/* Name of the BLAS core in use, a static text. */
const char *mix_blas_core(void);

#endif
