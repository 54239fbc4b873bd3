#ifndef PROTO_KSERVE_VALUES_H
#define PROTO_KSERVE_VALUES_H

#include "proto/tensors/tensors.h"

/*
 * The data of a tensor as JSON: numbers, or true and false for BOOL, in one list or nested ones of any depth,
 * which says no more than their order.  Values are read to the last digit, 64-bit integers too.
 *
 * text is valid JSON that begins with '['; the number reader may look at NUMBERS_PADDING bytes behind end.
 */

/* "FP32", KServe's name of a type, and the type of that name; TENSOR_TYPES for any other. */
const char *kserve_type_name(enum tensor_type type);
enum tensor_type kserve_find_type(const char *name);

/* How many values there are. */
size_t kserve_values_count(const char *text, const char *end);

/*
 * Write the values into out [kserve_values_count() of the type's size].
 * Errors: STATUS_INVALID wrong_type, a value that is none of the type; out_of_range, one that the type cannot
 * hold; unsupported_dtype, a type that has no values as JSON (FP16 and BF16).
 */
enum status kserve_values_read(const char *text, const char *end, const struct tensor *tensor, void *out,
                               struct error *err);

#endif
