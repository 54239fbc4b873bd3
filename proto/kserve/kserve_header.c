#include "proto/kserve/kserve_header.h"

#include "proto/json/json_reader.h"
#include "proto/kserve/kserve_values.h"

#include <string.h>

struct reading {
    struct json_reader reader; /* first: its members are called with it */
    struct kserve_header *header;
    struct lender *lender;
    struct error *err;
    float *numbers; /* [capacity] lent with the first FP32 data */
    size_t used, capacity;
    bool has_inputs, has_outputs, has_parameters, has_id;
};

static enum status fail(struct reading *q, const char *reason)
{
    return json_reader_fail(&q->reader, reason);
}

/* Take note of a member, which comes once. */
static enum status once(struct reading *q, bool *seen)
{
    if (*seen)
        return fail(q, "a name comes twice");
    *seen = true;
    return STATUS_OK;
}

static enum status read_bool(struct reading *q, bool *out)
{
    const char *text = q->reader.scan.p;
    if (json_scan_value(&q->reader.scan) != STATUS_OK)
        return q->err->status;
    *out = *text == 't';
    return *text == 't' || *text == 'f' ? STATUS_OK : fail(q, "true or false is missing");
}

/* Read a list of objects. */
static enum status read_objects(struct reading *q, enum status (*object)(struct reading *q))
{
    struct json_reader *r = &q->reader;
    if (json_scan_expect(&r->scan, '[', "'['") != STATUS_OK)
        return q->err->status;
    if (json_reader_peek(r) == ']') {
        r->scan.p++;
        return STATUS_OK;
    }
    for (;; r->scan.p++) {
        json_reader_peek(r);
        if (object(q) != STATUS_OK)
            return q->err->status;
        if (json_reader_peek(r) != ',')
            return json_scan_expect(&r->scan, ']', "',' or ']'");
    }
}

/* ---- data as JSON ---- */

static const struct param *param_of(const struct kserve_input *in)
{
    return in->has_name ? params_find(PARAM_IN_ANY, in->tensor.name, strlen(in->tensor.name)) : NULL;
}

/* FP32, and FP64 that a request keeps as float32: numbers by the row, with null for a masked one. */
static bool is_floats(const struct kserve_input *in)
{
    if (!in->has_type || in->tensor.type != TENSOR_F64)
        return in->has_type && in->tensor.type == TENSOR_F32;
    const struct param *param = param_of(in);
    return param != NULL && (param->type == PARAM_LOGITS || param->type == PARAM_ARRAY);
}

/* These go straight to where it stays; room is lent once, for as many numbers as the header can have. */
static enum status read_floats(struct reading *q, struct kserve_input *in)
{
    struct json_scan *s = &q->reader.scan;
    struct shape shape;
    if (q->numbers == NULL) {
        q->capacity = numbers_count_bound(s->start, (size_t)(s->end - s->start));
        q->numbers = q->lender->lend(q->lender, q->capacity * sizeof *q->numbers, q->err);
    }
    if (q->numbers == NULL)
        return q->err->status;
    float *values = q->numbers + q->used;
    const struct param *param = param_of(in);
    const char *name = param == NULL ? "data" : param->name; /* which outlives the request's texts */
    if (numbers_read_array(&s->p, s->end, values, q->capacity - q->used, &shape, name, q->err) != STATUS_OK)
        return q->err->status;
    size_t count = 1;
    for (size_t i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    q->used += count;
    in->bytes = count * sizeof *values;
    in->tensor.data = values;
    in->tensor.type = TENSOR_F32;
    return STATUS_OK;
}

/* Data that is known to be rows of floats is read on sight, any other is stepped over. */
static enum status read_data(struct reading *q, struct kserve_input *in)
{
    struct json_scan *s = &q->reader.scan;
    in->json = s->p;
    if (s->p < s->end && *s->p != '[')
        return fail(q, "data is no list");
    enum status status = is_floats(in) ? read_floats(q, in) : json_scan_value(s);
    in->json_end = s->p;
    return status;
}

/* What was stepped over because its type came later. */
static enum status read_late_floats(struct reading *q, struct kserve_input *in)
{
    const char *behind = q->reader.scan.p;
    q->reader.scan.p = in->json;
    enum status status = read_floats(q, in);
    if (status == STATUS_OK)
        q->reader.scan.p = behind;
    return status;
}

/* ---- inputs ---- */

static enum status read_input_parameter(struct json_reader *r, const char *key, void *out)
{
    struct reading *q = (struct reading *)r;
    struct kserve_input *in = out;
    if (strcmp(key, "shared_memory_region") == 0)
        return json_reader_string(r, &in->region);
    if (strcmp(key, "shared_memory_offset") == 0)
        return json_reader_size(r, &in->offset);
    if (strcmp(key, "binary_data_size") != 0 && strcmp(key, "shared_memory_byte_size") != 0)
        return json_scan_value(&r->scan);
    if (once(q, &in->has_bytes) != STATUS_OK)
        return q->err->status;
    return json_reader_size(r, &in->bytes);
}

static enum status read_type(struct reading *q, struct kserve_input *in)
{
    const char *name = "";
    if (once(q, &in->has_type) != STATUS_OK || json_reader_string(&q->reader, &name) != STATUS_OK)
        return q->err->status;
    in->tensor.type = kserve_find_type(name);
    if (in->tensor.type < TENSOR_TYPES)
        return STATUS_OK;
    return error_set(q->err, STATUS_INVALID, "unsupported_dtype",
                     "an input is of datatype \"%.32s\"; it must be BOOL, FP16, BF16, FP32, FP64, or INT or "
                     "UINT with 8 to 64 bits",
                     name);
}

static enum status read_input_member(struct json_reader *r, const char *key, void *out)
{
    struct reading *q = (struct reading *)r;
    struct kserve_input *in = out;
    struct tensor *t = &in->tensor;
    if (strcmp(key, "datatype") == 0)
        return read_type(q, in);
    if (strcmp(key, "data") == 0)
        return in->json != NULL ? fail(q, "a name comes twice") : read_data(q, in);
    if (strcmp(key, "name") == 0)
        return once(q, &in->has_name) != STATUS_OK ? q->err->status : json_reader_string(r, &t->name);
    if (strcmp(key, "shape") == 0)
        return once(q, &in->has_shape) != STATUS_OK
                   ? q->err->status
                   : json_reader_sizes(r, TENSOR_MAX_RANK, t->dims, &t->rank);
    if (strcmp(key, "parameters") != 0)
        return fail(q, "an input has name, shape, datatype, parameters and data and nothing else;");
    if (once(q, &in->has_parameters) != STATUS_OK)
        return q->err->status;
    return json_reader_null(r) ? STATUS_OK : json_reader_object(r, in, read_input_parameter);
}

/* Whether the values are as many as the shape says. */
static enum status check_count(struct reading *q, const struct kserve_input *in)
{
    size_t bytes, size = tensors_type_bytes(in->tensor.type);
    size_t count = in->tensor.data != NULL ? in->bytes / size : kserve_values_count(in->json, in->json_end);
    if (tensors_bytes(&in->tensor, &bytes) && bytes / size == count)
        return STATUS_OK;
    return error_set(q->err, STATUS_INVALID, "wrong_length",
                     "the input %.64s has %zu values in data, which is not what its shape says",
                     in->tensor.name, count);
}

static enum status check_input(struct reading *q, struct kserve_input *in)
{
    if (!in->has_name || !in->has_type || !in->has_shape)
        return fail(q, "an input without name, datatype or shape");
    in->tensor.name_length = strlen(in->tensor.name);
    if ((in->json != NULL) == in->has_bytes || (in->json != NULL && in->region != NULL))
        return fail(q,
                    "an input has one of data, binary_data_size, and region and byte_size of shared memory;");
    if (in->json == NULL)
        return STATUS_OK;
    if (is_floats(in) && in->tensor.data == NULL && read_late_floats(q, in) != STATUS_OK)
        return q->err->status;
    size_t length = (size_t)(in->json_end - in->json);
    if (in->tensor.data == NULL && length > PARAMS_MAX_TEXT_BYTES)
        return error_set(
            q->err, STATUS_TOO_LARGE, "too_large",
            "the input %.64s has %zu bytes of JSON; at most %zu are read but of logits and bias, "
            "send binary data",
            in->tensor.name, length, PARAMS_MAX_TEXT_BYTES);
    return check_count(q, in);
}

static enum status read_input(struct reading *q)
{
    if (q->header->num_inputs == PARAMS_MAX)
        return fail(q, "more inputs than there are parameters");
    struct kserve_input *in = &q->header->inputs[q->header->num_inputs++];
    if (json_reader_object(&q->reader, in, read_input_member) != STATUS_OK)
        return q->err->status;
    return check_input(q, in);
}

/* ---- outputs ---- */

static enum status read_output_parameter(struct json_reader *r, const char *key, void *out)
{
    struct reading *q = (struct reading *)r;
    struct kserve_asked *asked = out;
    if (strcmp(key, "shared_memory_region") == 0)
        return json_reader_string(r, &asked->place.region);
    if (strcmp(key, "shared_memory_offset") == 0)
        return json_reader_size(r, &asked->place.offset);
    if (strcmp(key, "shared_memory_byte_size") == 0)
        return json_reader_size(r, &asked->place.bytes);
    if (strcmp(key, "classification") == 0)
        return fail(q, "classification, which is not served here; top_token_ids has the likeliest,");
    if (strcmp(key, "binary_data") != 0)
        return json_scan_value(&r->scan);
    if (once(q, &asked->says) != STATUS_OK)
        return q->err->status;
    return read_bool(q, &asked->binary);
}

static enum status read_output_member(struct json_reader *r, const char *key, void *out)
{
    struct reading *q = (struct reading *)r;
    struct kserve_asked *asked = out;
    if (strcmp(key, "name") == 0)
        return asked->name != NULL ? fail(q, "a name comes twice") : json_reader_string(r, &asked->name);
    if (strcmp(key, "parameters") != 0)
        return fail(q, "an output has name and parameters and nothing else;");
    if (once(q, &asked->has_parameters) != STATUS_OK)
        return q->err->status;
    return json_reader_null(r) ? STATUS_OK : json_reader_object(r, asked, read_output_parameter);
}

static enum status unknown_output(const char *name, struct error *err)
{
    return error_set(
        err, STATUS_INVALID, "unknown_parameter",
        "there is no output %.64s; there are token_ids, seed, logprobs, top_token_ids, top_probs, "
        "mirostat_mu and adaptive_state",
        name);
}

static enum status read_output(struct reading *q)
{
    struct kserve_asked asked = {0};
    if (json_reader_object(&q->reader, &asked, read_output_member) != STATUS_OK)
        return q->err->status;
    if (asked.name == NULL)
        return fail(q, "an output without name");
    if (kserve_find_output(asked.name) == KSERVE_OUTPUTS)
        return unknown_output(asked.name, q->err);
    for (size_t i = 0; i < q->header->num_asked; i++)
        if (strcmp(q->header->asked[i].name, asked.name) == 0)
            return fail(q, "an output comes twice");
    q->header->asked[q->header->num_asked++] = asked;
    return STATUS_OK;
}

/* ---- parameters of the request ---- */

/* What Triton has for its own use, and clients send unasked. */
static bool is_reserved(const char *key)
{
    static const char *const reserved[] = {"sequence_id", "sequence_start", "sequence_end", "priority",
                                           "timeout",     "content_type",   "headers"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcmp(reserved[i], key) == 0)
            return true;
    return strncmp(key, "triton_", strlen("triton_")) == 0;
}

/* Whether a value that begins with this character is of the kind that the parameter takes. */
static bool is_of_kind(const struct param *param, char first)
{
    switch (param->type) {
    case PARAM_FLAG:
    case PARAM_SWITCH:
        return first == 't' || first == 'f';
    case PARAM_CHOICE:
    case PARAM_TEXT:
    case PARAM_ORDER:
        return first == '"';
    case PARAM_WORD:
    case PARAM_ID_LISTS: /* one, or a text with commas */
    case PARAM_PAIR:
        return first != 't' && first != 'f';
    default:
        return first != '"' && first != 't' && first != 'f';
    }
}

static enum status check_kind(struct reading *q, const char *key, char first)
{
    const struct param *param = params_find(PARAM_IN_ANY, key, strlen(key));
    if (param == NULL || is_of_kind(param, first))
        return STATUS_OK;
    const char *is_bool = first == 't' || first == 'f' ? "true or false" : NULL;
    return params_wrong_type(param,
                             first == '"'      ? "a string"
                             : is_bool != NULL ? is_bool
                                               : "a number",
                             ERROR_NO_ROW, q->err);
}

/* The text of a value as a query has it. */
static enum status read_text(struct reading *q, char first, const char **out)
{
    struct json_reader *r = &q->reader;
    const char *start = r->scan.p;
    if (first == '"')
        return json_reader_string(r, out);
    if (json_scan_value(&r->scan) != STATUS_OK)
        return q->err->status;
    size_t length = (size_t)(r->scan.p - start);
    if (length >= r->room - r->used)
        return fail(q, "more text than is read");
    char *text = r->texts + r->used;
    memcpy(text, start, length);
    text[length] = '\0';
    r->used += length + 1;
    *out = text;
    return STATUS_OK;
}

static enum status add_field(struct reading *q, const char *key)
{
    if (q->header->num_fields == sizeof q->header->fields / sizeof q->header->fields[0])
        return fail(q, "more parameters than there are");
    char first = json_reader_peek(&q->reader);
    if (first == '[' || first == '{')
        return fail(q, "a parameter is a string, a number or a boolean, and lists are inputs;");
    struct query_field *field = &q->header->fields[q->header->num_fields++];
    field->key = key;
    if (read_text(q, first, &field->value) != STATUS_OK)
        return q->err->status;
    return check_kind(q, key, first);
}

static enum status read_parameter(struct json_reader *r, const char *key, void *out)
{
    struct reading *q = (struct reading *)r;
    (void)out;
    if (strcmp(key, "binary_data_output") == 0)
        return read_bool(q, &q->header->binary_output);
    if (is_reserved(key))
        return json_scan_value(&r->scan);
    return json_reader_null(r) ? STATUS_OK : add_field(q, key);
}

/* ---- the whole ---- */

static enum status read_id(struct reading *q)
{
    struct query_field *field = &q->header->fields[q->header->num_fields];
    if (json_reader_peek(&q->reader) != '"')
        return fail(q, "id is no string");
    if (json_reader_string(&q->reader, &field->value) != STATUS_OK)
        return q->err->status;
    field->key = "id";
    q->header->num_fields += field->value[0] != '\0'; /* an empty one is none */
    return STATUS_OK;
}

static enum status read_member(struct json_reader *r, const char *key, void *out)
{
    struct reading *q = (struct reading *)r;
    (void)out;
    bool *seen = strcmp(key, "id") == 0           ? &q->has_id
                 : strcmp(key, "inputs") == 0     ? &q->has_inputs
                 : strcmp(key, "outputs") == 0    ? &q->has_outputs
                 : strcmp(key, "parameters") == 0 ? &q->has_parameters
                                                  : NULL;
    if (strcmp(key, "model_name") == 0 || strcmp(key, "model_version") == 0)
        return json_scan_value(&r->scan); /* the path has said so */
    if (seen == NULL)
        return fail(q, "a request has id, parameters, inputs and outputs and nothing else;");
    if (once(q, seen) != STATUS_OK)
        return q->err->status;
    if (json_reader_null(r))
        return STATUS_OK;
    if (seen == &q->has_id)
        return read_id(q);
    if (seen == &q->has_parameters)
        return json_reader_object(r, NULL, read_parameter);
    return read_objects(q, seen == &q->has_inputs ? read_input : read_output);
}

enum status kserve_header_read(const char *text, const char *end, char *texts, size_t room,
                               struct lender *lender, struct kserve_header *out, struct error *err)
{
    struct reading reading = {
        .reader = {.scan = {.start = text, .end = end, .p = text, .err = err, .subject = "the request"},
                   .texts = texts,
                   .room = room,
                   .code = "malformed_kserve",
                   .complaint = "the request is no infer request"},
        .header = out,
        .lender = lender,
        .err = err};
    struct json_reader *r = &reading.reader;
    *out = (struct kserve_header){.num_inputs = 0};
    json_scan_mark(&r->scan);
    if (json_reader_peek(r) != '{')
        return fail(&reading, "the request is no JSON object");
    if (json_reader_object(r, NULL, read_member) != STATUS_OK)
        return err->status;
    json_reader_peek(r);
    return r->scan.p == end ? STATUS_OK : fail(&reading, "more text after the request's object");
}
