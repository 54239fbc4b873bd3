#include "proto/tensors/tensors.h"

#include "core/row/load.h"
#include "proto/params/query.h"
#include "proto/tensors/tensor_lists.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read where they lie");

static const struct {
    const char *name;
    size_t bytes;
    bool integer;
} types[TENSOR_TYPES] = {
    [TENSOR_BOOL] = {"BOOL", 1, false}, [TENSOR_U8] = {"U8", 1, true},      [TENSOR_I8] = {"I8", 1, true},
    [TENSOR_U16] = {"U16", 2, true},    [TENSOR_I16] = {"I16", 2, true},    [TENSOR_U32] = {"U32", 4, true},
    [TENSOR_I32] = {"I32", 4, true},    [TENSOR_U64] = {"U64", 8, true},    [TENSOR_I64] = {"I64", 8, true},
    [TENSOR_F16] = {"F16", 2, false},   [TENSOR_BF16] = {"BF16", 2, false}, [TENSOR_F32] = {"F32", 4, false},
    [TENSOR_F64] = {"F64", 8, false},
};

const char *tensors_type_name(enum tensor_type type)
{
    return types[type].name;
}

enum tensor_type tensors_find_type(const char *name, size_t length)
{
    enum tensor_type type = TENSOR_BOOL;
    while (type < TENSOR_TYPES &&
           !(strlen(types[type].name) == length && memcmp(types[type].name, name, length) == 0))
        type++;
    return type;
}

size_t tensors_type_bytes(enum tensor_type type)
{
    return types[type].bytes;
}

bool tensors_bytes(const struct tensor *t, size_t *bytes)
{
    bool fits = true, empty = false;
    *bytes = types[t->type].bytes;
    for (size_t i = 0; i < t->rank; i++) {
        empty = empty || t->dims[i] == 0;
        fits = fits && !__builtin_mul_overflow(*bytes, t->dims[i], bytes);
    }
    if (empty)
        *bytes = 0;
    return fits || empty;
}

/* Values of a tensor whose bytes are known to be counted. */
static size_t count_values(const struct tensor *t)
{
    size_t count = 1;
    for (size_t i = 0; i < t->rank; i++)
        count *= t->dims[i];
    return count;
}

#define MOST_VALUES (PARAMS_MAX_TEXT_BYTES / 2)

size_t tensors_arena_bytes(const struct tensor *tensors, size_t count)
{
    size_t bytes = 2 * PARAMS_MAX * ARENA_ALIGNMENT + 1024;
    for (size_t i = 0; i < count; i++) {
        size_t values = count_values(&tensors[i]);
        bytes += values <= MOST_VALUES ? values * sizeof(double) + ARENA_ALIGNMENT : 0;
    }
    return bytes;
}

/* ---- one value ---- */

static uint64_t load_unsigned(const unsigned char *at, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, at, bytes);
    return word;
}

/* The bits of a signed integer of fewer bits than 64, its sign carried on. */
static int64_t load_signed(const unsigned char *at, size_t bytes)
{
    unsigned shift = (unsigned)(64 - 8 * bytes);
    return (int64_t)(load_unsigned(at, bytes) << shift) >> shift;
}

static bool is_signed(enum tensor_type type)
{
    return type == TENSOR_I8 || type == TENSOR_I16 || type == TENSOR_I32 || type == TENSOR_I64;
}

bool tensors_find_dtype(enum tensor_type type, enum dtype *out)
{
    *out = type == TENSOR_F16    ? DTYPE_F16
           : type == TENSOR_BF16 ? DTYPE_BF16
           : type == TENSOR_F64  ? DTYPE_F64
                                 : DTYPE_F32;
    return type == TENSOR_F32 || *out != DTYPE_F32;
}

static double load_float(enum tensor_type type, const unsigned char *at)
{
    double wide; /* aligned for any type */
    float single;
    enum dtype dtype;
    memcpy(&wide, at, types[type].bytes);
    if (type == TENSOR_F64 || !tensors_find_dtype(type, &dtype))
        return wide;
    load_floats(kernels_tables[0], dtype, &wide, 1, &single);
    return (double)single;
}

static const unsigned char *value_at(const struct tensor *t, size_t i)
{
    return (const unsigned char *)t->data + i * types[t->type].bytes;
}

double tensors_number_at(const struct tensor *t, size_t i)
{
    const unsigned char *at = value_at(t, i);
    size_t bytes = types[t->type].bytes;
    if (t->type == TENSOR_BOOL)
        return (double)*at;
    if (!types[t->type].integer)
        return load_float(t->type, at);
    return is_signed(t->type) ? (double)load_signed(at, bytes) : (double)load_unsigned(at, bytes);
}

/* ---- errors ---- */

/* "is F64 [2, 3]": a tensor as a verdict on it */
static void describe(const struct tensor *t, char *text, size_t size)
{
    int n = snprintf(text, size, "is %s [", types[t->type].name);
    for (size_t i = 0; i < t->rank; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%zu", i == 0 ? "" : ", ", t->dims[i]);
    snprintf(text + n, size - (size_t)n, "]");
}

enum status tensors_refuse(const struct param *param, const struct tensor *t, const char *code,
                           const char *must, struct error *err)
{
    char is[128];
    describe(t, is, sizeof is);
    error_set(err, STATUS_INVALID, code, "%s %s; it must be %s", param->name, is, must);
    return error_at(err, param->name, ERROR_NO_ROW);
}

/* ---- arrays ---- */

/* The shape of an array, of rank 1 to 3 and not empty. */
static enum status shape_of(const struct param *param, const struct tensor *t, const char *must,
                            struct shape *out, struct error *err)
{
    if (t->rank < 1 || t->rank > NUMBERS_MAX_RANK || count_values(t) == 0)
        return tensors_refuse(param, t, "wrong_length", must, err);
    *out = (struct shape){.rank = t->rank};
    memcpy(out->dims, t->dims, t->rank * sizeof *t->dims);
    return STATUS_OK;
}

/* The values as float32, at any alignment. */
static const float *load_values(struct tensors *t, const struct tensor *tensor, enum dtype dtype,
                                struct error *err)
{
    enum { PIECE = 256 };
    double piece[PIECE]; /* aligned for any dtype */
    size_t count = count_values(tensor);
    float *out = t->lender->lend(t->lender, count * sizeof *out, err);
    for (size_t i = 0; out != NULL && i < count; i += PIECE) {
        size_t n = count - i < PIECE ? count - i : PIECE;
        memcpy(piece, value_at(tensor, i), n * dtype_bytes(dtype));
        load_floats(kernels_tables[0], dtype, piece, n, out + i);
    }
    return out;
}

/* Logits of any dtype and a bias of float32 stay where they are, if that is aligned. */
static enum status set_floats(struct tensors *t, const struct param *param, const struct tensor *tensor,
                              struct error *err)
{
    const char *must = param->type == PARAM_LOGITS
                           ? "F32, F16, BF16 or F64 [V], [B, V], or [M, B, V] with mix"
                           : "F32, F16, BF16 or F64 [V] or [B, V]";
    struct shape shape;
    enum dtype dtype;
    if (!tensors_find_dtype(tensor->type, &dtype))
        return tensors_refuse(param, tensor, "wrong_type", must, err);
    if (shape_of(param, tensor, must, &shape, err) != STATUS_OK)
        return err->status;
    bool is_view = param->type == PARAM_LOGITS || dtype == DTYPE_F32;
    size_t width = dtype_bytes(dtype);
    const void *values = is_view
                             ? lender_align(t->lender, tensor->data, count_values(tensor) * width, width, err)
                             : load_values(t, tensor, dtype, err);
    if (values == NULL)
        return err->status;
    return params_set_array(&t->params, param, values, is_view ? dtype : DTYPE_F32, &shape, err);
}

/* Ids of 64 bits, each of which must fit into 31; the caller has no memory for them yet. */
static const int32_t *narrow_ids(struct tensors *t, const struct param *param, const struct tensor *tensor,
                                 struct error *err)
{
    size_t count = count_values(tensor);
    int32_t *ids = t->lender->lend(t->lender, count * sizeof *ids, err);
    for (size_t i = 0; ids != NULL && i < count; i++) {
        int64_t id = load_signed(value_at(tensor, i), sizeof id);
        if (id < 0 || id > INT32_MAX) {
            size_t width = tensor->dims[tensor->rank - 1];
            char text[24];
            snprintf(text, sizeof text, "%" PRId64, id);
            params_refuse_id(param, "out_of_range", text, tensor->rank == 1 ? ERROR_NO_ROW : i / width,
                             i % width, err);
            return NULL;
        }
        ids[i] = (int32_t)id;
    }
    return ids;
}

/* Ids of 32 bits stay where they are; a negative one is found when its row is sampled. */
static enum status set_ids(struct tensors *t, const struct param *param, const struct tensor *tensor,
                           struct error *err)
{
    static const char must[] = "I32 or I64 [K] or [B, K]";
    struct shape shape;
    if (tensor->type != TENSOR_I32 && tensor->type != TENSOR_I64)
        return tensors_refuse(param, tensor, "wrong_type", must, err);
    if (shape_of(param, tensor, must, &shape, err) != STATUS_OK)
        return err->status;
    const int32_t *ids =
        tensor->type == TENSOR_I64
            ? narrow_ids(t, param, tensor, err)
            : lender_align(t->lender, tensor->data, count_values(tensor) * sizeof *ids, sizeof *ids, err);
    return ids == NULL ? err->status : params_set_ids(&t->params, param, ids, &shape, err);
}

/* ---- parameters ---- */

enum status tensors_check_list(const struct param *param, const struct tensor *t, size_t *count,
                               bool *is_list, struct error *err)
{
    bool column = t->rank == 1 || (t->rank == 2 && t->dims[1] == 1), many = params_takes_list(param);
    *count = count_values(t);
    *is_list = param->type == PARAM_WEIGHTS || *count != 1;
    if (*count == 0 || (*is_list && !(many && column)))
        return tensors_refuse(param, t, "wrong_length",
                              !many                          ? "one value"
                              : param->type == PARAM_WEIGHTS ? "[M], a number for each stack of logits"
                                                             : "one value, [B] or [B, 1]",
                              err);
    if (*count <= MOST_VALUES)
        return STATUS_OK;
    error_set(err, STATUS_TOO_LARGE, "too_large", "%s has %zu values; at most %zu are read", param->name,
              *count, MOST_VALUES);
    return error_at(err, param->name, ERROR_NO_ROW);
}

static enum status no_memory(struct error *err)
{
    return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate memory for the request");
}

static enum status set_numbers(struct tensors *t, const struct param *param, const struct tensor *tensor,
                               struct error *err)
{
    size_t count;
    bool is_list;
    if (tensor->type == TENSOR_BOOL)
        return tensors_refuse(param, tensor, "wrong_type", "of a number type", err);
    if (tensors_check_list(param, tensor, &count, &is_list, err) != STATUS_OK)
        return err->status;
    double *values = malloc(count * sizeof *values);
    if (values == NULL)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        values[i] = tensors_number_at(tensor, i);
    enum status status = params_set_numbers(&t->params, param, values, count, is_list, err);
    free(values);
    return status;
}

static enum status read_word(const struct param *param, const struct tensor *t, size_t i, bool is_list,
                             uint64_t *out, struct error *err)
{
    const unsigned char *at = value_at(t, i);
    int64_t number = load_signed(at, types[t->type].bytes);
    *out = load_unsigned(at, types[t->type].bytes);
    if (!is_signed(t->type) || number >= 0)
        return STATUS_OK;
    char verdict[32];
    snprintf(verdict, sizeof verdict, "is %" PRId64, number);
    return params_out_of_range(param, verdict, is_list ? i : ERROR_NO_ROW, err);
}

static enum status set_words(struct tensors *t, const struct param *param, const struct tensor *tensor,
                             struct error *err)
{
    size_t count;
    bool is_list;
    if (!types[tensor->type].integer)
        return tensors_refuse(param, tensor, "wrong_type", "of an integer type", err);
    if (tensors_check_list(param, tensor, &count, &is_list, err) != STATUS_OK)
        return err->status;
    uint64_t *values = malloc(count * sizeof *values);
    if (values == NULL)
        return no_memory(err);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = read_word(param, tensor, i, is_list, &values[i], err);
    if (status == STATUS_OK)
        status = params_set_words(&t->params, param, values, count, is_list, err);
    free(values);
    return status;
}

static enum status set_flag(struct tensors *t, const struct param *param, const struct tensor *tensor,
                            struct error *err)
{
    size_t count;
    bool is_list;
    if (tensor->type != TENSOR_BOOL && !types[tensor->type].integer)
        return tensors_refuse(param, tensor, "wrong_type", "BOOL, or 0 or 1 of an integer type", err);
    if (tensors_check_list(param, tensor, &count, &is_list, err) != STATUS_OK)
        return err->status;
    uint64_t value = load_unsigned(tensor->data, types[tensor->type].bytes);
    if (value > 1)
        return params_out_of_range(param, "is neither 0 nor 1", ERROR_NO_ROW, err);
    return params_set_flag(&t->params, param, value == 1, err);
}

/* ---- the request ---- */

void tensors_begin(struct tensors *t, struct arena *arena, struct lender *lender)
{
    *t = (struct tensors){.lender = lender};
    params_init(&t->params, arena, PARAM_IN_TENSORS);
}

enum status tensors_set(struct tensors *t, const struct tensor *tensor, struct error *err)
{
    const struct param *param;
    if (params_begin(&t->params, tensor->name, tensor->name_length, &param, err) != STATUS_OK)
        return err->status;
    switch (param->type) {
    case PARAM_LOGITS:
    case PARAM_ARRAY:
        return set_floats(t, param, tensor, err);
    case PARAM_IDS:
        return set_ids(t, param, tensor, err);
    case PARAM_WORD:
        return set_words(t, param, tensor, err);
    case PARAM_FLAG:
        return set_flag(t, param, tensor, err);
    case PARAM_CHOICE:
    case PARAM_TEXT:
    case PARAM_ORDER:
        return params_wrong_type(param, "a tensor", ERROR_NO_ROW, err);
    case PARAM_REAL:
    case PARAM_COUNT:
    case PARAM_WEIGHTS:
        return set_numbers(t, param, tensor, err);
    default:
        return tensor_lists_set(t, param, tensor, err);
    }
}

enum status tensors_set_text(struct tensors *t, const char *name, const char *text, struct error *err)
{
    return query_set(&t->params, &(struct query_field){name, text}, err);
}

enum status tensors_finish(struct tensors *t, uint64_t fresh_seed, struct sample_request *out,
                           struct error *err)
{
    return tensor_lists_finish(t, err) == STATUS_OK ? params_finish(&t->params, fresh_seed, out, err)
                                                    : err->status;
}
