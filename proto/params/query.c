#include "proto/params/query.h"

#include "proto/json/json_scan.h"

#include <string.h>

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
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma == NULL ? end : comma;
        if (numbers_read_double(at, stop, &values[i]) != stop)
            return not_a_number(param, at, (size_t)(stop - at), count > 1 ? i : ERROR_NO_ROW, err);
        at = stop + 1;
    }
    return params_set_numbers(p, param, values, count, count > 1 || param->type == PARAM_WEIGHTS, err);
}

static enum status set_words(struct params *p, const struct param *param, const char *text, struct error *err)
{
    size_t count = count_values(text);
    uint64_t *values = arena_alloc(p->arena, count, sizeof *values);
    if (values == NULL)
        return no_room(param, err);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(text, ",");
        if (params_read_word(param, text, length, count > 1 ? i : ERROR_NO_ROW, &values[i], err) != STATUS_OK)
            return err->status;
        text += length + 1;
    }
    return params_set_words(p, param, values, count, count > 1, err);
}

static enum status set_flag(struct params *p, const struct param *param, const char *text, struct error *err)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return params_set_flag(p, param, text[0] == 't', err);
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

enum status query_read(struct params *p, const struct query_field *fields, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (query_set(p, &fields[i], err) != STATUS_OK)
            return err->status;
    return STATUS_OK;
}
