#ifndef CORE_CHAIN_H
#define CORE_CHAIN_H

#include "core/base/status.h"
#include "core/rules/rule_row.h"

/*
 * Work out which rules any row of a request asks for, and in which order they run: once, for all rows.
 * request->chain is set.
 *
 * Errors: STATUS_INVALID, with the parameter, when values contradict each other or the engine: a rule that is
 * set but not in the order, penalties without history, a token id out of range, ... (check.h).
 */
enum status chain_plan(struct sample_request *request, struct error *err);

/* Whether any row runs a rule. */
bool chain_runs(const struct chain *chain, enum rule_id rule);

/* Whether the row takes the largest logit and draws nothing. */
bool chain_is_greedy(const struct sample_request *request, size_t row);

/* Whether rules of the request set single tokens of most rows. */
bool chain_sets_tokens(const struct chain *chain);

/* What chain_run() borrows, at most. */
size_t chain_scratch_bytes(const struct sample_request *request);

/*
 * Apply the rules of this row to it, of a greedy one those that it obeys.
 *
 *   row  its support is the whole row, temperature 1 and the other fields 0
 *
 * Errors: STATUS_UNSAMPLABLE fully_masked, naming the rule that masked the last token.
 */
enum status chain_run(struct rule_row *row, struct error *err);

#endif
