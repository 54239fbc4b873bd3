#ifndef PROTO_TENSORS_H
#define PROTO_TENSORS_H

#include "proto/params/params.h"
#include "proto/tensors/lender.h"

/*
 * A request as a set of named tensors, whatever format they came in: the names are those of the parameter
 * table, the values little-endian and row-major.
 *
 *   logits          F32, F16, BF16 or F64 [V], [B, V], or [M, B, V] with mix
 *   bias            the same types [V] or [B, V]
 *   candidate_ids   I32 or I64 [K] or [B, K]
 *   seed, offset    any integer type, one value, [B] or [B, 1]
 *   other numbers   any number type, the same; mix [M]
 *   true or false   BOOL or any integer type, one value
 *   lists of rules  tensor_lists.h
 *   words, text     no tensor, but tensors_set_text(), as any parameter that is one value
 *
 * A format decodes with tensors_begin(), a call for each tensor and text, and tensors_finish().
 */

enum tensor_type {
    TENSOR_BOOL, /* a byte, 0 or 1 */
    TENSOR_U8,
    TENSOR_I8,
    TENSOR_U16,
    TENSOR_I16,
    TENSOR_U32,
    TENSOR_I32,
    TENSOR_U64,
    TENSOR_I64,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_TYPES /* how many there are */
};

#define TENSOR_MAX_RANK 4

struct tensor {
    const char *name;
    size_t name_length;
    enum tensor_type type;
    size_t rank; /* 0 for a scalar */
    size_t dims[TENSOR_MAX_RANK];
    const void *data; /* [tensors_bytes()] at any alignment */
};

/* "F32", and the type of that name; TENSOR_TYPES for any other. */
const char *tensors_type_name(enum tensor_type type);
enum tensor_type tensors_find_type(const char *name, size_t length);

/* Bytes of one value. */
size_t tensors_type_bytes(enum tensor_type type);

/* Bytes that type and shape say, 0 for an empty tensor; false when no size_t holds them. */
bool tensors_bytes(const struct tensor *tensor, size_t *bytes);

/*
 * Arena bytes that these tensors need, texts not counted (query_arena_bytes() of the same is enough).  A
 * parameter of more than PARAMS_MAX_TEXT_BYTES / 2 values is refused, as it would be in JSON.
 */
size_t tensors_arena_bytes(const struct tensor *tensors, size_t count);

/* A request while its tensors are taken up. */
struct tensors {
    struct params params;
    struct lender *lender;
    struct tensor bias_ids, bias_values; /* of logit_bias; name is NULL before it came */
};

/* arena and lender lend what the request points at: views of aligned logits, F32 bias and I32 ids are not
 * copied.
 */
void tensors_begin(struct tensors *t, struct arena *arena, struct lender *lender);

/*
 * Set the parameter that the tensor is named after.
 * Errors: STATUS_INVALID (params.h), wrong_type and wrong_length with what it must be; STATUS_TOO_LARGE;
 * those of the lender.
 */
enum status tensors_set(struct tensors *t, const struct tensor *tensor, struct error *err);

/* Set one from NUL-terminated text, as in a query: "0.7", "true", "raw", "1,2".  Errors as query_set(). */
enum status tensors_set_text(struct tensors *t, const char *name, const char *text, struct error *err);

/* ---- of one tensor, for what sets parameters ---- */

/* "<name> is F64 [2, 3]; it must be <must>": STATUS_INVALID. */
enum status tensors_refuse(const struct param *param, const struct tensor *t, const char *code,
                           const char *must, struct error *err);

/* Whether arrays of floats may be of this type, and the same as a dtype. */
bool tensors_find_dtype(enum tensor_type type, enum dtype *out);

/* A value of any type. */
double tensors_number_at(const struct tensor *t, size_t i);

/*
 * Whether the shape is that of one value, or of a list where the parameter takes one; and not too long.
 * Errors: STATUS_INVALID wrong_length, STATUS_TOO_LARGE.
 */
enum status tensors_check_list(const struct param *param, const struct tensor *t, size_t *count,
                               bool *is_list, struct error *err);

/* As params_finish(). */
enum status tensors_finish(struct tensors *t, uint64_t fresh_seed, struct sample_request *out,
                           struct error *err);

#endif
