#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

#include "core/rules/penalties/id_map.h"
#include "core/rules/rule_row.h"

/* Of a row's history its last n ids; all for -1. */
struct id_list history_last(const struct sample_request *request, size_t row, double n);

/* The ids of it that were generated. */
struct id_list history_generated(const struct sample_request *request, size_t row);

/* Count the window that the penalties look at, once a row: a rule's prepare.  And what was counted. */
void history_count(struct rule_row *r);
const struct id_map *history_counts(const struct rule_row *r);
size_t history_scratch_bytes(const struct sample_request *request);

/* Ids of the longest history of the request. */
size_t history_longest(const struct sample_request *request);

#endif
