#ifndef PROTO_JSON_LISTS_H
#define PROTO_JSON_LISTS_H

#include "proto/params/params.h"
#include "proto/tensors/lender.h"

/*
 * Set a parameter that holds lists from its JSON, without building anything:
 *
 *   PARAM_ID_LISTS   [1,2], or a list for each row [[1,2],[]]
 *   PARAM_BIASES     {"1":0.5,"2":null}, or a list of one for each row
 *   PARAM_SEQUENCES  [[1,2],3], or a list for each row [[[1,2],3],[]]
 *   PARAM_BITMASK    [-1,7], or a list for each row; packed ones are read by json_packed_read_words()
 *   PARAM_ORDER      ["top_k","temperature"]
 *
 *   text, end  the value, known to be valid JSON
 *   lender     lends what the request then points at, once
 *
 * Errors: STATUS_INVALID wrong_type, out_of_range, with the row and the place; those of the lender.
 */
enum status json_lists_set(struct params *p, const struct param *param, const char *text, const char *end,
                           struct lender *lender, struct error *err);

#endif
