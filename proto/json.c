#include "proto/json.h"

#include "proto/decimal.h"
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

/* ---- lists ---- */

/*
 * The items of a list, or one value, each with its text: what cJSON makes of it is rounded to a double, and
 * ends at a zero byte.  The text is known to be valid.
 */
struct walk {
    const cJSON *item;     /* NULL after the last */
    const char *text;      /* of the item */
    struct json_scan scan; /* stands behind that */
    size_t row;            /* in the list, or ERROR_NO_ROW */
    struct error ignored;
};

static void find_text(struct walk *w)
{
    json_scan_space(&w->scan);
    w->text = w->scan.p;
    if (w->item != NULL)
        json_scan_value(&w->scan);
}

static void walk_begin(struct walk *w, const struct decoder *d, const cJSON *item, const char *text)
{
    bool is_list = cJSON_IsArray(item);
    *w = (struct walk){
        .item = is_list ? item->child : item, .scan = d->scan, .row = is_list ? 0 : ERROR_NO_ROW};
    w->scan.err = &w->ignored;
    w->scan.p = text + is_list; /* behind the '[' */
    find_text(w);
}

static void walk_next(struct walk *w)
{
    w->item = w->item->next;
    if (w->item == NULL)
        return;
    w->row++;
    json_scan_space(&w->scan);
    w->scan.p++; /* the comma */
    find_text(w);
}

/* Memory for the values of a list, or of one value. */
static void *room_for(const cJSON *item, size_t size, size_t *count)
{
    *count = cJSON_IsArray(item) ? (size_t)cJSON_GetArraySize(item) : 1;
    return malloc(*count * size + 1);
}

static enum status no_memory(struct decoder *d)
{
    return error_set(d->err, STATUS_NO_MEMORY, "no_memory", "cannot allocate memory for the request");
}

/* ---- numbers ---- */

static enum status set_numbers(struct decoder *d, const struct param *param, const char *text,
                               const cJSON *item)
{
    size_t count, i = 0;
    struct walk w;
    double *values = room_for(item, sizeof *values, &count);
    if (values == NULL)
        return no_memory(d);
    enum status status = STATUS_OK;
    for (walk_begin(&w, d, item, text); w.item != NULL && status == STATUS_OK; walk_next(&w)) {
        if (!cJSON_IsNumber(w.item))
            status = wrong_type(d, param, w.item, w.row);
        values[i++] = w.item->valuedouble;
    }
    if (status == STATUS_OK)
        status = params_set_numbers(&d->params, param, values, count, cJSON_IsArray(item), d->err);
    free(values);
    return status;
}

/* ---- words ---- */

#define LARGEST_EXACT (UINT64_C(1) << 53)

/* A number that is whole and from 0 to 2^53, to the last digit; false for any other. */
static bool read_exact(const char *text, const char *end, uint64_t *out)
{
    struct decimal n;
    if (decimal_scan(text, end, &n) == NULL)
        return false;
    for (; n.exponent < 0 && n.mantissa > 0 && n.mantissa % 10 == 0; n.exponent++)
        n.mantissa /= 10;
    for (; n.exponent > 0 && n.mantissa > 0 && n.mantissa <= LARGEST_EXACT; n.exponent--)
        n.mantissa *= 10;
    *out = n.mantissa;
    if (n.mantissa == 0)
        return !n.inexact;
    return !n.negative && !n.inexact && n.exponent == 0 && n.mantissa <= LARGEST_EXACT;
}

/* The double of 2^53 + 1 is 2^53, and that of 2^52 + 0.3 is whole, so the text decides. */
static enum status read_bare_word(struct decoder *d, const struct param *param, const struct walk *w,
                                  uint64_t *out)
{
    if (read_exact(w->text, w->scan.p, out))
        return STATUS_OK;
    if (w->item->valuedouble >= (double)LARGEST_EXACT) {
        error_set(d->err, STATUS_INVALID, "out_of_range",
                  "%s is above 9007199254740992 (2^53) as a number, which JSON readers round; send it as a "
                  "decimal string",
                  param->name);
        return error_at(d->err, param->name, w->row);
    }
    char verdict[16 + JSON_MAX_NUMBER_BYTES];
    snprintf(verdict, sizeof verdict, "is %.*s", (int)(w->scan.p - w->text), w->text);
    return params_out_of_range(param, verdict, w->row, d->err);
}

static enum status read_word(struct decoder *d, const struct param *param, const struct walk *w,
                             uint64_t *out)
{
    const char *digits = w->item->valuestring;
    if (cJSON_IsString(w->item) && has_zero_byte(w->text, w->scan.p))
        return params_out_of_range(param, "has a zero byte", w->row, d->err);
    if (cJSON_IsString(w->item))
        return params_read_word(param, digits, strlen(digits), w->row, out, d->err);
    if (!cJSON_IsNumber(w->item))
        return wrong_type(d, param, w->item, w->row);
    return read_bare_word(d, param, w, out);
}

static enum status set_words(struct decoder *d, const struct param *param, const char *text,
                             const cJSON *item)
{
    size_t count, i = 0;
    struct walk w;
    uint64_t *values = room_for(item, sizeof *values, &count);
    if (values == NULL)
        return no_memory(d);
    enum status status = STATUS_OK;
    for (walk_begin(&w, d, item, text); w.item != NULL && status == STATUS_OK; walk_next(&w))
        status = read_word(d, param, &w, &values[i++]);
    if (status == STATUS_OK)
        status = params_set_words(&d->params, param, values, count, cJSON_IsArray(item), d->err);
    free(values);
    return status;
}

/* ---- one member ---- */

static enum status set_text(struct decoder *d, const struct param *param, const char *text, const cJSON *item)
{
    if (has_zero_byte(text, d->scan.p))
        return params_out_of_range(param, "has a zero byte", ERROR_NO_ROW, d->err);
    return params_set_text(&d->params, param, item->valuestring, d->err);
}

static enum status set_value(struct decoder *d, const struct param *param, const char *text,
                             const cJSON *item)
{
    if (cJSON_IsArray(item) && !params_takes_list(param))
        return wrong_type(d, param, item, ERROR_NO_ROW);
    switch (param->type) {
    case PARAM_WORD:
        return set_words(d, param, text, item);
    case PARAM_REAL:
    case PARAM_COUNT:
    case PARAM_WEIGHTS:
        return set_numbers(d, param, text, item);
    case PARAM_FLAG:
        if (cJSON_IsBool(item))
            return params_set_flag(&d->params, param, cJSON_IsTrue(item), d->err);
        break;
    case PARAM_CHOICE:
    case PARAM_TEXT:
        if (cJSON_IsString(item))
            return set_text(d, param, text, item);
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
        return error_at(d->err, param->name, ERROR_NO_ROW);
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
    return params_set_array(&d->params, param, values, DTYPE_F32, &shape, d->err);
}

/* The parameter that a key names; p stands behind the key. */
static enum status find_param(struct decoder *d, const char *key, const struct param **out)
{
    size_t length = (size_t)(d->scan.p - key);
    /* a key with a zero byte is no name, whatever comes before it: its text is as unknown */
    if (memchr(key, '\\', length) == NULL || has_zero_byte(key, d->scan.p))
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
    if (d->scan.end - d->scan.p >= 3 && memcmp(d->scan.p, "\xef\xbb\xbf", 3) == 0)
        return json_scan_fail(&d->scan, "a byte order mark");
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
