#ifndef CORE_CHECK_H
#define CORE_CHECK_H

#include "core/base/status.h"
#include "core/rules/rule.h"

/*
 * What only all values of a request together can tell: rules that are set but not in the chain, or not in the
 * engine; penalties without history; token ids out of range or twice; states that want one draw a row.
 *
 *   chain  every rule that a row may run, in order
 *
 * Errors: STATUS_INVALID missing_parameter, conflicting_parameters, out_of_range, duplicate_id, wrong_length;
 * with the parameter, its row and its place.
 */
enum status check_rules(const struct sample_request *request, const struct chain *chain, struct error *err);

#endif
