#ifndef CORE_ADAPTIVE_P_H
#define CORE_ADAPTIVE_P_H

#include "core/rules/rule.h"

/* What a row remembers before its draw, and after that of a token that had probability p before this rule:
 * the decayed sum of probabilities, and of ones. */
void adaptive_p_state(const struct sample_request *request, size_t row, double state[2]);
void adaptive_p_next(const struct sample_request *request, size_t row, double p, double state[2]);

#endif
