#include "proto/params.h"

#include "core/spelling.h"
#include "proto/json_scan.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const modes[] = {"processed", "raw", NULL};
const char *const params_dtypes[] = {"f32", "f16", "bf16", NULL};

#define ANYWHERE (PARAM_IN_JSON | PARAM_IN_RAW | PARAM_IN_NPY | PARAM_IN_TENSORS)
#define IN_BODY  (PARAM_IN_JSON | PARAM_IN_TENSORS)
#define LARGEST_WEIGHT                                                                                       \
    0x1.fffffefffffffp127 /* what still rounds to FLT_MAX: 3.4028235e38, as it is written */
#define FIELD(name) offsetof(struct params, request.name)

/* name, type, forms, per row, whole, min, max, default, words, help, field */
const struct param params_table[] = {
    {"logits", PARAM_LOGITS, IN_BODY, false, false, 0, 0, "required", NULL,
     "[B][V] numbers, null masks a token; or one flat row [V]; or [M][B][V] with mix; or packed",
     FIELD(logits)},
    {"temperature", PARAM_REAL, ANYWHERE, true, false, -DBL_MAX, DBL_MAX, "0", NULL,
     "divides the logits; 0 and below are greedy", FIELD(temperature)},
    {"top_k", PARAM_REAL, ANYWHERE, true, true, -DBL_MAX, DBL_MAX, "0", NULL,
     "keep the logits >= the k-th largest, ties included; 0 and below keep all", FIELD(top_k)},
    {"top_p", PARAM_REAL, ANYWHERE, true, false, 0, 1, "1", NULL,
     "keep the likeliest tokens while their sum stays <= top_p; 0 and 1 keep all", FIELD(top_p)},
    {"seed", PARAM_WORD, ANYWHERE, true, true, 0, 0x1p64, "fresh", NULL,
     "names the draws; the answer returns the one used", FIELD(seed)},
    {"offset", PARAM_WORD, ANYWHERE, true, true, 0, 0x1p64, "0", NULL,
     "position in the sequence: same seed, next token", FIELD(offset)},
    {"n", PARAM_COUNT, ANYWHERE, false, true, 1, 1024, "1", NULL, "independent draws per row", FIELD(n)},
    {"top_candidates", PARAM_COUNT, ANYWHERE, false, true, 0, 1024, "0", NULL,
     "how many candidates to return, by probability, lower id first on a tie", FIELD(top_candidates)},
    {"logprobs", PARAM_FLAG, ANYWHERE, false, false, 0, 1, "false", NULL, "add natural-log probabilities",
     FIELD(logprobs)},
    {"logprobs_mode", PARAM_CHOICE, ANYWHERE, false, false, 0, 0, "processed", modes,
     "probabilities of the distribution drawn from, or raw: of softmax(z) before any rule",
     FIELD(logprobs_mode)},
    {"mix", PARAM_WEIGHTS, ANYWHERE, false, false, -LARGEST_WEIGHT, LARGEST_WEIGHT, "none", NULL,
     "[M] weights: z = sum of mix[m] * logits[m]", FIELD(mix)},
    {"bias", PARAM_ARRAY, IN_BODY, false, false, 0, 0, "none", NULL,
     "[V] or [B][V] numbers to add to the logits, null masks a token", FIELD(bias)},
    {"candidate_ids", PARAM_IDS, IN_BODY, false, true, 0, INT32_MAX, "none", NULL,
     "[B][K] the tokens that the logits [B][K] are of, each once a row; the answer has these ids",
     FIELD(candidate_ids)},
    {"id", PARAM_TEXT, ANYWHERE, false, false, 0, 256, "none", NULL, "echoed in the answer", FIELD(id)},
    {"vocab_size", PARAM_COUNT, PARAM_IN_RAW, false, true, 1, INT32_MAX, "required", NULL,
     "of a raw body: tokens per row", offsetof(struct params, vocab_size)},
    {"dtype", PARAM_CHOICE, PARAM_IN_RAW, false, false, 0, 0, "f32", params_dtypes,
     "of a raw body: what its numbers are", FIELD(dtype)},
};

const size_t params_count = sizeof params_table / sizeof params_table[0];

_Static_assert(sizeof params_table / sizeof params_table[0] <= PARAMS_MAX,
               "struct params has room for fewer");
_Static_assert(sizeof(enum logprobs_mode) == sizeof(unsigned) && sizeof(enum dtype) == sizeof(unsigned),
               "a choice is stored as unsigned");

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

/* ---- what a parameter is, in words ---- */

static void put_range(const struct param *param, char *text, size_t size)
{
    const char *kind = param->whole ? "a whole number" : "a finite number";
    if (param->max == 0x1p64)
        snprintf(text, size, "a whole number from 0 to 2^64 - 1, above 2^53 as a decimal string");
    else if (fabs(param->max) >= FLT_MAX)
        snprintf(text, size, "%s", kind);
    else if (param->whole)
        snprintf(text, size, "a whole number from %.10g to %.10g", param->min, param->max);
    else
        snprintf(text, size, "from %.10g to %.10g", param->min, param->max);
}

static void put_words(const struct param *param, char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; param->words[i] != NULL && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s\"%s\"", i == 0 ? "" : " or ", param->words[i]);
}

void params_range(const struct param *param, char *text, size_t size)
{
    switch (param->type) {
    case PARAM_FLAG:
        snprintf(text, size, "true or false");
        break;
    case PARAM_CHOICE:
        put_words(param, text, size);
        break;
    case PARAM_TEXT:
        snprintf(text, size, "a string of at most %.0f bytes without a zero byte", param->max);
        break;
    case PARAM_WEIGHTS:
        snprintf(text, size, "a list of finite numbers, one for each stack of logits");
        break;
    case PARAM_LOGITS:
    case PARAM_ARRAY:
        snprintf(text, size, "an array of numbers");
        break;
    case PARAM_IDS:
        snprintf(text, size, "an array of whole numbers from %.10g to %.10g", param->min, param->max);
        break;
    default:
        put_range(param, text, size);
    }
}

void params_print(FILE *out)
{
    fprintf(out, "| field | takes | default | meaning |\n|---|---|---|---|\n");
    for (const struct param *param = params_table; param < params_table + params_count; param++) {
        char range[128];
        params_range(param, range, sizeof range);
        const char *where = param->forms == ANYWHERE  ? ""
                            : param->forms == IN_BODY ? ", not in a query"
                                                      : ", raw only";
        fprintf(out, "| `%s` | %s%s%s | %s | %s |\n", param->name, range, param->per_row ? ", *per row*" : "",
                where, param->initial, param->help);
    }
}

/* ---- finding one by name ---- */

static const struct param *nearest(const char *name, size_t length, enum param_form form)
{
    const struct param *best = NULL;
    size_t least = length / 3 + 1;
    for (const struct param *param = params_table;
         length <= SPELLING_NAME_BYTES && param < params_table + params_count; param++) {
        if (!(param->forms & form))
            continue;
        size_t distance = spelling_distance(name, length, param->name, strlen(param->name));
        if (distance <= least && distance < length && (best == NULL || distance < least)) {
            best = param;
            least = distance;
        }
    }
    return best;
}

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

/* Of a name that the table has for other forms of request: which; NULL for any other. */
static const char *elsewhere(const char *name, size_t length)
{
    for (const struct param *param = params_table; param < params_table + params_count; param++)
        if (strlen(param->name) == length && memcmp(param->name, name, length) == 0)
            return param->forms == PARAM_IN_RAW ? "raw requests" : "JSON requests and of named tensors";
    return NULL;
}

static enum status unknown(struct params *p, const char *name, size_t length, struct error *err)
{
    const char *copy = copy_name(p->arena, name, length);
    const struct param *near = nearest(name, length, p->form);
    const char *forms = elsewhere(name, length);
    if (forms != NULL)
        error_set(err, STATUS_INVALID, "unknown_parameter", "%s is a parameter of %s only", copy, forms);
    else if (near != NULL)
        error_set(err, STATUS_INVALID, "unknown_parameter", "%s is not a known parameter; did you mean %s?",
                  copy, near->name);
    else
        error_set(err, STATUS_INVALID, "unknown_parameter", "%s is not a known parameter", copy);
    return error_at(err, copy, ERROR_NO_ROW);
}

enum status params_begin(struct params *p, const char *name, size_t length, const struct param **out,
                         struct error *err)
{
    for (size_t i = 0; i < params_count; i++) {
        const struct param *param = &params_table[i];
        if (!(param->forms & p->form) || strlen(param->name) != length ||
            memcmp(param->name, name, length) != 0)
            continue;
        if (p->seen[i]) {
            error_set(err, STATUS_INVALID, "duplicate_parameter", "%s is given twice", param->name);
            return error_at(err, param->name, ERROR_NO_ROW);
        }
        p->seen[i] = true;
        *out = param;
        return STATUS_OK;
    }
    return unknown(p, name, length, err);
}

/* ---- setting one ---- */

#define PLACE_BYTES 64

/* "top_p", or "top_p[2]" */
static const char *place(const struct param *param, size_t row, char text[PLACE_BYTES])
{
    if (row == ERROR_NO_ROW)
        snprintf(text, PLACE_BYTES, "%s", param->name);
    else
        snprintf(text, PLACE_BYTES, "%s[%zu]", param->name, row);
    return text;
}

/* "<place> <verdict>; it must be <range>" */
static enum status refuse(const struct param *param, const char *code, const char *verdict, size_t row,
                          struct error *err)
{
    char where[PLACE_BYTES], range[128];
    params_range(param, range, sizeof range);
    bool is_weight = param->type == PARAM_WEIGHTS && row != ERROR_NO_ROW;
    const char *list = param->per_row && row == ERROR_NO_ROW && strcmp(code, "wrong_type") == 0
                           ? ", or a list of one for each row"
                           : "";
    error_set(err, STATUS_INVALID, code, "%s %s; it must be %s%s", place(param, row, where), verdict,
              is_weight ? "a number that a float32 can hold" : range, list);
    bool by_row = param->per_row || param->type == PARAM_IDS;
    return error_at(err, param->name, by_row ? row : ERROR_NO_ROW);
}

bool params_takes_list(const struct param *param)
{
    return param->per_row || param->type == PARAM_WEIGHTS || param->type == PARAM_LOGITS ||
           param->type == PARAM_ARRAY || param->type == PARAM_IDS;
}

enum status params_out_of_range(const struct param *param, const char *verdict, size_t row, struct error *err)
{
    return refuse(param, "out_of_range", verdict, row, err);
}

enum status params_wrong_type(const struct param *param, const char *what, size_t row, struct error *err)
{
    char verdict[80];
    snprintf(verdict, sizeof verdict, "is %s", what);
    return refuse(param, "wrong_type", verdict, row, err);
}

enum status params_check_number(const struct param *param, double value, size_t row, struct error *err)
{
    bool fits = isfinite(value) && value >= param->min && value <= param->max;
    if (fits && (!param->whole || value == floor(value)))
        return STATUS_OK;
    /* 15 digits, or the 17 that tell any two doubles apart: 1.0000000000000002 is not 1 */
    char verdict[64];
    snprintf(verdict, sizeof verdict, isfinite(value) ? "is %.15g" : "is not finite", value);
    if (isfinite(value) && strtod(verdict + strlen("is "), NULL) != value)
        snprintf(verdict, sizeof verdict, "is %.17g", value);
    return refuse(param, "out_of_range", verdict, row, err);
}

bool params_is_id(double value)
{
    return value >= 0 && value <= INT32_MAX && value == floor(value);
}

enum status params_refuse_id(const struct param *param, const char *code, const char *what, size_t row,
                             size_t i, struct error *err)
{
    char outer[PLACE_BYTES];
    error_set(err, STATUS_INVALID, code, "%s[%zu] is %s; it must be a whole number from %.10g to %.10g",
              place(param, row, outer), i, what, param->min, param->max);
    return error_at(err, param->name, row);
}

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
    *(struct column *)field_of(p, param) = (struct column){copy, is_list};
    p->lengths[index_of(param)] = is_list ? count : 0;
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
        return refuse(param, "wrong_length", "is empty", ERROR_NO_ROW, err);
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

enum status params_read_word(const struct param *param, const char *digits, size_t length, size_t row,
                             uint64_t *out, struct error *err)
{
    uint64_t word = 0;
    bool valid = length > 0 && (length == 1 || digits[0] != '0');
    for (size_t i = 0; valid && i < length; i++)
        valid = digits[i] >= '0' && digits[i] <= '9' && !__builtin_mul_overflow(word, 10, &word) &&
                !__builtin_add_overflow(word, (uint64_t)(digits[i] - '0'), &word);
    *out = word;
    if (valid)
        return STATUS_OK;
    char verdict[64];
    size_t kept = json_utf8_prefix(digits, length, 40);
    snprintf(verdict, sizeof verdict, "is \"%.*s%s\"", (int)kept, digits, kept < length ? "..." : "");
    return refuse(param, "out_of_range", verdict, row, err);
}

enum status params_set_flag(struct params *p, const struct param *param, bool value, struct error *err)
{
    if (param->type != PARAM_FLAG)
        return params_wrong_type(param, value ? "true" : "false", ERROR_NO_ROW, err);
    *(bool *)field_of(p, param) = value;
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
    return refuse(param, "out_of_range", verdict, ERROR_NO_ROW, err);
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
        return refuse(param, "out_of_range", verdict, ERROR_NO_ROW, err);
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
    for (size_t i = 0; i < params_count; i++)
        if (strcmp(params_table[i].name, name) == 0)
            return p->lengths[i];
    return 0;
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
    if (s->rank > 2 || width != r->vocab_size || (s->rank == 2 && r->bias_rows != r->batch_size)) {
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

static enum status check_lengths(const struct params *p, struct error *err)
{
    for (size_t i = 0; i < params_count; i++) {
        const struct param *param = &params_table[i];
        if (param->per_row && p->lengths[i] != 0 && p->lengths[i] != p->request.batch_size) {
            error_set(err, STATUS_INVALID, "wrong_length",
                      "%s has %zu values; it must be one value, or one for each of the %zu rows", param->name,
                      p->lengths[i], p->request.batch_size);
            return wrong_length(param->name, err);
        }
    }
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
        uint64_t word = param->offset == FIELD(seed) ? fresh_seed : 0;
        enum status status = STATUS_OK;
        if (param->type == PARAM_WORD)
            status = params_set_words(p, param, &word, 1, false, err);
        else if (param->type == PARAM_REAL || (param->type == PARAM_COUNT && (param->forms & PARAM_IN_JSON)))
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
        check_lengths(p, err) != STATUS_OK)
        return err->status;
    *out = p->request;
    return STATUS_OK;
}
