#ifndef CORE_ROWCHECK_H
#define CORE_ROWCHECK_H

#include "core/base/status.h"

/*
 * Why a row cannot be sampled, in words.  The fast path finds that one cannot (kernels.h); this looks for
 * where.
 *
 *   param  what it is a row of, "logits" or "bias"
 *   z      [vocab_size]
 *   row    its index in the batch, for the message
 *
 * Errors: STATUS_UNSAMPLABLE naming the first NaN or +inf; STATUS_OK when there is none.
 */
enum status rowcheck_values(const char *param, const float *z, size_t vocab_size, size_t row,
                            struct error *err);

/* For a row that has a NaN, a +inf or no unmasked token: say which.  err becomes STATUS_UNSAMPLABLE. */
void rowcheck_explain(const float *z, size_t vocab_size, size_t row, struct error *err);

#endif
