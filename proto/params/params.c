#include "proto/params/params.h"

#include "core/base/spelling.h"
#include "core/rules/chain.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t index_of(const struct param *param)
{
    return (size_t)(param - params_table);
}

static void *field_of(struct params *p, const struct param *param)
{
    return (char *)p + param->offset;
}

void params_init(struct params *p, struct arena *arena, enum param_form form)
{
    *p = (struct params){.arena = arena, .form = form};
}

/* ---- finding one by name ---- */

/* A copy of at most SPELLING_NAME_BYTES bytes, cut before a byte that continues a UTF-8 character. */
static const char *copy_name(struct arena *arena, const char *name, size_t length)
{
    size_t kept = length < SPELLING_NAME_BYTES ? length : SPELLING_NAME_BYTES;
    while (kept > 0 && kept < length && ((unsigned char)name[kept] & 0xc0) == 0x80)
        kept--;
    char *copy = arena_alloc(arena, kept + 1, 1);
    if (copy == NULL)
        return "?";
    memcpy(copy, name, kept);
    copy[kept] = '\0';
    return copy;
}

static enum status unknown(struct params *p, const char *name, size_t length, struct error *err)
{
    const char *copy = copy_name(p->arena, name, length);
    const char *ours = params_alias(name, length);
    const struct param *near = params_nearest(p->form, name, length, length / 3 + 1);
    const struct param *elsewhere = params_find(PARAM_IN_ANY, name, length);
    if (elsewhere != NULL)
        error_set(
            err, STATUS_INVALID, "unknown_parameter", "%s is a parameter of %s only%s", copy,
            elsewhere->forms == PARAM_IN_RAW       ? "raw requests"
            : elsewhere->forms == PARAM_IN_JSON    ? "JSON requests"
            : elsewhere->forms == PARAM_IN_TENSORS ? "named tensors"
                                                   : "JSON requests and of named tensors",
            elsewhere->type != PARAM_BIASES ? "" : "; as tensors it is logit_bias_ids and logit_bias_values");
    else if (ours != NULL)
        error_set(err, STATUS_INVALID, "unknown_parameter", "%s is another engine's name; here it is %s",
                  copy, ours);
    else if (near != NULL)
        error_set(err, STATUS_INVALID, "unknown_parameter", "%s is not a known parameter; did you mean %s?",
                  copy, near->name);
    else
        error_set(err, STATUS_INVALID, "unknown_parameter", "%s is not a known parameter", copy);
    return error_at(err, copy, ERROR_NO_ROW);
}

/* Many clients write the values of a list in a query as so many fields. */
static enum status duplicate(const struct params *p, const struct param *param, struct error *err)
{
    bool is_query = p->form == PARAM_IN_RAW || p->form == PARAM_IN_NPY;
    const char *name = param->name;
    if (is_query && params_takes_list(param))
        error_set(err, STATUS_INVALID, "duplicate_parameter",
                  "%s is given twice; in a query the values of a list have commas between them: %s=0,1", name,
                  name);
    else
        error_set(err, STATUS_INVALID, "duplicate_parameter", "%s is given twice", name);
    return error_at(err, name, ERROR_NO_ROW);
}

enum status params_begin(struct params *p, const char *name, size_t length, const struct param **out,
                         struct error *err)
{
    const struct param *param = params_find(p->form, name, length);
    if (param == NULL)
        return unknown(p, name, length, err);
    if (p->seen[index_of(param)])
        return duplicate(p, param, err);
    p->seen[index_of(param)] = true;
    *out = param;
    return STATUS_OK;
}

void params_omit(struct params *p, const struct param *param)
{
    p->seen[index_of(param)] = false;
}

/* ---- setting one ---- */

void *params_keep(struct params *p, const struct param *param, size_t count, size_t size, struct error *err)
{
    void *lent = arena_alloc(p->arena, count, size);
    if (lent == NULL) {
        error_set(err, STATUS_TOO_LARGE, "too_large",
                  "%s has %zu values, which is more than a request can hold", param->name, count);
        error_at(err, param->name, ERROR_NO_ROW);
    }
    return lent;
}

static enum status set_column(struct params *p, const struct param *param, const double *values, size_t count,
                              bool is_list, struct error *err)
{
    double *copy = params_keep(p, param, count, sizeof *copy, err);
    if (copy == NULL)
        return err->status;
    memcpy(copy, values, count * sizeof *copy);
    struct rule_value value = {.sent = true, .number = {copy, is_list}};
    params_set_lists(p, param, &value, is_list ? count : 0);
    return STATUS_OK;
}

static enum status set_weights(struct params *p, const struct param *param, const double *values,
                               size_t count, struct error *err)
{
    float *copy = params_keep(p, param, count, sizeof *copy, err);
    if (copy == NULL)
        return err->status;
    for (size_t i = 0; i < count; i++)
        copy[i] = (float)values[i];
    *(const float **)field_of(p, param) = copy;
    p->lengths[index_of(param)] = count;
    return STATUS_OK;
}

/* Whether the parameter takes one value or a list, as it was sent, and at least one. */
static enum status check_list(const struct param *param, size_t count, bool is_list, struct error *err)
{
    if (is_list && !params_takes_list(param))
        return params_wrong_type(param, "a list", ERROR_NO_ROW, err);
    if (!is_list && param->type == PARAM_WEIGHTS)
        return params_wrong_type(param, "a number", ERROR_NO_ROW, err);
    if (is_list && count == 0)
        return params_refuse(param, "wrong_length", "is empty", ERROR_NO_ROW, err);
    return STATUS_OK;
}

enum status params_set_numbers(struct params *p, const struct param *param, const double *values,
                               size_t count, bool is_list, struct error *err)
{
    if (param->type != PARAM_REAL && param->type != PARAM_COUNT && param->type != PARAM_WEIGHTS)
        return params_wrong_type(param, "a number", ERROR_NO_ROW, err);
    if (check_list(param, count, is_list, err) != STATUS_OK)
        return err->status;
    for (size_t i = 0; i < count; i++)
        if (params_check_number(param, values[i], is_list ? i : ERROR_NO_ROW, err) != STATUS_OK)
            return err->status;
    if (param->type == PARAM_WEIGHTS)
        return set_weights(p, param, values, count, err);
    if (param->type == PARAM_REAL)
        return set_column(p, param, values, count, is_list, err);
    *(uint32_t *)field_of(p, param) = (uint32_t)values[0];
    return STATUS_OK;
}

enum status params_set_words(struct params *p, const struct param *param, const uint64_t *values,
                             size_t count, bool is_list, struct error *err)
{
    if (check_list(param, count, is_list, err) != STATUS_OK)
        return err->status;
    uint64_t *copy = params_keep(p, param, count, sizeof *copy, err);
    if (copy == NULL)
        return err->status;
    memcpy(copy, values, count * sizeof *copy);
    *(struct column_u64 *)field_of(p, param) = (struct column_u64){copy, is_list};
    p->lengths[index_of(param)] = is_list ? count : 0;
    return STATUS_OK;
}

enum status params_set_flag(struct params *p, const struct param *param, bool value, struct error *err)
{
    if (param->type != PARAM_FLAG)
        return params_wrong_type(param, value ? "true" : "false", ERROR_NO_ROW, err);
    *(bool *)field_of(p, param) = value;
    return STATUS_OK;
}

enum status params_set_switches(struct params *p, const struct param *param, const double *values,
                                size_t count, bool is_list, struct error *err)
{
    if (check_list(param, count, is_list, err) != STATUS_OK)
        return err->status;
    for (size_t i = 0; i < count; i++)
        if (values[i] != 0 && values[i] != 1)
            return params_out_of_range(param, "is neither 0 nor 1", is_list ? i : ERROR_NO_ROW, err);
    return set_column(p, param, values, count, is_list, err);
}

enum status params_set_pairs(struct params *p, const struct param *param, const double *values, size_t rows,
                             struct error *err)
{
    size_t count = 2 * (rows == 0 ? 1 : rows);
    double *copy = params_keep(p, param, count, sizeof *copy, err);
    if (copy == NULL)
        return err->status;
    for (size_t i = 0; i < count; i++) {
        if (params_check_number(param, values[i], rows == 0 ? ERROR_NO_ROW : i / 2, err) != STATUS_OK)
            return err->status;
        copy[i] = values[i];
    }
    struct rule_value value = {.sent = true, .number = {copy, rows > 0}};
    params_set_lists(p, param, &value, rows);
    return STATUS_OK;
}

void params_set_lists(struct params *p, const struct param *param, const struct rule_value *value,
                      size_t rows)
{
    *(struct rule_value *)field_of(p, param) = *value;
    p->lengths[index_of(param)] = rows;
}

static enum status unknown_rule(struct params *p, const struct param *param, const char *name, size_t length,
                                struct error *err)
{
    const char *nearest = NULL, *copy = copy_name(p->arena, name, length);
    size_t most = length / 3 + 1;
    for (size_t i = 0; i < NUM_RULES; i++) {
        size_t distance = length > SPELLING_NAME_BYTES
                              ? most + 1
                              : spelling_distance(name, length, rules[i]->name, strlen(rules[i]->name));
        bool in_chain = rules[i]->place != PLACE_MASK && rules[i]->place != PLACE_NOWHERE;
        if (in_chain && (nearest == NULL ? distance <= most : distance < most)) {
            nearest = rules[i]->name;
            most = distance;
        }
    }
    const struct rule *rule = rule_find(name, length);
    if (rule != NULL)
        error_set(err, STATUS_INVALID, "out_of_range", "order has %s, which always runs before the others",
                  copy);
    else
        error_set(err, STATUS_INVALID, "out_of_range", "order has %s, which is no rule%s%s%s", copy,
                  nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
                  nearest == NULL ? "" : "?");
    return error_at(err, param->name, ERROR_NO_ROW);
}

enum status params_add_to_order(struct params *p, const struct param *param, const char *name, size_t length,
                                struct error *err)
{
    const struct rule *rule = rule_find(name, length);
    if (rule == NULL || rule->place == PLACE_MASK || rule->place == PLACE_NOWHERE)
        return unknown_rule(p, param, name, length, err);
    if (p->request.num_order == NUM_RULES) {
        error_set(err, STATUS_INVALID, "conflicting_parameters", "order has %s twice", rule->name);
        return error_at(err, param->name, ERROR_NO_ROW);
    }
    for (unsigned i = 0; i < NUM_RULES; i++)
        if (rules[i] == rule)
            p->order[p->request.num_order++] = (uint8_t)i;
    return STATUS_OK;
}

static enum status set_choice(struct params *p, const struct param *param, const char *text,
                              struct error *err)
{
    for (unsigned i = 0; param->words[i] != NULL; i++) {
        if (strcmp(param->words[i], text) == 0) {
            *(unsigned *)field_of(p, param) = i;
            return STATUS_OK;
        }
    }
    char verdict[96];
    snprintf(verdict, sizeof verdict, "is \"%s\"", copy_name(p->arena, text, strlen(text)));
    return params_refuse(param, "out_of_range", verdict, ERROR_NO_ROW, err);
}

enum status params_set_text(struct params *p, const struct param *param, const char *text, struct error *err)
{
    if (param->type == PARAM_CHOICE)
        return set_choice(p, param, text, err);
    if (param->type != PARAM_TEXT)
        return params_wrong_type(param, "a string", ERROR_NO_ROW, err);
    size_t bytes = strlen(text) + 1;
    if (bytes - 1 > (size_t)param->max) {
        char verdict[64];
        snprintf(verdict, sizeof verdict, "has %zu bytes", bytes - 1);
        return params_refuse(param, "out_of_range", verdict, ERROR_NO_ROW, err);
    }
    char *copy = params_keep(p, param, bytes, 1, err);
    if (copy == NULL)
        return err->status;
    memcpy(copy, text, bytes);
    *(const char **)field_of(p, param) = copy;
    return STATUS_OK;
}

enum status params_set_array(struct params *p, const struct param *param, const void *values,
                             enum dtype dtype, const struct shape *shape, struct error *err)
{
    if (param->type == PARAM_LOGITS) {
        p->request.logits = values;
        p->request.dtype = dtype;
        p->logits_shape = *shape;
        return STATUS_OK;
    }
    if (param->type != PARAM_ARRAY)
        return params_wrong_type(param, "an array", ERROR_NO_ROW, err);
    assert(dtype == DTYPE_F32);
    *(const float **)field_of(p, param) = values;
    p->bias_shape = *shape;
    return STATUS_OK;
}

enum status params_set_ids(struct params *p, const struct param *param, const int32_t *values,
                           const struct shape *shape, struct error *err)
{
    if (param->type != PARAM_IDS)
        return params_wrong_type(param, "an array", ERROR_NO_ROW, err);
    *(const int32_t **)field_of(p, param) = values;
    p->ids_shape = *shape;
    return STATUS_OK;
}

/* ---- the whole request ---- */

size_t params_length(const struct params *p, const char *name)
{
    const struct param *param = params_find(PARAM_IN_ANY, name, strlen(name));
    return param == NULL ? 0 : p->lengths[index_of(param)];
}

static enum status missing(const char *name, const char *what, struct error *err)
{
    error_set(err, STATUS_INVALID, "missing_parameter", "%s is missing; %s", name, what);
    return error_at(err, name, ERROR_NO_ROW);
}

static enum status wrong_length(const char *name, struct error *err)
{
    return error_at(err, name, ERROR_NO_ROW);
}

/* [V], [B][V], or [M][B][V] and [M][V] where mix says that there are stacks. */
static enum status finish_logits(struct params *p, struct error *err)
{
    struct sample_request *r = &p->request;
    const struct shape *s = &p->logits_shape;
    size_t stacks = params_length(p, "mix"), outer = s->dims[0];
    r->vocab_size = s->dims[s->rank - 1];
    r->num_stacks = r->mix == NULL ? 1 : s->rank == 1 ? 1 : outer;
    r->batch_size = s->rank == 3 ? s->dims[1] : s->rank == 2 && r->mix == NULL ? outer : 1;
    if (r->vocab_size > INT32_MAX) {
        error_set(err, STATUS_TOO_LARGE, "too_large", "logits has rows of %zu numbers; at most %d are read",
                  r->vocab_size, INT32_MAX);
        return wrong_length("logits", err);
    }
    if (s->rank == 3 && r->mix == NULL) {
        error_set(err, STATUS_INVALID, "wrong_length",
                  "logits is nested three deep, which is [M][B][V] and needs mix; it must be [B][V]");
        return wrong_length("logits", err);
    }
    if (r->mix != NULL && r->num_stacks != stacks) {
        error_set(err, STATUS_INVALID, "wrong_length", "mix has %zu weights; logits has %zu stacks", stacks,
                  r->num_stacks);
        return wrong_length("mix", err);
    }
    return STATUS_OK;
}

static enum status finish_bias(struct params *p, struct error *err)
{
    struct sample_request *r = &p->request;
    const struct shape *s = &p->bias_shape;
    if (r->bias == NULL)
        return STATUS_OK;
    r->bias_rows = s->rank == 1 ? 1 : s->dims[0];
    size_t width = s->dims[s->rank - 1];
    if (s->rank > 2 || width != r->vocab_size || (r->bias_rows != 1 && r->bias_rows != r->batch_size)) {
        error_set(err, STATUS_INVALID, "wrong_length",
                  "bias has %zu row%s of %zu numbers; it must be one row of %zu, or %zu of them",
                  r->bias_rows, r->bias_rows == 1 ? "" : "s", width, r->vocab_size, r->batch_size);
        return wrong_length("bias", err);
    }
    return STATUS_OK;
}

/* Ids have the shape of one stack; a flat row is a batch of one. */
static enum status finish_ids(struct params *p, struct error *err)
{
    struct sample_request *r = &p->request;
    const struct shape *s = &p->ids_shape;
    if (r->candidate_ids == NULL)
        return STATUS_OK;
    size_t rows = s->rank == 1 ? 1 : s->dims[0], width = s->dims[s->rank - 1];
    if (s->rank > 2 || rows != r->batch_size || width != r->vocab_size) {
        error_set(err, STATUS_INVALID, "wrong_length",
                  "candidate_ids has %zu row%s of %zu ids; logits has %zu of %zu: each must have its id",
                  rows, rows == 1 ? "" : "s", width, r->batch_size, r->vocab_size);
        return wrong_length("candidate_ids", err);
    }
    if (r->bias != NULL && r->bias_rows != r->batch_size) {
        error_set(
            err, STATUS_INVALID, "conflicting_parameters",
            "bias is one row for all, but with candidate_ids each row has tokens of its own; send a row "
            "of bias for each of the %zu",
            r->batch_size);
        return wrong_length("bias", err);
    }
    return STATUS_OK;
}

static enum status refuse_length(const struct params *p, const struct param *param, size_t length,
                                 struct error *err)
{
    size_t rows = p->request.batch_size;
    bool is_list = param->type == PARAM_ID_LISTS || param->type == PARAM_BIAS_IDS ||
                   param->type == PARAM_SEQUENCES || param->type == PARAM_BITMASK;
    const char *kind = is_list ? "list" : "value";
    if (length == 1)
        error_set(
            err, STATUS_INVALID, "wrong_length",
            "%s is a list of one value; send a number, from which each of the %zu rows has draws of its "
            "own, or a list of one for each",
            param->name, rows);
    else
        error_set(err, STATUS_INVALID, "wrong_length",
                  "%s has %zu %ss; it must be one %s, or one for each of the %zu rows", param->name, length,
                  kind, kind, rows);
    return wrong_length(param->name, err);
}

/* A list of one is that value for all rows. */
static void spread(struct params *p, const struct param *param)
{
    struct rule_value *value = field_of(p, param);
    switch (param->type) {
    case PARAM_WORD:
        ((struct column_u64 *)field_of(p, param))->per_row = false;
        break;
    case PARAM_ID_LISTS:
    case PARAM_BIASES:
    case PARAM_BIAS_IDS:
        value->ids.per_row = false;
        break;
    case PARAM_SEQUENCES:
        value->sequences.per_row = false;
        break;
    case PARAM_BITMASK:
        value->bitmask.per_row = false;
        break;
    default:
        value->number.per_row = false;
    }
}

/*
 * Lists have a value for each row, or one for all.  Not so the seed: as one number it gives each row draws of
 * its own, and as a list the rows of equal seeds the same, so that a list of one could mean either.
 */
static enum status finish_lists(struct params *p, struct error *err)
{
    for (size_t i = 0; i < params_count; i++) {
        const struct param *param = &params_table[i];
        bool is_seed = param->offset == offsetof(struct params, request.seed);
        if (!param->per_row || p->lengths[i] == 0 || p->lengths[i] == p->request.batch_size)
            continue;
        if (p->lengths[i] != 1 || is_seed)
            return refuse_length(p, param, p->lengths[i], err);
        spread(p, param);
    }
    return STATUS_OK;
}

/* The names that params_add_to_order() took; an empty list is the engine's order no more than none is. */
static enum status finish_order(struct params *p, struct error *err)
{
    if (p->request.num_order == 0)
        return STATUS_OK;
    uint8_t *order = arena_alloc(p->arena, p->request.num_order, sizeof *order);
    if (order == NULL)
        return error_set(err, STATUS_INTERNAL, "internal", "no memory was reckoned with for the order");
    memcpy(order, p->order, p->request.num_order);
    p->request.order = order;
    return STATUS_OK;
}

/* Numbers whose default the table writes as one. */
static enum status set_defaults(struct params *p, uint64_t fresh_seed, struct error *err)
{
    for (size_t i = 0; i < params_count; i++) {
        const struct param *param = &params_table[i];
        if (p->seen[i])
            continue;
        double number = strtod(param->initial, NULL);
        uint64_t word = param->offset == offsetof(struct params, request.seed) ? fresh_seed : 0;
        enum status status = STATUS_OK;
        if (param->type == PARAM_WORD)
            status = params_set_words(p, param, &word, 1, false, err);
        else if (param->type == PARAM_COUNT && (param->forms & PARAM_IN_JSON))
            status = params_set_numbers(p, param, &number, 1, false, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status params_finish(struct params *p, uint64_t fresh_seed, struct sample_request *out,
                          struct error *err)
{
    if (p->request.logits == NULL)
        return missing("logits", "send [B][V] numbers", err);
    if (set_defaults(p, fresh_seed, err) != STATUS_OK || finish_logits(p, err) != STATUS_OK ||
        finish_bias(p, err) != STATUS_OK || finish_ids(p, err) != STATUS_OK ||
        finish_lists(p, err) != STATUS_OK || finish_order(p, err) != STATUS_OK ||
        chain_plan(&p->request, err) != STATUS_OK)
        return err->status;
    *out = p->request;
    return STATUS_OK;
}
