#include "proto/kserve/kserve_values.h"

#include "proto/json/json_scan.h"

#include <string.h>

static const char *const names[TENSOR_TYPES] = {
    [TENSOR_BOOL] = "BOOL", [TENSOR_U8] = "UINT8",   [TENSOR_I8] = "INT8",   [TENSOR_U16] = "UINT16",
    [TENSOR_I16] = "INT16", [TENSOR_U32] = "UINT32", [TENSOR_I32] = "INT32", [TENSOR_U64] = "UINT64",
    [TENSOR_I64] = "INT64", [TENSOR_F16] = "FP16",   [TENSOR_BF16] = "BF16", [TENSOR_F32] = "FP32",
    [TENSOR_F64] = "FP64",
};

const char *kserve_type_name(enum tensor_type type)
{
    return names[type];
}

enum tensor_type kserve_find_type(const char *name)
{
    enum tensor_type type = TENSOR_BOOL;
    while (type < TENSOR_TYPES && strcmp(names[type], name) != 0)
        type++;
    return type;
}

/* ---- one after the other ---- */

struct value {
    const char *text, *end;
};

static bool is_between(char c)
{
    return c == '[' || c == ']' || c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next value at *at; a string or an object is cut into pieces, none of which is a value of any type. */
static bool next_value(const char **at, const char *end, struct value *out)
{
    while (*at < end && is_between(**at))
        (*at)++;
    out->text = *at;
    while (*at < end && !is_between(**at))
        (*at)++;
    out->end = *at;
    return out->text < out->end;
}

size_t kserve_values_count(const char *text, const char *end)
{
    struct value value;
    size_t count = 0;
    while (next_value(&text, end, &value))
        count++;
    return count;
}

/* ---- one value ---- */

static enum status refuse(const struct tensor *tensor, const struct value *value, const char *code,
                          struct error *err)
{
    size_t length = (size_t)(value->end - value->text), kept = json_utf8_prefix(value->text, length, 40);
    return error_set(err, STATUS_INVALID, code, "a value of the tensor %.64s is %.*s%s; its datatype is %s",
                     tensor->name, (int)kept, value->text, kept < length ? "..." : "", names[tensor->type]);
}

static bool is_word(const struct value *value, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(value->end - value->text) == length && memcmp(value->text, word, length) == 0;
}

/* Whole numbers alone: 1.0 and 1e3 are none here. */
static bool read_digits(const struct value *value, bool negative, uint64_t *out, bool *fits)
{
    const char *p = value->text + negative;
    bool digits = p < value->end;
    *fits = true;
    for (*out = 0; p < value->end; p++) {
        digits = digits && *p >= '0' && *p <= '9';
        *fits = *fits && !__builtin_mul_overflow(*out, 10, out) &&
                !__builtin_add_overflow(*out, (uint64_t)(*p - '0'), out);
    }
    return digits;
}

static enum status read_integer(const struct tensor *tensor, const struct value *value, void *out,
                                struct error *err)
{
    enum tensor_type type = tensor->type;
    bool is_signed = type == TENSOR_I8 || type == TENSOR_I16 || type == TENSOR_I32 || type == TENSOR_I64;
    bool negative = *value->text == '-', fits;
    size_t bytes = tensors_type_bytes(type);
    uint64_t size, largest = UINT64_MAX >> (64 - 8 * bytes + is_signed);
    if (!read_digits(value, negative, &size, &fits))
        return refuse(tensor, value, "wrong_type", err);
    /* the lowest of a signed type is one below the negative of its largest */
    uint64_t most = !negative ? largest : is_signed ? largest + 1 : 0;
    if (!fits || size > most)
        return refuse(tensor, value, "out_of_range", err);
    uint64_t bits = negative ? -size : size;
    memcpy(out, &bits, bytes);
    return STATUS_OK;
}

static enum status read_bool(const struct tensor *tensor, const struct value *value, void *out,
                             struct error *err)
{
    bool is_true = is_word(value, "true");
    if (!is_true && !is_word(value, "false"))
        return refuse(tensor, value, "wrong_type", err);
    *(unsigned char *)out = is_true;
    return STATUS_OK;
}

static enum status read_real(const struct tensor *tensor, const struct value *value, void *out,
                             struct error *err)
{
    double real;
    if (numbers_read_double(value->text, value->end, &real) != value->end)
        return refuse(tensor, value, "wrong_type", err);
    float single = (float)real;
    if (tensor->type == TENSOR_F32)
        memcpy(out, &single, sizeof single);
    else
        memcpy(out, &real, sizeof real);
    return STATUS_OK;
}

static enum status read_one(const struct tensor *tensor, const struct value *value, void *out,
                            struct error *err)
{
    switch (tensor->type) {
    case TENSOR_BOOL:
        return read_bool(tensor, value, out, err);
    case TENSOR_F32:
    case TENSOR_F64:
        return read_real(tensor, value, out, err);
    default:
        return read_integer(tensor, value, out, err);
    }
}

enum status kserve_values_read(const char *text, const char *end, const struct tensor *tensor, void *out,
                               struct error *err)
{
    struct value value;
    if (tensor->type == TENSOR_F16 || tensor->type == TENSOR_BF16)
        return error_set(err, STATUS_INVALID, "unsupported_dtype",
                         "the tensor %.64s is %s, which has no values as JSON; send FP32, or binary data",
                         tensor->name, names[tensor->type]);
    for (unsigned char *at = out; next_value(&text, end, &value); at += tensors_type_bytes(tensor->type))
        if (read_one(tensor, &value, at, err) != STATUS_OK)
            return err->status;
    return STATUS_OK;
}
