#ifndef CORE_SAMPLER_H
#define CORE_SAMPLER_H

#include "core/base/arena.h"
#include "core/kernels/kernels.h"
#include "core/request.h"

/* What a thread needs to sample rows. */
struct sampler {
    const struct kernels *kernels;
    struct arena scratch;
};

enum status sampler_init(struct sampler *sampler, const struct kernels *kernels, struct error *err);
void sampler_fini(struct sampler *sampler);

/*
 * Make scratch large enough for the rows of this request, the only step that may allocate.
 * Errors: STATUS_NO_MEMORY.
 */
enum status sampler_reserve(struct sampler *sampler, const struct sample_request *request, struct error *err);

/*
 * Sample one row: n tokens, and its candidates and log-probabilities if asked for, into that row's part of
 * result.
 *
 * mix and bias come first, then the rules of request->chain (chain_plan()), then the draw.  Equal logits rank
 * by lower token id.  Draw i of the row is a pure function of the row, its parameters, its seed and offset,
 * and i.
 *
 * Needs sampler_reserve() first; allocates nothing.  Thread-safe while sampler and the row's part of result
 * are the caller's own. Errors: STATUS_UNSAMPLABLE on NaN, +INFINITY or a fully masked row, by
 * itself or by a rule; the row's part of
 * result is then unspecified.
 */
enum status sampler_run_row(struct sampler *sampler, const struct sample_request *request, size_t row,
                            struct sample_result *result, struct error *err);

/*
 * About how many microseconds the rows of this request take one thread with vector kernels, within a factor
 * of two or three: for the choice where to run it.
 */
double sampler_cost_us(const struct sample_request *request);

/* Allocate and free the arrays of a result for this request.  Errors: STATUS_NO_MEMORY. */
enum status sampler_result_init(struct sample_result *result, const struct sample_request *request,
                                struct error *err);
void sampler_result_fini(struct sample_result *result);

#endif
