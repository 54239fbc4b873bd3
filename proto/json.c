#include "proto/json.h"

#include "proto/json_scan.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

struct decoder {
    struct json_scan scan;
    struct params params;
    float *numbers; /* [capacity] */
    size_t used, capacity;
    struct error *err;
};

size_t json_arena_bytes(size_t commas)
{
    size_t values = commas < PARAMS_MAX_VALUES ? commas + PARAMS_MAX : PARAMS_MAX_VALUES;
    return JSON_ARENA_BYTES + values * sizeof(double);
}

#define KIND_BYTES 64

/* What a value is, with the value itself where that is short: `the string "0.7"`. */
static const char *kind_of(const cJSON *item, char text[KIND_BYTES])
{
    if (cJSON_IsNumber(item))
        snprintf(text, KIND_BYTES, "the number %.15g", item->valuedouble);
    else if (cJSON_IsString(item) && strlen(item->valuestring) <= 40)
        snprintf(text, KIND_BYTES, "the string \"%s\"", item->valuestring);
    else
        snprintf(text, KIND_BYTES, "%s",
                 cJSON_IsString(item)  ? "a string"
                 : cJSON_IsNull(item)  ? "null"
                 : cJSON_IsTrue(item)  ? "true"
                 : cJSON_IsFalse(item) ? "false"
                 : cJSON_IsArray(item) ? "a list"
                                       : "an object");
    return text;
}

static enum status wrong_type(struct decoder *d, const struct param *param, const cJSON *item, size_t row)
{
    char kind[KIND_BYTES];
    return params_wrong_type(param, kind_of(item, kind), row, d->err);
}

/* ---- numbers ---- */

/* A list's items, or one value, as an array to fill. */
static void *room_for(const cJSON *item, size_t size, size_t *count)
{
    *count = cJSON_IsArray(item) ? (size_t)cJSON_GetArraySize(item) : 1;
    return malloc(*count * size + 1);
}

static const cJSON *first_of(const cJSON *item)
{
    return cJSON_IsArray(item) ? item->child : item;
}

static size_t row_in(const cJSON *item, size_t i)
{
    return cJSON_IsArray(item) ? i : ERROR_NO_ROW;
}

static enum status no_memory(struct decoder *d)
{
    return error_set(d->err, STATUS_NO_MEMORY, "no_memory", "cannot allocate memory for the request");
}

static enum status set_numbers(struct decoder *d, const struct param *param, const cJSON *item)
{
    size_t count, i = 0;
    double *values = room_for(item, sizeof *values, &count);
    if (values == NULL)
        return no_memory(d);
    enum status status = STATUS_OK;
    for (const cJSON *v = first_of(item); v != NULL && i < count && status == STATUS_OK; v = v->next, i++) {
        if (!cJSON_IsNumber(v))
            status = wrong_type(d, param, v, row_in(item, i));
        values[i] = v->valuedouble;
    }
    if (status == STATUS_OK)
        status = params_set_numbers(&d->params, param, values, count, cJSON_IsArray(item), d->err);
    free(values);
    return status;
}

/* ---- words ---- */

#define LARGEST_EXACT 0x1p53

/* The text of the i-th item of a list that is known to be valid. */
static void move_to_item(struct json_scan *scan, size_t i)
{
    scan->p++;
    json_scan_space(scan);
    for (; i > 0; i--) {
        json_scan_value(scan);
        json_scan_space(scan);
        scan->p++; /* the comma */
        json_scan_space(scan);
    }
}

/*
 * A bare number up to 2^53.  The double of 2^53 + 1 is 2^53 as well, so at that value the text decides: all
 * but its plain digits is refused.
 */
static bool is_exact(const struct decoder *d, const char *text, const cJSON *number, size_t row)
{
    if (number->valuedouble != LARGEST_EXACT)
        return number->valuedouble < LARGEST_EXACT;
    struct error ignored;
    struct json_scan scan = d->scan;
    scan.p = text;
    scan.err = &ignored;
    if (row != ERROR_NO_ROW)
        move_to_item(&scan, row);
    const char *first = scan.p;
    json_scan_value(&scan);
    static const char digits[] = "9007199254740992";
    return (size_t)(scan.p - first) == strlen(digits) && memcmp(first, digits, strlen(digits)) == 0;
}

static enum status read_word(struct decoder *d, const struct param *param, const char *text, const cJSON *v,
                             size_t row, uint64_t *out)
{
    if (cJSON_IsString(v))
        return params_read_word(param, v->valuestring, strlen(v->valuestring), row, out, d->err);
    if (!cJSON_IsNumber(v))
        return wrong_type(d, param, v, row);
    if (v->valuedouble >= LARGEST_EXACT && !is_exact(d, text, v, row)) {
        error_set(d->err, STATUS_INVALID, "out_of_range",
                  "%s is above 9007199254740992 (2^53) as a number, which JSON readers round; send it as a "
                  "decimal string",
                  param->name);
        return error_at(d->err, param->name, row);
    }
    if (params_check_number(param, v->valuedouble, row, d->err) != STATUS_OK)
        return d->err->status;
    *out = (uint64_t)v->valuedouble;
    return STATUS_OK;
}

static enum status set_words(struct decoder *d, const struct param *param, const char *text,
                             const cJSON *item)
{
    size_t count, i = 0;
    uint64_t *values = room_for(item, sizeof *values, &count);
    if (values == NULL)
        return no_memory(d);
    enum status status = STATUS_OK;
    for (const cJSON *v = first_of(item); v != NULL && i < count && status == STATUS_OK; v = v->next, i++)
        status = read_word(d, param, text, v, row_in(item, i), &values[i]);
    if (status == STATUS_OK)
        status = params_set_words(&d->params, param, values, count, cJSON_IsArray(item), d->err);
    free(values);
    return status;
}

/* ---- one member ---- */

/* Whether a string's text has the escape of a zero byte, which would end it early in C. */
static bool has_zero_byte(const char *text, const char *end)
{
    for (const char *p = text; p + 5 < end; p++) {
        if (*p == '\\' && memcmp(p + 1, "u0000", 5) == 0)
            return true;
        p += *p == '\\'; /* an escaped backslash begins no other escape */
    }
    return false;
}

static enum status set_value(struct decoder *d, const struct param *param, const char *text,
                             const cJSON *item)
{
    switch (param->type) {
    case PARAM_WORD:
        return set_words(d, param, text, item);
    case PARAM_REAL:
    case PARAM_COUNT:
    case PARAM_WEIGHTS:
        return set_numbers(d, param, item);
    case PARAM_FLAG:
        if (cJSON_IsBool(item))
            return params_set_flag(&d->params, param, cJSON_IsTrue(item), d->err);
        break;
    case PARAM_CHOICE:
    case PARAM_TEXT:
        if (cJSON_IsString(item) && !has_zero_byte(text, d->scan.p))
            return params_set_text(&d->params, param, item->valuestring, d->err);
        break;
    case PARAM_ARRAY:
        break;
    }
    return wrong_type(d, param, item, ERROR_NO_ROW);
}

/* Any value but logits and bias. */
static enum status read_value(struct decoder *d, const struct param *param)
{
    const char *text = d->scan.p;
    if (json_scan_value(&d->scan) != STATUS_OK)
        return d->err->status;
    size_t length = (size_t)(d->scan.p - text);
    if (length > PARAMS_MAX_TEXT_BYTES) {
        error_set(d->err, STATUS_TOO_LARGE, "too_large", "%s has %zu bytes of JSON; at most %zu are read",
                  param->name, length, PARAMS_MAX_TEXT_BYTES);
        return error_at(d->err, param->name, ERROR_NO_ROW);
    }
    cJSON *item = cJSON_ParseWithLength(text, length);
    if (item == NULL)
        return no_memory(d);
    enum status status = set_value(d, param, text, item);
    cJSON_Delete(item);
    return status;
}

static enum status read_array(struct decoder *d, const struct param *param)
{
    struct shape shape;
    float *values = d->numbers + d->used;
    if (d->scan.p >= d->scan.end || *d->scan.p != '[')
        return read_value(d, param); /* which refuses it, for its type or for its text */
    if (numbers_read_array(&d->scan.p, d->scan.end, values, d->capacity - d->used, &shape, param->name,
                           d->err) != STATUS_OK)
        return d->err->status;
    size_t count = 1;
    for (size_t i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    d->used += count;
    return params_set_array(&d->params, param, values, &shape, d->err);
}

/* The parameter that a key names; p stands behind the key. */
static enum status find_param(struct decoder *d, const char *key, const struct param **out)
{
    size_t length = (size_t)(d->scan.p - key);
    if (memchr(key, '\\', length) == NULL)
        return params_begin(&d->params, key + 1, length - 2, out, d->err);
    cJSON *item = cJSON_ParseWithLength(key, length);
    if (item == NULL)
        return no_memory(d);
    enum status status = params_begin(&d->params, item->valuestring, strlen(item->valuestring), out, d->err);
    cJSON_Delete(item);
    return status;
}

static enum status read_member(struct decoder *d)
{
    const struct param *param = NULL;
    json_scan_space(&d->scan);
    const char *key = d->scan.p;
    if (json_scan_string(&d->scan) != STATUS_OK || find_param(d, key, &param) != STATUS_OK)
        return d->err->status;
    json_scan_space(&d->scan);
    if (json_scan_expect(&d->scan, ':', "':'") != STATUS_OK)
        return d->err->status;
    json_scan_space(&d->scan);
    assert(param != NULL);
    enum status status = param->type == PARAM_ARRAY ? read_array(d, param) : read_value(d, param);
    json_scan_space(&d->scan);
    return status;
}

/* ---- the body ---- */

static enum status read_members(struct decoder *d)
{
    json_scan_space(&d->scan);
    if (d->scan.p < d->scan.end && *d->scan.p == '}') {
        d->scan.p++;
        return STATUS_OK;
    }
    for (;;) {
        if (read_member(d) != STATUS_OK)
            return d->err->status;
        if (d->scan.p >= d->scan.end || *d->scan.p != ',')
            return json_scan_expect(&d->scan, '}', "',' or '}'");
        d->scan.p++;
    }
}

/* A body that is valid JSON, or not, but no object. */
static enum status not_an_object(struct decoder *d)
{
    if (json_scan_value(&d->scan) != STATUS_OK)
        return d->err->status;
    return error_set(d->err, STATUS_INVALID, "wrong_type",
                     "the body is no JSON object; it must be one, such as {\"logits\":[[1,2,3]]}");
}

static enum status read_body(struct decoder *d)
{
    json_scan_space(&d->scan);
    if (d->scan.p >= d->scan.end)
        return error_set(d->err, STATUS_INVALID, "malformed_json",
                         "the body is empty; it must be a JSON object");
    if (*d->scan.p != '{')
        return not_an_object(d);
    d->scan.p++;
    if (read_members(d) != STATUS_OK)
        return d->err->status;
    json_scan_space(&d->scan);
    if (d->scan.p < d->scan.end)
        return json_scan_fail(&d->scan, "more text after the object");
    return STATUS_OK;
}

enum status json_decode(const char *body, size_t length, struct arena *arena, float *numbers, size_t capacity,
                        uint64_t fresh_seed, struct sample_request *out, struct error *err)
{
    struct decoder d = {
        .scan = {.start = body, .end = body + length, .p = body, .err = err},
        .numbers = numbers,
        .capacity = capacity,
        .err = err,
    };
    params_init(&d.params, arena, PARAM_IN_JSON);
    if (read_body(&d) != STATUS_OK)
        return err->status;
    return params_finish(&d.params, fresh_seed, out, err);
}
