#include "proto/tensors/npy.h"

#include <string.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES (sizeof MAGIC - 1)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read where they lie");

/* What the header says. */
struct header {
    bool has_descr, has_order, has_shape;
    bool fortran_order;
    bool big_endian;
    enum dtype dtype;
    struct shape shape;
};

struct reader {
    const char *start, *end; /* of the body; once it is known, of the header */
    const char *p;
    struct header header;
    struct error *err;
};

static enum status fail(struct reader *r, const char *reason)
{
    return error_set(r->err, STATUS_INVALID, "malformed_npy", "the body is no npy array: %s at byte %zu",
                     reason, (size_t)(r->p - r->start));
}

static enum status about_logits(struct reader *r)
{
    return error_at(r->err, "logits", ERROR_NO_ROW);
}

static void skip_spaces(struct reader *r)
{
    while (r->p < r->end && *r->p == ' ')
        r->p++;
}

/* Step over this text and the spaces behind it, if it is there. */
static bool skip(struct reader *r, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(r->end - r->p) < length || memcmp(r->p, text, length) != 0)
        return false;
    r->p += length;
    skip_spaces(r);
    return true;
}

/* ---- the dictionary ---- */

/* A string in quotes of either kind, which has no escapes; NULL if there is none. */
static const char *read_string(struct reader *r, size_t *length)
{
    char quote = r->p < r->end ? *r->p : '\0';
    if (quote != '\'' && quote != '"')
        return NULL;
    const char *text = r->p + 1, *stop = memchr(text, quote, (size_t)(r->end - text));
    if (stop == NULL || memchr(text, '\\', (size_t)(stop - text)) != NULL)
        return NULL;
    *length = (size_t)(stop - text);
    r->p = stop + 1;
    skip_spaces(r);
    return text;
}

static bool is_text(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool is_printable(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

/* "f4" and its like. */
static bool find_dtype(const char *code, enum dtype *out)
{
    *out = code[1] == '2' ? DTYPE_F16 : code[1] == '8' ? DTYPE_F64 : DTYPE_F32;
    return code[0] == 'f' && (code[1] == '4' || *out != DTYPE_F32);
}

static enum status read_descr(struct reader *r)
{
    size_t length;
    if (r->p < r->end && *r->p == '[') {
        error_set(r->err, STATUS_INVALID, "unsupported_dtype",
                  "the npy array is of records; it must be of '<f4', '<f2' or '<f8'");
        return about_logits(r);
    }
    const char *text = read_string(r, &length);
    if (text == NULL || length > 16 || !is_printable(text, length))
        return fail(r, "descr is not a short string");
    if (length == 3 && (text[0] == '<' || text[0] == '>') && find_dtype(text + 1, &r->header.dtype)) {
        r->header.big_endian = text[0] == '>';
        return STATUS_OK;
    }
    error_set(r->err, STATUS_INVALID, "unsupported_dtype",
              "the npy array is of '%.*s'; it must be of '<f4', '<f2' or '<f8', or of '>' for '<': float32, "
              "float16 or float64 of either byte order",
              (int)length, text);
    return about_logits(r);
}

static enum status read_order(struct reader *r)
{
    r->header.fortran_order = skip(r, "True");
    return r->header.fortran_order || skip(r, "False") ? STATUS_OK
                                                       : fail(r, "fortran_order is neither True nor False");
}

static bool read_size(struct reader *r, size_t *out)
{
    const char *first = r->p;
    for (*out = 0; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (size_t)(*r->p - '0'), out))
            return false;
    bool plain = r->p - first == 1 || (r->p > first && *first != '0');
    skip_spaces(r);
    return plain;
}

/* A tuple as Python has it: (), (3,), (2, 3) or (2, 3,) */
static enum status read_shape(struct reader *r)
{
    struct shape *s = &r->header.shape;
    bool more = true;
    if (!skip(r, "("))
        return fail(r, "shape is no tuple");
    while (!skip(r, ")")) {
        size_t dim;
        if (!more || !read_size(r, &dim))
            return fail(r, "shape is no tuple of whole numbers");
        if (s->rank < NUMBERS_MAX_RANK)
            s->dims[s->rank] = dim;
        s->rank++;
        more = skip(r, ",");
    }
    return s->rank == 1 && !more ? fail(r, "shape is a number") : STATUS_OK;
}

static enum status read_item(struct reader *r)
{
    struct header *h = &r->header;
    size_t length;
    const char *key = read_string(r, &length);
    bool *seen = key == NULL                             ? NULL
                 : is_text(key, length, "descr")         ? &h->has_descr
                 : is_text(key, length, "fortran_order") ? &h->has_order
                 : is_text(key, length, "shape")         ? &h->has_shape
                                                         : NULL;
    if (seen == NULL)
        return fail(r, "a key is none of 'descr', 'fortran_order' and 'shape'");
    if (*seen)
        return fail(r, "a key comes twice");
    *seen = true;
    if (!skip(r, ":"))
        return fail(r, "':' is missing");
    return seen == &h->has_descr ? read_descr(r) : seen == &h->has_order ? read_order(r) : read_shape(r);
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, spaces and the newline that ends the header */
static enum status read_dictionary(struct reader *r)
{
    bool more = true;
    if (!skip(r, "{"))
        return fail(r, "'{' is missing");
    while (!skip(r, "}")) {
        if (!more)
            return fail(r, "',' or '}' is missing");
        if (read_item(r) != STATUS_OK)
            return r->err->status;
        more = skip(r, ",");
    }
    if (!r->header.has_descr || !r->header.has_order || !r->header.has_shape)
        return fail(r, "'descr', 'fortran_order' or 'shape' is missing");
    return r->end - r->p == 1 && *r->p == '\n' ? STATUS_OK : fail(r, "no newline ends the header");
}

/* ---- around it ---- */

/* Magic, version and length; leaves p at the dictionary and end behind it. */
static enum status read_preamble(struct reader *r)
{
    size_t length = (size_t)(r->end - r->start);
    if (length < MAGIC_BYTES || memcmp(r->start, MAGIC, MAGIC_BYTES) != 0)
        return fail(r, "it does not begin with \\x93NUMPY,");
    r->p += MAGIC_BYTES;
    if (length < MAGIC_BYTES + 2 || r->p[0] < 1 || r->p[0] > 3 || r->p[1] != 0)
        return fail(r, "its version is none of 1.0, 2.0 and 3.0,");
    size_t width = r->p[0] == 1 ? 2 : 4, header = 0;
    r->p += 2;
    if ((size_t)(r->end - r->p) < width)
        return fail(r, "it ends too early");
    memcpy(&header, r->p, width);
    if (header > NPY_MAX_HEADER_BYTES)
        return fail(r, "a header of more than 65536 bytes");
    if (header > (size_t)(r->end - r->p) - width)
        return fail(r, "it is shorter than its header,");
    r->p += width;
    r->end = r->p + header;
    return STATUS_OK;
}

/* Whether `bytes` bytes are exactly those of dtype and shape. */
static enum status check_size(struct reader *r, size_t bytes)
{
    const struct shape *s = &r->header.shape;
    if (s->rank < 1 || s->rank > NUMBERS_MAX_RANK) {
        error_set(r->err, STATUS_INVALID, "wrong_length",
                  "the npy array has %zu dimensions; it must have 1 to 3: (V,), (B, V) or (M, B, V)",
                  s->rank);
        return about_logits(r);
    }
    size_t needed = dtype_bytes(r->header.dtype);
    bool fits = true;
    for (size_t i = 0; i < s->rank; i++)
        fits = fits && s->dims[i] > 0 && !__builtin_mul_overflow(needed, s->dims[i], &needed);
    if (fits && needed == bytes)
        return STATUS_OK;
    error_set(r->err, STATUS_INVALID, "wrong_length",
              fits ? "the npy array has %zu bytes of numbers; its dtype and shape say %zu"
                   : "the npy array has %zu bytes of numbers; its shape is empty, or larger than any memory",
              bytes, needed);
    return about_logits(r);
}

/* Both orders lay the numbers out alike where at most one dimension is longer than 1: one row, say. */
static enum status check_order(struct reader *r)
{
    const struct shape *s = &r->header.shape;
    size_t longer = 0;
    for (size_t i = 0; i < s->rank; i++)
        longer += s->dims[i] > 1;
    if (!r->header.fortran_order || longer <= 1)
        return STATUS_OK;
    error_set(r->err, STATUS_INVALID, "unsupported_order",
              "the npy array is in Fortran order; it must be in C order: save numpy.ascontiguousarray(it)");
    return about_logits(r);
}

/* The numbers as this machine has them: where they lie, or in a copy. */
static const void *values_of(struct reader *r, size_t bytes, struct lender *lender)
{
    size_t width = dtype_bytes(r->header.dtype);
    if (!r->header.big_endian)
        return lender_align(lender, r->end, bytes, width, r->err);
    char *copy = lender->lend(lender, bytes, r->err);
    for (size_t i = 0; copy != NULL && i < bytes; i += width)
        for (size_t b = 0; b < width; b++)
            copy[i + b] = r->end[i + width - 1 - b];
    return copy;
}

enum status npy_decode(const struct query_field *fields, size_t count, const char *body, size_t length,
                       struct arena *arena, struct lender *lender, uint64_t fresh_seed,
                       struct sample_request *out, struct error *err)
{
    struct params p;
    struct reader r = {.start = body, .end = body + length, .p = body, .err = err};
    params_init(&p, arena, PARAM_IN_NPY);
    if (query_read(&p, fields, count, err) != STATUS_OK || read_preamble(&r) != STATUS_OK ||
        read_dictionary(&r) != STATUS_OK)
        return err->status;
    size_t bytes = (size_t)(body + length - r.end);
    if (check_size(&r, bytes) != STATUS_OK || check_order(&r) != STATUS_OK)
        return err->status;
    p.request.dtype = r.header.dtype;
    p.logits_shape = r.header.shape;
    p.request.logits = values_of(&r, bytes, lender);
    return p.request.logits == NULL ? err->status : params_finish(&p, fresh_seed, out, err);
}
