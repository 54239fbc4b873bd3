#ifndef PROTO_TENSOR_LISTS_H
#define PROTO_TENSOR_LISTS_H

#include "proto/tensors/tensors.h"

/*
 * Tensors of the parameters that hold lists; -1 fills up the end of a list:
 *
 *   PARAM_ID_LISTS   I32 or I64 [K], or [B, K]
 *   PARAM_BIAS_IDS   the same, and PARAM_BIAS_VALUES, F32, F16, BF16 or F64 of that shape
 *   PARAM_SEQUENCES  I32 or I64 [K], single ids; [S, K]; or [B, S, K], where a sequence of -1 alone is none
 *   PARAM_BITMASK    I32 or U32 [W], or [B, W]
 *   PARAM_PAIR       any number type [2], or [B, 2]
 *   PARAM_SWITCH     BOOL, or 0 and 1 of an integer type: one value, [B] or [B, 1]
 *
 * Errors: as tensors_set().
 */
enum status tensor_lists_set(struct tensors *t, const struct param *param, const struct tensor *tensor,
                             struct error *err);

/* Both tensors of biases or none: make them one parameter. */
enum status tensor_lists_finish(struct tensors *t, struct error *err);

#endif
