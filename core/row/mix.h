#ifndef CORE_MIX_H
#define CORE_MIX_H

#include "core/base/arena.h"
#include "core/kernels/kernels.h"
#include "core/request.h"

/* Whether the rows of this request are computed rather than read where they lie. */
static inline bool mix_needed(const struct sample_request *request)
{
    return request->mix != NULL || request->bias != NULL || request->dtype != DTYPE_F32 ||
           request->logits_are_shared;
}

size_t mix_scratch_bytes(const struct sample_request *request);

/* A row that was computed, and what is told of it while it is in the first cache level. */
struct mixed_row {
    float *z;     /* [vocab_size] */
    float *lanes; /* [kernels_blocks(vocab_size), KERNELS_LANES] lane_max() of z */
    bool clean;   /* there is no NaN in z */
};

/*
 * One row, as float32: z[v] = sum_m mix[m] * logits[m][row][v] + bias[row][v].
 *
 *   out  z and lanes are the caller's; a token masked in any stack of non-zero weight, or by the bias, is
 *        -INFINITY
 *
 * Added in float64 by daxpy over tiles of tokens, one stack after the other and then the bias, on the
 * caller's thread, and rounded to float32 once, at the end: the same bits whatever BLAS makes of this CPU.
 * Each logit is read once, unless it is refused.  A row's bits depend on that row alone, not on its place in
 * the batch. Errors: STATUS_UNSAMPLABLE on NaN or +inf in any stack, whatever its weight, on one in the bias,
 * and on a sum that is no float32.
 */
enum status mix_row(const struct sample_request *request, size_t row, const struct kernels *kernels,
                    struct arena *scratch, struct mixed_row *out, struct error *err);

/* Keep BLAS on the thread that calls it, where it is not the serial build.  Once, before the first mix_row.
 */
void mix_setup(void);

/* Name of the BLAS core in use, a static text. */
const char *mix_blas_core(void);

#endif
