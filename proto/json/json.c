#include "proto/json/json.h"

#include "proto/json/json_lists.h"
#include "proto/json/json_packed.h"
#include "proto/json/json_scan.h"
#include "proto/numbers/decimal.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

struct decoder {
    struct json_scan scan;
    struct params params;
    struct lender *lender;
    float *numbers; /* [capacity] lent with the first array */
    size_t used, capacity;
    struct error *err;
};

size_t json_arena_bytes(size_t length)
{
    size_t values = length / 2 < PARAMS_MAX_VALUES ? length / 2 + PARAMS_MAX : PARAMS_MAX_VALUES;
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

/* true or false, and a list of them */
static enum status set_switches(struct decoder *d, const struct param *param, const cJSON *item)
{
    bool is_list = cJSON_IsArray(item);
    size_t count, i = 0;
    double *values = room_for(item, sizeof *values, &count);
    if (values == NULL)
        return no_memory(d);
    enum status status = STATUS_OK;
    for (const cJSON *one = is_list ? item->child : item; one != NULL && status == STATUS_OK;
         one = is_list ? one->next : NULL, i++) {
        if (!cJSON_IsBool(one))
            status = wrong_type(d, param, one, is_list ? i : ERROR_NO_ROW);
        values[i] = cJSON_IsTrue(one);
    }
    if (status == STATUS_OK)
        status = params_set_switches(&d->params, param, values, count, is_list, d->err);
    free(values);
    return status;
}

/* [a,b] */
static enum status read_pair(struct decoder *d, const struct param *param, const cJSON *pair, size_t row,
                             double out[2])
{
    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2)
        return wrong_type(d, param, pair, row);
    for (int i = 0; i < 2; i++) {
        const cJSON *number = cJSON_GetArrayItem(pair, i);
        if (!cJSON_IsNumber(number))
            return wrong_type(d, param, number, row);
        out[i] = number->valuedouble;
    }
    return STATUS_OK;
}

/* [a,b], or a list of one for each row */
static enum status set_pairs(struct decoder *d, const struct param *param, const cJSON *item)
{
    bool per_row = cJSON_IsArray(item) && cJSON_IsArray(item->child);
    size_t rows = per_row ? (size_t)cJSON_GetArraySize(item) : 0, row = 0;
    double *values = malloc(2 * (rows + 1) * sizeof *values);
    if (values == NULL)
        return no_memory(d);
    enum status status = STATUS_OK;
    for (const cJSON *pair = per_row ? item->child : item; pair != NULL && status == STATUS_OK;
         pair = per_row ? pair->next : NULL, row++)
        status = read_pair(d, param, pair, per_row ? row : ERROR_NO_ROW, values + 2 * row);
    if (status == STATUS_OK)
        status = params_set_pairs(&d->params, param, values, rows, d->err);
    free(values);
    return status;
}

/* ---- words ---- */

/* The double of 2^53 + 1 is 2^53, and that of 2^52 + 0.3 is whole, so the text decides. */
static enum status read_bare_word(struct decoder *d, const struct param *param, const struct walk *w,
                                  uint64_t *out)
{
    if (decimal_read_whole(w->text, w->scan.p, out))
        return STATUS_OK;
    if (w->item->valuedouble >= (double)DECIMAL_LARGEST_EXACT) {
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
    if (cJSON_IsString(w->item) && json_has_zero_byte(w->text, w->scan.p))
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

/* ---- ids ---- */

/* Read the ids of one list, which is row `row` or, when that is ERROR_NO_ROW, all there is. */
static enum status read_ids(struct decoder *d, const struct param *param, const cJSON *list, size_t row,
                            int32_t *out)
{
    size_t i = 0;
    for (const cJSON *item = list->child; item != NULL; item = item->next, i++) {
        char kind[KIND_BYTES];
        bool is_number = cJSON_IsNumber(item);
        if (!is_number || !params_is_id(item->valuedouble))
            return params_refuse_id(param, is_number ? "out_of_range" : "wrong_type", kind_of(item, kind),
                                    row, i, d->err);
        out[i] = (int32_t)item->valuedouble;
    }
    return STATUS_OK;
}

/* Whether its items are rows of this length. */
static enum status check_id_rows(struct decoder *d, const struct param *param, const cJSON *rows,
                                 size_t width)
{
    size_t row = 0;
    for (const cJSON *list = rows->child; list != NULL; list = list->next, row++) {
        if (!cJSON_IsArray(list))
            return wrong_type(d, param, list, row);
        if ((size_t)cJSON_GetArraySize(list) != width) {
            error_set(d->err, STATUS_INVALID, "wrong_length", "%s[%zu] has %d ids; the first row has %zu",
                      param->name, row, cJSON_GetArraySize(list), width);
            return error_at(d->err, param->name, row);
        }
    }
    return STATUS_OK;
}

static enum status read_id_rows(struct decoder *d, const struct param *param, const cJSON *rows, size_t width,
                                int32_t *out)
{
    size_t row = 0;
    for (const cJSON *list = rows->child; list != NULL; list = list->next, row++)
        if (read_ids(d, param, list, row, out + row * width) != STATUS_OK)
            return d->err->status;
    return STATUS_OK;
}

/* [B][K] or one flat row [K] */
static enum status set_ids(struct decoder *d, const struct param *param, const cJSON *item)
{
    if (!cJSON_IsArray(item))
        return wrong_type(d, param, item, ERROR_NO_ROW);
    bool nested = cJSON_IsArray(item->child);
    struct shape shape =
        nested
            ? (struct shape){2, {(size_t)cJSON_GetArraySize(item), (size_t)cJSON_GetArraySize(item->child)}}
            : (struct shape){1, {(size_t)cJSON_GetArraySize(item)}};
    size_t rows = nested ? shape.dims[0] : 1, width = shape.dims[shape.rank - 1];
    if (width == 0) {
        error_set(d->err, STATUS_INVALID, "wrong_length", "%s is empty", param->name);
        return error_at(d->err, param->name, ERROR_NO_ROW);
    }
    if (nested && check_id_rows(d, param, item, width) != STATUS_OK)
        return d->err->status;
    int32_t *ids = params_keep(&d->params, param, rows * width, sizeof *ids, d->err);
    if (ids == NULL)
        return d->err->status;
    enum status status =
        nested ? read_id_rows(d, param, item, width, ids) : read_ids(d, param, item, ERROR_NO_ROW, ids);
    return status == STATUS_OK ? params_set_ids(&d->params, param, ids, &shape, d->err) : status;
}

/* ---- one member ---- */

static enum status set_text(struct decoder *d, const struct param *param, const char *text, const cJSON *item)
{
    if (json_has_zero_byte(text, d->scan.p))
        return params_out_of_range(param, "has a zero byte", ERROR_NO_ROW, d->err);
    return params_set_text(&d->params, param, item->valuestring, d->err);
}

static enum status set_value(struct decoder *d, const struct param *param, const char *text,
                             const cJSON *item)
{
    if (cJSON_IsArray(item) && !params_takes_list(param)) {
        if (cJSON_GetArraySize(item) != 1)
            return wrong_type(d, param, item, ERROR_NO_ROW);
        item = item->child; /* a list of one value is that value */
    }
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
    case PARAM_IDS:
        return set_ids(d, param, item);
    case PARAM_SWITCH:
        return set_switches(d, param, item);
    case PARAM_PAIR:
        return set_pairs(d, param, item);
    default: /* read_any() has read them, or they are of other forms */
        break;
    }
    return wrong_type(d, param, item, ERROR_NO_ROW);
}

/* How many items of the list at text come before the one that a scan of it has failed in. */
static size_t items_before_fault(const struct decoder *d, const char *text)
{
    struct error ignored;
    struct json_scan s = d->scan;
    s.err = &ignored;
    s.p = text + 1; /* behind the '[' */
    for (size_t items = 0;; items++) {
        json_scan_space(&s);
        if (json_scan_value(&s) != STATUS_OK)
            return items;
        json_scan_space(&s);
        s.p++; /* the comma */
    }
}

/* The value at text is no JSON; p stands where that shows. */
static enum status malformed_value(struct decoder *d, const struct param *param, const char *text)
{
    const char *word = numbers_foreign_word(d->scan.p, d->scan.end);
    if (word == NULL || *text == '{')
        return error_at(d->err, param->name, ERROR_NO_ROW);
    char verdict[64];
    snprintf(verdict, sizeof verdict, "is %s, which JSON does not have", word);
    size_t row = *text == '[' ? items_before_fault(d, text) : ERROR_NO_ROW;
    return params_refuse(param, "malformed_json", verdict, row, d->err);
}

/* Any value but arrays of numbers. */
static enum status read_value(struct decoder *d, const struct param *param)
{
    const char *text = d->scan.p;
    if (json_scan_value(&d->scan) != STATUS_OK)
        return malformed_value(d, param, text);
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

/* Lists of any length. */
static enum status read_lists(struct decoder *d, const struct param *param)
{
    const char *text = d->scan.p;
    if (json_scan_value(&d->scan) != STATUS_OK)
        return malformed_value(d, param, text);
    return json_lists_set(&d->params, param, text, d->scan.p, d->lender, d->err);
}

/* Room for the numbers of this array and of any after it. */
static enum status lend_numbers(struct decoder *d)
{
    if (d->numbers != NULL)
        return STATUS_OK;
    d->capacity = numbers_count_bound(d->scan.p, (size_t)(d->scan.end - d->scan.p));
    d->numbers = d->lender->lend(d->lender, d->capacity * sizeof *d->numbers, d->err);
    return d->numbers == NULL ? d->err->status : STATUS_OK;
}

static enum status read_array(struct decoder *d, const struct param *param)
{
    struct shape shape;
    if (lend_numbers(d) != STATUS_OK)
        return d->err->status;
    float *values = d->numbers + d->used;
    if (numbers_read_array(&d->scan.p, d->scan.end, values, d->capacity - d->used, &shape, param->name,
                           d->err) != STATUS_OK)
        return d->err->status;
    size_t count = 1;
    for (size_t i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    d->used += count;
    return params_set_array(&d->params, param, values, DTYPE_F32, &shape, d->err);
}

/* {"b64":"...","dtype":"i32","shape":[B,W]} */
static enum status read_packed_words(struct decoder *d, const struct param *param)
{
    struct json_packed packed;
    if (json_packed_read_words(&d->scan, d->lender, param->name, &packed) != STATUS_OK)
        return d->err->status;
    bool per_row = packed.shape.rank == 2;
    size_t words = packed.shape.dims[packed.shape.rank - 1];
    struct rule_value value = {.sent = true, .bitmask = {packed.values, words, per_row}};
    params_set_lists(&d->params, param, &value, per_row ? packed.shape.dims[0] : 0);
    return STATUS_OK;
}

static enum status read_packed(struct decoder *d, const struct param *param)
{
    struct json_packed packed;
    if (json_packed_read(&d->scan, d->lender, param->name, &packed) != STATUS_OK)
        return d->err->status;
    return params_set_array(&d->params, param, packed.values, packed.dtype, &packed.shape, d->err);
}

/* Step over a null for a parameter that need not be sent: writers of optional fields put it there. */
static bool skip_null(struct decoder *d, const struct param *param)
{
    struct json_scan *s = &d->scan;
    if (!params_is_optional(param) || s->end - s->p < 4 || memcmp(s->p, "null", 4) != 0)
        return false;
    s->p += 4;
    params_omit(&d->params, param);
    return true;
}

/* The value of a parameter, by what it is and how it begins. */
static enum status read_any(struct decoder *d, const struct param *param)
{
    char first = d->scan.p < d->scan.end ? *d->scan.p : '\0';
    if (skip_null(d, param))
        return STATUS_OK;
    if (first == '[' && (param->type == PARAM_LOGITS || param->type == PARAM_ARRAY))
        return read_array(d, param);
    if (first == '{' && param->type == PARAM_LOGITS)
        return read_packed(d, param);
    if (first == '{' && param->type == PARAM_BITMASK)
        return read_packed_words(d, param);
    if (param->type == PARAM_ID_LISTS || param->type == PARAM_BIASES || param->type == PARAM_SEQUENCES ||
        param->type == PARAM_BITMASK || param->type == PARAM_ORDER)
        return read_lists(d, param);
    return read_value(d, param);
}

/* The parameter that a key names; p stands behind the key. */
static enum status find_param(struct decoder *d, const char *key, const struct param **out)
{
    size_t length = (size_t)(d->scan.p - key);
    /* a key with a zero byte is no name, whatever comes before it: its text is as unknown */
    if (memchr(key, '\\', length) == NULL || json_has_zero_byte(key, d->scan.p))
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
    enum status status = read_any(d, param);
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
    json_scan_mark(&d->scan);
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

enum status json_decode(const char *body, size_t length, struct arena *arena, struct lender *lender,
                        uint64_t fresh_seed, struct sample_request *out, struct error *err)
{
    struct decoder d = {
        .scan = {.start = body, .end = body + length, .p = body, .err = err},
        .lender = lender,
        .err = err,
    };
    params_init(&d.params, arena, PARAM_IN_JSON);
    if (read_body(&d) != STATUS_OK)
        return err->status;
    return params_finish(&d.params, fresh_seed, out, err);
}
