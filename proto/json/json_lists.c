#include "proto/json/json_lists.h"

#include "proto/json/json_scan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A value while it is read; its text is valid, so that brackets, commas and strings are where they should. */
struct lists {
    const char *p, *end;
    struct params *params;
    const struct param *param;
    struct lender *lender;
    struct error *err;
    int32_t *ids;         /* all of them, or words */
    float *biases;        /* beside the ids */
    uint32_t *starts;     /* of each list, and the end of the last */
    uint32_t *row_starts; /* of each row's lists, and the end of the last */
    size_t num_ids, num_lists;
};

static void skip_space(struct lists *l)
{
    while (*l->p == ' ' || *l->p == '\t' || *l->p == '\n' || *l->p == '\r')
        l->p++;
}

/* The character that comes next, spaces left out. */
static char peek(struct lists *l)
{
    skip_space(l);
    return *l->p;
}

/* Step into a list or an object: whether it has an item. */
static bool enter(struct lists *l)
{
    l->p++;
    char next = peek(l);
    bool empty = next == ']' || next == '}';
    l->p += empty;
    return !empty;
}

/* Step behind an item: whether another follows. */
static bool next_item(struct lists *l)
{
    bool more = peek(l) == ',';
    l->p++;
    skip_space(l);
    return more;
}

/* ---- room ---- */

/* What a text can hold at most. */
struct bounds {
    size_t values, lists;
    unsigned depth; /* of lists in lists */
};

static struct bounds bounds_of(const char *text, const char *end)
{
    struct bounds b = {.values = 1, .lists = 1};
    unsigned depth = 0;
    for (; text < end; text++) {
        b.values += *text == ',';
        b.lists += *text == '[' || *text == '{';
        depth += *text == '[';
        depth -= *text == ']';
        b.depth = depth > b.depth ? depth : b.depth;
    }
    return b;
}

/* An id may stand for a list of one. */
static bool make_room(struct lists *l, const struct bounds *b)
{
    size_t lists = b->lists + b->values + 1;
    char *room = l->lender->lend(l->lender, 8 * b->values + 8 * lists, l->err);
    if (room == NULL)
        return false;
    l->ids = (void *)room;
    l->biases = (void *)(room + 4 * b->values);
    l->starts = (void *)(room + 8 * b->values);
    l->row_starts = l->starts + lists;
    l->starts[0] = l->row_starts[0] = 0;
    return true;
}

static void end_list(struct lists *l)
{
    l->starts[++l->num_lists] = (uint32_t)l->num_ids;
}

/* ---- what is wrong ---- */

/* The value that comes next, as far as it is short. */
static const char *describe(struct lists *l, char text[64])
{
    struct error ignored;
    struct json_scan s = {.start = l->p, .end = l->end, .p = l->p, .err = &ignored};
    if (*l->p == '[' || *l->p == '{') {
        snprintf(text, 64, "%s", *l->p == '[' ? "a list" : "an object");
        return text;
    }
    size_t length = json_scan_value(&s) == STATUS_OK ? (size_t)(s.p - l->p) : 0;
    size_t kept = json_utf8_prefix(l->p, length, 40);
    snprintf(text, 64, "%s%.*s%s", *l->p == '"' ? "the string " : "", (int)kept, l->p,
             kept < length ? "..." : "");
    return text;
}

static enum status refuse_id(struct lists *l, size_t row, size_t i)
{
    char text[64];
    bool number = *l->p == '-' || (*l->p >= '0' && *l->p <= '9');
    return params_refuse_id(l->param, number ? "out_of_range" : "wrong_type", describe(l, text), row, i,
                            l->err);
}

static enum status wrong_type(struct lists *l, size_t row)
{
    char text[64];
    return params_wrong_type(l->param, describe(l, text), row, l->err);
}

/* ---- ids ---- */

static bool is_end_of_number(char c)
{
    return c == ',' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* A number that is whole; most are short and plain digits. */
static bool read_whole(struct lists *l, double *out)
{
    uint32_t value = 0;
    const char *p = l->p;
    while (*p >= '0' && *p <= '9' && p - l->p < 9)
        value = value * 10 + (uint32_t)(*p++ - '0');
    *out = value;
    if (p == l->p || !is_end_of_number(*p)) {
        p = numbers_read_double(l->p, l->end, out);
        if (p == NULL || *out != floor(*out))
            return false;
    }
    l->p = p;
    return true;
}

static enum status read_id(struct lists *l, size_t row, size_t i)
{
    double value;
    const char *start = l->p;
    if (!read_whole(l, &value) || !params_is_id(value)) {
        l->p = start;
        return refuse_id(l, row, i);
    }
    l->ids[l->num_ids++] = (int32_t)value;
    return STATUS_OK;
}

/* [1,2] */
static enum status read_ids(struct lists *l, size_t row)
{
    if (peek(l) != '[')
        return wrong_type(l, row);
    size_t i = 0;
    for (bool more = enter(l); more; more = next_item(l))
        if (read_id(l, row, i++) != STATUS_OK)
            return l->err->status;
    end_list(l);
    return STATUS_OK;
}

/* ---- biases ---- */

/* "123": a key that is an id */
static bool read_key(struct lists *l, int32_t *id)
{
    int64_t value = 0;
    const char *p = l->p + 1;
    while (*p >= '0' && *p <= '9' && value <= INT32_MAX)
        value = value * 10 + (*p++ - '0');
    bool valid = p > l->p + 1 && *p == '"' && value <= INT32_MAX;
    *id = (int32_t)value;
    l->p = valid ? p + 1 : l->p;
    return valid;
}

static enum status refuse_bias(struct lists *l, size_t row, const char *what, const char *must)
{
    char text[64], place[32] = "";
    if (row != ERROR_NO_ROW)
        snprintf(place, sizeof place, "[%zu]", row);
    error_set(l->err, STATUS_INVALID, "wrong_type", "%s%s has %s %s; %s", l->param->name, place, what,
              describe(l, text), must);
    return error_at(l->err, l->param->name, row);
}

static enum status read_bias(struct lists *l, size_t row)
{
    int32_t id;
    double value;
    if (!read_key(l, &id))
        return refuse_bias(l, row, "the key", "it must be a token id");
    skip_space(l);
    l->p++; /* the colon */
    const char *number = peek(l) == 'n' ? l->p : numbers_read_double(l->p, l->end, &value);
    if (number == NULL)
        return refuse_bias(l, row, "the value", "it must be a number, or null to mask");
    l->ids[l->num_ids] = id;
    l->biases[l->num_ids++] = number == l->p ? -INFINITY : (float)value;
    if (number != l->p && !isfinite((float)value))
        return refuse_bias(l, row, "the value", "it must be a number that a float32 can hold");
    l->p = number == l->p ? l->p + strlen("null") : number;
    return STATUS_OK;
}

/* {"1":0.5,"2":null} */
static enum status read_biases(struct lists *l, size_t row)
{
    if (peek(l) != '{')
        return wrong_type(l, row);
    for (bool more = enter(l); more; more = next_item(l))
        if (read_bias(l, row) != STATUS_OK)
            return l->err->status;
    end_list(l);
    return STATUS_OK;
}

/* ---- sequences ---- */

/* [[1,2],3] */
static enum status read_sequences(struct lists *l, size_t row)
{
    if (peek(l) != '[')
        return wrong_type(l, row);
    size_t i = 0;
    for (bool more = enter(l); more; more = next_item(l), i++) {
        bool alone = *l->p != '[';
        if ((alone ? read_id(l, row, i) : read_ids(l, row)) != STATUS_OK)
            return l->err->status;
        if (alone)
            end_list(l);
    }
    return STATUS_OK;
}

/* ---- words ---- */

static enum status read_words(struct lists *l, size_t row)
{
    if (peek(l) != '[')
        return wrong_type(l, row);
    for (bool more = enter(l); more; more = next_item(l)) {
        double value;
        const char *start = l->p;
        if (!read_whole(l, &value) || value < INT32_MIN || value > UINT32_MAX) {
            l->p = start;
            return wrong_type(l, row);
        }
        l->ids[l->num_ids++] = (int32_t)(uint32_t)(int64_t)value;
    }
    end_list(l);
    return STATUS_OK;
}

/* ---- one for all, or one a row ---- */

/* Read one list as `read` does, or a list of them. */
static enum status read_rows(struct lists *l, bool per_row, size_t *rows,
                             enum status (*read)(struct lists *l, size_t row))
{
    *rows = 0;
    if (!per_row)
        return read(l, ERROR_NO_ROW);
    for (bool more = enter(l); more; more = next_item(l)) {
        if (read(l, *rows) != STATUS_OK)
            return l->err->status;
        l->row_starts[++*rows] = (uint32_t)l->num_lists;
    }
    return STATUS_OK;
}

/* Rows of words are of one length. */
static enum status check_words(struct lists *l)
{
    for (size_t i = 1; i < l->num_lists; i++) {
        if (l->starts[i + 1] - l->starts[i] == l->starts[1])
            continue;
        error_set(l->err, STATUS_INVALID, "wrong_length", "%s[%zu] has %u words; the first row has %u",
                  l->param->name, i, (unsigned)(l->starts[i + 1] - l->starts[i]), (unsigned)l->starts[1]);
        return error_at(l->err, l->param->name, i);
    }
    return STATUS_OK;
}

static enum status read_order(struct lists *l)
{
    if (*l->p != '[')
        return wrong_type(l, ERROR_NO_ROW);
    for (bool more = enter(l); more; more = next_item(l)) {
        if (*l->p != '"')
            return wrong_type(l, ERROR_NO_ROW);
        const char *name = l->p + 1;
        struct error ignored;
        struct json_scan s = {.start = l->p, .end = l->end, .p = l->p, .err = &ignored};
        (void)json_scan_string(&s);
        l->p = s.p;
        if (params_add_to_order(l->params, l->param, name, (size_t)(s.p - 1 - name), l->err) != STATUS_OK)
            return l->err->status;
    }
    return STATUS_OK;
}

static char first_inside(const struct lists *l)
{
    struct lists inside = *l;
    inside.p++;
    return peek(&inside);
}

/* Read it, and how many rows it is of; 0 for one for all. */
static enum status read_value(struct lists *l, unsigned depth, struct rule_value *out, size_t *rows)
{
    enum status status;
    switch (l->param->type) {
    case PARAM_BIASES:
        status = read_rows(l, *l->p == '[', rows, read_biases);
        out->ids = (struct id_lists){l->ids, l->starts, l->biases, *rows > 0};
        return status;
    case PARAM_SEQUENCES:
        status = read_rows(l, depth > 2, rows, read_sequences);
        if (*rows == 0)
            l->row_starts[1] = (uint32_t)l->num_lists;
        out->sequences = (struct id_sequences){{l->ids, l->starts, NULL, false}, l->row_starts, *rows > 0};
        return status;
    case PARAM_BITMASK:
        status = read_rows(l, *l->p == '[' && first_inside(l) == '[', rows, read_words);
        out->bitmask = (struct bitmask){(uint32_t *)l->ids, l->starts[1], *rows > 0};
        return status == STATUS_OK ? check_words(l) : status;
    default:
        status = read_rows(l, *l->p == '[' && first_inside(l) == '[', rows, read_ids);
        out->ids = (struct id_lists){l->ids, l->starts, NULL, *rows > 0};
        return status;
    }
}

enum status json_lists_set(struct params *p, const struct param *param, const char *text, const char *end,
                           struct lender *lender, struct error *err)
{
    struct lists l = {.p = text, .end = end, .params = p, .param = param, .lender = lender, .err = err};
    if (param->type == PARAM_ORDER)
        return read_order(&l);
    if (*text != '[' && *text != '{')
        return wrong_type(&l, ERROR_NO_ROW);
    struct bounds b = bounds_of(text, end);
    struct rule_value value = {.sent = true};
    size_t rows = 0;
    if (!make_room(&l, &b) || read_value(&l, b.depth, &value, &rows) != STATUS_OK)
        return err->status;
    params_set_lists(p, param, &value, rows);
    return STATUS_OK;
}
