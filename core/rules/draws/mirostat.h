#ifndef CORE_MIROSTAT_H
#define CORE_MIROSTAT_H

#include "core/rules/rule.h"

/* Where a row stands before its draw, and after that of a token with this logprob (nats, of what was left).
 */
double mirostat_mu(const struct sample_request *request, size_t row);
double mirostat_next(const struct sample_request *request, size_t row, double logprob);

#endif
