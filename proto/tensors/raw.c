#include "proto/tensors/raw.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a body is little-endian and is read where it lies");

/* How many rows the body is, as the shape [B, V] or, with mix, [M, B, V]. */
static enum status shape_body(struct params *p, const char *body, size_t length, struct error *err)
{
    size_t stacks = p->request.mix == NULL ? 1 : params_length(p, "mix"),
           width = dtype_bytes(p->request.dtype);
    if (p->vocab_size == 0) {
        error_set(err, STATUS_INVALID, "missing_parameter",
                  "vocab_size is missing; the query must say how many logits a row of the body has");
        return error_at(err, "vocab_size", ERROR_NO_ROW);
    }
    size_t row = (size_t)p->vocab_size * width * stacks;
    if (length == 0 || length % row != 0) {
        error_set(
            err, STATUS_INVALID, "wrong_length",
            "the body has %zu bytes; it must be a multiple of %zu: %zu stack%s of %u logits of %zu bytes",
            length, row, stacks, stacks == 1 ? "" : "s", p->vocab_size, width);
        return error_at(err, "logits", ERROR_NO_ROW);
    }
    if (p->rows != 0 && p->rows != length / row) {
        error_set(err, STATUS_INVALID, "wrong_length",
                  "rows is %u; the body has %zu, by its %zu bytes, vocab_size %u and dtype %s", p->rows,
                  length / row, length, p->vocab_size, params_dtypes[p->request.dtype]);
        return error_at(err, "rows", ERROR_NO_ROW);
    }
    p->request.logits = body;
    p->logits_shape = p->request.mix == NULL ? (struct shape){2, {length / row, p->vocab_size}}
                                             : (struct shape){3, {stacks, length / row, p->vocab_size}};
    return STATUS_OK;
}

enum status raw_decode(const struct query_field *fields, size_t count, const char *body, size_t length,
                       struct arena *arena, uint64_t fresh_seed, struct sample_request *out,
                       struct error *err)
{
    struct params p;
    params_init(&p, arena, PARAM_IN_RAW);
    if (query_read(&p, fields, count, err) != STATUS_OK || shape_body(&p, body, length, err) != STATUS_OK)
        return err->status;
    return params_finish(&p, fresh_seed, out, err);
}
