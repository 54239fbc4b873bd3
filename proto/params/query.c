#include "proto/params/query.h"

#include "proto/json/json_scan.h"
#include "proto/numbers/decimal.h"

#include <string.h>
#include <strings.h>

size_t query_arena_bytes(const struct query_field *fields, size_t count)
{
    /* a list holds at most one number for two characters; then it is kept as double, float or word, and an
       unknown name is copied */
    size_t bytes = 2 * (PARAMS_MAX + 8) * ARENA_ALIGNMENT + 1024;
    for (size_t i = 0; i < count; i++) {
        size_t length = fields[i].value == NULL ? 0 : strlen(fields[i].value);
        bytes += length + NUMBERS_PADDING + 2 * (length / 2 + 1) * sizeof(double) + 3 * ARENA_ALIGNMENT;
    }
    return bytes;
}

static size_t count_values(const char *text)
{
    size_t commas = 0;
    for (; *text != '\0'; text++)
        commas += *text == ',';
    return commas + 1;
}

/* One value of a list. */
struct piece {
    const char *text, *end; /* spaces around it left out */
    const char *next;       /* behind its comma, or behind the end of the list */
};

/* The value that begins at text, in a list that ends at `end`. */
static struct piece cut_piece(const char *text, const char *end)
{
    const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma == NULL ? end : comma;
    struct piece piece = {text, stop, stop + 1};
    while (piece.text < piece.end && *piece.text == ' ')
        piece.text++;
    while (piece.end > piece.text && piece.end[-1] == ' ')
        piece.end--;
    return piece;
}

/* A copy behind which the number reader may look. */
static const char *padded_copy(struct arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length + NUMBERS_PADDING, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        memset(copy + length, 0, NUMBERS_PADDING);
    }
    return copy;
}

static enum status no_room(const struct param *param, struct error *err)
{
    return error_set(err, STATUS_INTERNAL, "internal", "%s has more values than were reckoned with",
                     param->name);
}

/* What stands where a number should, as far as it is text. */
static enum status not_a_number(const struct param *param, const char *text, size_t length, size_t row,
                                struct error *err)
{
    char what[64];
    size_t kept = json_utf8_prefix(text, length, 32);
    snprintf(what, sizeof what, "\"%.*s%s\"", (int)kept, text, kept < length ? "..." : "");
    return params_wrong_type(param, length == 0 ? "empty" : what, row, err);
}

static enum status set_numbers(struct params *p, const struct param *param, const char *text,
                               struct error *err)
{
    size_t length = strlen(text), count = count_values(text);
    const char *at = padded_copy(p->arena, text, length);
    double *values = arena_alloc(p->arena, count, sizeof *values);
    if (at == NULL || values == NULL)
        return no_room(param, err);
    const char *end = at + length;
    for (size_t i = 0; i < count; i++) {
        struct piece piece = cut_piece(at, end);
        size_t size = (size_t)(piece.end - piece.text);
        if (numbers_read_double(piece.text, piece.end, &values[i]) != piece.end || size == 0)
            return not_a_number(param, piece.text, size, count > 1 ? i : ERROR_NO_ROW, err);
        at = piece.next;
    }
    return params_set_numbers(p, param, values, count, count > 1 || param->type == PARAM_WEIGHTS, err);
}

/* Decimal digits, or a number in another spelling that is whole: 7.0, as in JSON. */
static enum status read_word(const struct param *param, const struct piece *piece, size_t row, uint64_t *out,
                             struct error *err)
{
    if (decimal_read_whole(piece->text, piece->end, out))
        return STATUS_OK;
    return params_read_word(param, piece->text, (size_t)(piece->end - piece->text), row, out, err);
}

static enum status set_words(struct params *p, const struct param *param, const char *text, struct error *err)
{
    size_t length = strlen(text), count = count_values(text);
    const char *at = padded_copy(p->arena, text, length);
    uint64_t *values = arena_alloc(p->arena, count, sizeof *values);
    if (at == NULL || values == NULL)
        return no_room(param, err);
    const char *end = at + length;
    for (size_t i = 0; i < count; i++) {
        struct piece piece = cut_piece(at, end);
        if (read_word(param, &piece, count > 1 ? i : ERROR_NO_ROW, &values[i], err) != STATUS_OK)
            return err->status;
        at = piece.next;
    }
    return params_set_words(p, param, values, count, count > 1, err);
}

static enum status set_flag(struct params *p, const struct param *param, const char *text, struct error *err)
{
    bool is_true = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (is_true || strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0)
        return params_set_flag(p, param, is_true, err);
    return not_a_number(param, text, strlen(text), ERROR_NO_ROW, err);
}

static enum status set_text(struct params *p, const struct param *param, const char *text, struct error *err)
{
    const char *end = text + strlen(text);
    for (const char *at = text; at < end;) {
        size_t length = json_utf8_length(at, end);
        if (length == 0)
            return params_wrong_type(param, "not valid UTF-8", ERROR_NO_ROW, err);
        at += length;
    }
    return params_set_text(p, param, text, err);
}

enum status query_set(struct params *p, const struct query_field *field, struct error *err)
{
    const struct param *param;
    if (params_begin(p, field->key, strlen(field->key), &param, err) != STATUS_OK)
        return err->status;
    const char *text = field->value == NULL ? "" : field->value;
    switch (param->type) {
    case PARAM_WORD:
        return set_words(p, param, text, err);
    case PARAM_FLAG:
        return set_flag(p, param, text, err);
    case PARAM_LOGITS:
    case PARAM_ARRAY:
    case PARAM_IDS:
        return params_wrong_type(param, "a text", ERROR_NO_ROW, err);
    case PARAM_CHOICE:
    case PARAM_TEXT:
        return set_text(p, param, text, err);
    default:
        return set_numbers(p, param, text, err);
    }
}

bool query_is_empty(const struct query_field *field)
{
    return *field->key == '\0' && field->value == NULL;
}

enum status query_read(struct params *p, const struct query_field *fields, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!query_is_empty(&fields[i]) && query_set(p, &fields[i], err) != STATUS_OK)
            return err->status;
    return STATUS_OK;
}
