#include "proto/params/query.h"

#include "proto/json/json_scan.h"
#include "proto/numbers/decimal.h"

#include <stdio.h>
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

/* true or false in any case, 1 or 0 */
static bool read_flag(const char *text, size_t length, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"true", 1}, {"1", 1}, {"false", 0}, {"0", 0}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        *out = words[i].value;
        if (strlen(words[i].word) == length && strncasecmp(words[i].word, text, length) == 0)
            return true;
    }
    return false;
}

/* 0.5,2: two numbers for all rows, or two for each */
static enum status set_pairs(struct params *p, const struct param *param, const double *values, size_t count,
                             struct error *err)
{
    if (count % 2 != 0)
        return params_refuse(param, "wrong_length", "has an odd number of values", ERROR_NO_ROW, err);
    return params_set_pairs(p, param, values, count == 2 ? 0 : count / 2, err);
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
    if (param->type == PARAM_PAIR)
        return set_pairs(p, param, values, count, err);
    return params_set_numbers(p, param, values, count, count > 1 || param->type == PARAM_WEIGHTS, err);
}

/* true,false */
static enum status set_switches(struct params *p, const struct param *param, const char *text,
                                struct error *err)
{
    size_t count = count_values(text);
    double *values = arena_alloc(p->arena, count, sizeof *values);
    if (values == NULL)
        return no_room(param, err);
    const char *end = text + strlen(text);
    for (size_t i = 0; i < count; i++) {
        struct piece piece = cut_piece(text, end);
        size_t size = (size_t)(piece.end - piece.text);
        if (!read_flag(piece.text, size, &values[i]))
            return not_a_number(param, piece.text, size, count > 1 ? i : ERROR_NO_ROW, err);
        text = piece.next;
    }
    return params_set_switches(p, param, values, count, count > 1, err);
}

/* 1,2: one list for all rows */
static enum status set_ids(struct params *p, const struct param *param, const char *text, struct error *err)
{
    size_t count = *text == '\0' ? 0 : count_values(text);
    int32_t *ids = arena_alloc(p->arena, count, sizeof *ids);
    uint32_t *starts = arena_alloc(p->arena, 2, sizeof *starts);
    const char *at = padded_copy(p->arena, text, strlen(text));
    if (ids == NULL || starts == NULL || at == NULL)
        return no_room(param, err);
    const char *end = at + strlen(text);
    for (size_t i = 0; i < count; i++) {
        struct piece piece = cut_piece(at, end);
        double value;
        bool number =
            numbers_read_double(piece.text, piece.end, &value) == piece.end && piece.end > piece.text;
        if (!number || !params_is_id(value)) {
            char what[48];
            snprintf(what, sizeof what, "%.*s",
                     (int)json_utf8_prefix(piece.text, (size_t)(piece.end - piece.text), 40), piece.text);
            return params_refuse_id(param, number ? "out_of_range" : "wrong_type", what, ERROR_NO_ROW, i,
                                    err);
        }
        ids[i] = (int32_t)value;
        at = piece.next;
    }
    starts[0] = 0;
    starts[1] = (uint32_t)count;
    struct rule_value value = {.sent = true, .ids = {.ids = ids, .starts = starts}};
    params_set_lists(p, param, &value, 0);
    return STATUS_OK;
}

/* top_k,temperature */
static enum status set_order(struct params *p, const struct param *param, const char *text, struct error *err)
{
    const char *end = text + strlen(text);
    while (text < end) {
        struct piece piece = cut_piece(text, end);
        if (params_add_to_order(p, param, piece.text, (size_t)(piece.end - piece.text), err) != STATUS_OK)
            return err->status;
        text = piece.next;
    }
    return STATUS_OK;
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
    double flag;
    if (read_flag(text, strlen(text), &flag))
        return params_set_flag(p, param, flag == 1, err);
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
    case PARAM_SWITCH:
        return set_switches(p, param, text, err);
    case PARAM_ID_LISTS:
        return set_ids(p, param, text, err);
    case PARAM_ORDER:
        return set_order(p, param, text, err);
    case PARAM_LOGITS:
    case PARAM_ARRAY:
    case PARAM_IDS:
    case PARAM_BIASES:
    case PARAM_SEQUENCES:
    case PARAM_BITMASK:
    case PARAM_BIAS_IDS:
    case PARAM_BIAS_VALUES:
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
