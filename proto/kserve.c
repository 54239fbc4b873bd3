#include "proto/kserve.h"

#include "proto/json_reader.h"
#include "proto/kserve_values.h"
#include "proto/query.h"
#include "proto/tensors.h"

#include <stdlib.h>
#include <string.h>

/* Names and texts of a request, together: far more than one has. */
#define MAX_TEXTS ((size_t)64 << 10)

/* Whether a member that can be left out is so by null. */
static bool take_null(struct json_reader *r)
{
    if (r->scan.end - r->scan.p < 4 || memcmp(r->scan.p, "null", 4) != 0)
        return false;
    r->scan.p += 4;
    return true;
}

struct input {
    struct tensor tensor;
    bool has_name, has_type, has_shape, has_bytes, has_parameters;
    size_t bytes;           /* of its binary data */
    const char *json, *end; /* its data as JSON, or NULL */
};

/* What a request asks for of an output. */
struct asked {
    const char *name;
    bool has_parameters, says; /* whether it is to be binary, */
    bool binary;
};

struct request {
    struct json_reader reader; /* first: its members are called with it */
    struct lender *lender;
    struct error *err;
    float *numbers; /* [capacity] lent with the first FP32 data */
    size_t used, capacity;
    struct input inputs[PARAMS_MAX];
    size_t num_inputs;
    struct asked asked[KSERVE_OUTPUTS];
    size_t num_asked;
    struct query_field fields[PARAMS_MAX + 1]; /* parameters of one value, and id */
    size_t num_fields;
    bool has_inputs, has_outputs, has_parameters, has_id;
    bool binary_output; /* unless an output says otherwise */
};

static enum status fail(struct request *q, const char *reason)
{
    return json_reader_fail(&q->reader, reason);
}

/* Take note of a member, which comes once. */
static enum status once(struct request *q, bool *seen)
{
    if (*seen)
        return fail(q, "a name comes twice");
    *seen = true;
    return STATUS_OK;
}

static enum status read_bool(struct request *q, bool *out)
{
    const char *text = q->reader.scan.p;
    if (json_scan_value(&q->reader.scan) != STATUS_OK)
        return q->err->status;
    *out = *text == 't';
    return *text == 't' || *text == 'f' ? STATUS_OK : fail(q, "true or false is missing");
}

/* Read a list of objects. */
static enum status read_objects(struct request *q, enum status (*object)(struct request *q))
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

/* What would be read or written elsewhere. */
static bool is_shared_memory(const char *key)
{
    return strncmp(key, "shared_memory_", strlen("shared_memory_")) == 0;
}

/* ---- data as JSON ---- */

/* The field's name in the table, which outlives the request's texts. */
static const char *lasting_name(const struct input *in)
{
    for (const struct param *param = params_table; in->has_name && param < params_table + params_count;
         param++)
        if (strcmp(param->name, in->tensor.name) == 0)
            return param->name;
    return "data";
}

/* FP32 goes straight to where it stays; room is lent once, for as many numbers as the header can have. */
static enum status read_floats(struct request *q, struct input *in)
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
    if (numbers_read_array(&s->p, s->end, values, q->capacity - q->used, &shape, lasting_name(in), q->err) !=
        STATUS_OK)
        return q->err->status;
    size_t count = 1;
    for (size_t i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    q->used += count;
    in->bytes = count * sizeof *values;
    in->tensor.data = values;
    return STATUS_OK;
}

/* Data whose type is known to be FP32 is read on sight, any other is stepped over. */
static enum status read_data(struct request *q, struct input *in)
{
    struct json_scan *s = &q->reader.scan;
    in->json = s->p;
    if (s->p < s->end && *s->p != '[')
        return fail(q, "data is no list");
    enum status status =
        in->has_type && in->tensor.type == TENSOR_F32 ? read_floats(q, in) : json_scan_value(s);
    in->end = s->p;
    return status;
}

/* What was stepped over because its type came later. */
static enum status read_late_floats(struct request *q, struct input *in)
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
    struct request *q = (struct request *)r;
    struct input *in = out;
    if (is_shared_memory(key))
        return fail(q, "an input in shared memory, which is not served here,");
    if (strcmp(key, "binary_data_size") != 0)
        return json_scan_value(&r->scan);
    if (once(q, &in->has_bytes) != STATUS_OK)
        return q->err->status;
    return json_reader_size(r, &in->bytes);
}

static enum status read_type(struct request *q, struct input *in)
{
    const char *name;
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
    struct request *q = (struct request *)r;
    struct input *in = out;
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
    return take_null(r) ? STATUS_OK : json_reader_object(r, in, read_input_parameter);
}

/* Whether the values are as many as the shape says. */
static enum status check_count(struct request *q, const struct input *in)
{
    size_t bytes, size = tensors_type_bytes(in->tensor.type);
    size_t count = in->tensor.data != NULL ? in->bytes / size : kserve_values_count(in->json, in->end);
    if (tensors_bytes(&in->tensor, &bytes) && bytes / size == count)
        return STATUS_OK;
    return error_set(q->err, STATUS_INVALID, "wrong_length",
                     "the input %.64s has %zu values in data, which is not what its shape says",
                     in->tensor.name, count);
}

static enum status check_input(struct request *q, struct input *in)
{
    if (!in->has_name || !in->has_type || !in->has_shape)
        return fail(q, "an input without name, datatype or shape");
    in->tensor.name_length = strlen(in->tensor.name);
    if ((in->json != NULL) == in->has_bytes)
        return fail(q, "an input has either data or a binary_data_size;");
    if (in->json == NULL)
        return STATUS_OK;
    if (in->tensor.type == TENSOR_F32 && in->tensor.data == NULL && read_late_floats(q, in) != STATUS_OK)
        return q->err->status;
    size_t length = (size_t)(in->end - in->json);
    if (in->tensor.data == NULL && length > PARAMS_MAX_TEXT_BYTES)
        return error_set(q->err, STATUS_TOO_LARGE, "too_large",
                         "the input %.64s has %zu bytes of JSON; at most %zu are read but for FP32, send "
                         "binary data",
                         in->tensor.name, length, PARAMS_MAX_TEXT_BYTES);
    return check_count(q, in);
}

static enum status read_input(struct request *q)
{
    if (q->num_inputs == PARAMS_MAX)
        return fail(q, "more inputs than there are parameters");
    struct input *in = &q->inputs[q->num_inputs++];
    if (json_reader_object(&q->reader, in, read_input_member) != STATUS_OK)
        return q->err->status;
    return check_input(q, in);
}

/* ---- outputs ---- */

static enum status read_output_parameter(struct json_reader *r, const char *key, void *out)
{
    struct request *q = (struct request *)r;
    struct asked *asked = out;
    if (is_shared_memory(key))
        return fail(q, "an output to shared memory, which is not served here,");
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
    struct request *q = (struct request *)r;
    struct asked *asked = out;
    if (strcmp(key, "name") == 0)
        return asked->name != NULL ? fail(q, "a name comes twice") : json_reader_string(r, &asked->name);
    if (strcmp(key, "parameters") != 0)
        return fail(q, "an output has name and parameters and nothing else;");
    if (once(q, &asked->has_parameters) != STATUS_OK)
        return q->err->status;
    return take_null(r) ? STATUS_OK : json_reader_object(r, asked, read_output_parameter);
}

static enum status unknown_output(const char *name, struct error *err)
{
    return error_set(err, STATUS_INVALID, "unknown_parameter",
                     "there is no output %.64s; there are token_ids, seed, logprobs, top_token_ids and "
                     "top_probs",
                     name);
}

static enum status read_output(struct request *q)
{
    struct asked asked = {0};
    if (json_reader_object(&q->reader, &asked, read_output_member) != STATUS_OK)
        return q->err->status;
    if (asked.name == NULL)
        return fail(q, "an output without name");
    if (kserve_find_output(asked.name) == KSERVE_OUTPUTS)
        return unknown_output(asked.name, q->err);
    for (size_t i = 0; i < q->num_asked; i++)
        if (strcmp(q->asked[i].name, asked.name) == 0)
            return fail(q, "an output comes twice");
    q->asked[q->num_asked++] = asked;
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
        return first == 't' || first == 'f';
    case PARAM_CHOICE:
    case PARAM_TEXT:
        return first == '"';
    case PARAM_WORD:
        return first != 't' && first != 'f';
    default:
        return first != '"' && first != 't' && first != 'f';
    }
}

static enum status check_kind(struct request *q, const char *key, char first)
{
    for (const struct param *param = params_table; param < params_table + params_count; param++)
        if (strcmp(param->name, key) == 0 && !is_of_kind(param, first))
            return params_wrong_type(param,
                                     first == '"'                   ? "a string"
                                     : first == 't' || first == 'f' ? "true or false"
                                                                    : "a number",
                                     ERROR_NO_ROW, q->err);
    return STATUS_OK;
}

/* The text of a value as a query has it. */
static enum status read_text(struct request *q, char first, const char **out)
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

static enum status add_field(struct request *q, const char *key)
{
    if (q->num_fields == sizeof q->fields / sizeof q->fields[0])
        return fail(q, "more parameters than there are");
    char first = json_reader_peek(&q->reader);
    if (first == '[' || first == '{')
        return fail(q, "a parameter is a string, a number or a boolean, and lists are inputs;");
    struct query_field *field = &q->fields[q->num_fields++];
    field->key = key;
    if (read_text(q, first, &field->value) != STATUS_OK)
        return q->err->status;
    return check_kind(q, key, first);
}

static enum status read_parameter(struct json_reader *r, const char *key, void *out)
{
    struct request *q = (struct request *)r;
    (void)out;
    if (strcmp(key, "binary_data_output") == 0)
        return read_bool(q, &q->binary_output);
    if (is_reserved(key))
        return json_scan_value(&r->scan);
    return take_null(r) ? STATUS_OK : add_field(q, key);
}

/* ---- the header ---- */

static enum status read_id(struct request *q)
{
    struct query_field *field = &q->fields[q->num_fields];
    if (json_reader_peek(&q->reader) != '"')
        return fail(q, "id is no string");
    if (json_reader_string(&q->reader, &field->value) != STATUS_OK)
        return q->err->status;
    field->key = "id";
    q->num_fields += field->value[0] != '\0'; /* an empty one is none */
    return STATUS_OK;
}

static enum status read_member(struct json_reader *r, const char *key, void *out)
{
    struct request *q = (struct request *)r;
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
    if (take_null(r))
        return STATUS_OK;
    if (seen == &q->has_id)
        return read_id(q);
    if (seen == &q->has_parameters)
        return json_reader_object(r, NULL, read_parameter);
    return read_objects(q, seen == &q->has_inputs ? read_input : read_output);
}

static enum status read_header(struct request *q)
{
    struct json_reader *r = &q->reader;
    if (json_reader_peek(r) != '{')
        return fail(q, "the request is no JSON object");
    if (json_reader_object(r, NULL, read_member) != STATUS_OK)
        return q->err->status;
    json_reader_peek(r);
    return r->scan.p == r->scan.end ? STATUS_OK : fail(q, "more text after the request's object");
}

/* ---- bytes behind it ---- */

/* Give each input that has no JSON its bytes of data[length], all of which are some input's. */
static enum status place_inputs(struct request *q, const char *data, size_t length)
{
    size_t left = length, bytes;
    for (struct input *in = q->inputs; in < q->inputs + q->num_inputs; in++) {
        if (in->json != NULL)
            continue;
        if (!tensors_bytes(&in->tensor, &bytes) || bytes != in->bytes)
            return error_set(q->err, STATUS_INVALID, "wrong_length",
                             "the input %.64s has a binary_data_size of %zu, which is not what its datatype "
                             "and shape say",
                             in->tensor.name, in->bytes);
        if (bytes > left)
            return error_set(q->err, STATUS_INVALID, "wrong_length",
                             "the input %.64s has %zu bytes; the body has %zu left for it", in->tensor.name,
                             bytes, left);
        in->tensor.data = data + (length - left);
        left -= bytes;
    }
    if (left > 0)
        return error_set(q->err, STATUS_INVALID, "wrong_length",
                         "the body has %zu bytes behind its JSON header, %zu more than its inputs", length,
                         left);
    return STATUS_OK;
}

/* ---- the request ---- */

static size_t arena_bytes(const struct request *q)
{
    size_t bytes = query_arena_bytes(q->fields, q->num_fields);
    for (const struct input *in = q->inputs; in < q->inputs + q->num_inputs; in++) {
        bytes += tensors_arena_bytes(&in->tensor, 1);
        if (in->tensor.data == NULL)
            bytes += kserve_values_count(in->json, in->end) * sizeof(uint64_t) + ARENA_ALIGNMENT;
    }
    return bytes;
}

static enum status set_input(struct request *q, struct tensors *t, struct input *in)
{
    if (in->tensor.data == NULL) {
        size_t count = kserve_values_count(in->json, in->end);
        void *values = arena_alloc(t->params.arena, count, tensors_type_bytes(in->tensor.type));
        if (values == NULL)
            return error_set(q->err, STATUS_INTERNAL, "internal",
                             "data has more values than were reckoned with");
        if (kserve_values_read(in->json, in->end, &in->tensor, values, q->err) != STATUS_OK)
            return q->err->status;
        in->tensor.data = values;
    }
    return tensors_set(t, &in->tensor, q->err);
}

static enum status set_all(struct request *q, struct arena *arena, uint64_t fresh_seed,
                           struct sample_request *out)
{
    struct tensors t;
    if (arena_reserve(arena, arena_bytes(q), q->err) != STATUS_OK)
        return q->err->status;
    tensors_begin(&t, arena, q->lender);
    for (size_t i = 0; i < q->num_inputs; i++)
        if (set_input(q, &t, &q->inputs[i]) != STATUS_OK)
            return q->err->status;
    for (size_t i = 0; i < q->num_fields; i++)
        if (tensors_set_text(&t, q->fields[i].key, q->fields[i].value, q->err) != STATUS_OK)
            return q->err->status;
    return tensors_finish(&t, fresh_seed, out, q->err);
}

/* ---- what to answer ---- */

static void add_output(const struct request *q, struct kserve_outputs *outputs, enum kserve_output output)
{
    outputs->binary[outputs->count] = q->binary_output;
    outputs->list[outputs->count++] = output;
}

static void choose_implied(const struct request *q, const struct sample_request *r,
                           struct kserve_outputs *outputs)
{
    add_output(q, outputs, KSERVE_TOKEN_IDS);
    add_output(q, outputs, KSERVE_SEED);
    if (r->logprobs)
        add_output(q, outputs, KSERVE_LOGPROBS);
    if (r->top_candidates > 0) {
        add_output(q, outputs, KSERVE_TOP_TOKEN_IDS);
        add_output(q, outputs, KSERVE_TOP_PROBS);
    }
}

/* Outputs decide what is worked out: logprobs need no parameter, and nothing is done for what is not asked.
 */
static enum status choose_outputs(const struct request *q, struct sample_request *r,
                                  struct kserve_outputs *outputs)
{
    bool wanted[KSERVE_OUTPUTS] = {false};
    *outputs = (struct kserve_outputs){.count = 0};
    if (q->num_asked == 0) {
        choose_implied(q, r, outputs);
        return STATUS_OK;
    }
    for (const struct asked *asked = q->asked; asked < q->asked + q->num_asked; asked++) {
        enum kserve_output output = kserve_find_output(asked->name);
        wanted[output] = true;
        add_output(q, outputs, output);
        if (asked->says)
            outputs->binary[outputs->count - 1] = asked->binary;
    }
    bool candidates = wanted[KSERVE_TOP_TOKEN_IDS] || wanted[KSERVE_TOP_PROBS];
    if (candidates && r->top_candidates == 0) {
        error_set(q->err, STATUS_INVALID, "missing_parameter",
                  "the output %s is asked for and top_candidates, which says how many, is 0",
                  kserve_output_name(wanted[KSERVE_TOP_TOKEN_IDS] ? KSERVE_TOP_TOKEN_IDS : KSERVE_TOP_PROBS));
        return error_at(q->err, "top_candidates", ERROR_NO_ROW);
    }
    r->logprobs = wanted[KSERVE_LOGPROBS];
    r->top_candidates = candidates ? r->top_candidates : 0;
    return STATUS_OK;
}

enum status kserve_decode(const char *body, size_t length, size_t header_length, struct arena *arena,
                          struct lender *lender, uint64_t fresh_seed, struct sample_request *out,
                          struct kserve_outputs *outputs, struct error *err)
{
    size_t header = header_length == KSERVE_ALL_JSON ? length : header_length;
    if (header > length)
        return error_set(err, STATUS_INVALID, "malformed_kserve",
                         "Inference-Header-Content-Length is %zu; the body has %zu bytes", header, length);
    size_t room = (header < MAX_TEXTS ? header : MAX_TEXTS) + 1;
    struct request *q = calloc(1, sizeof *q);
    char *texts = malloc(room);
    enum status status = STATUS_NO_MEMORY;
    if (q == NULL || texts == NULL) {
        error_set(err, status, "no_memory", "cannot allocate memory for the request");
        goto free_request;
    }
    q->reader = (struct json_reader){
        .scan = {.start = body, .end = body + header, .p = body, .err = err, .subject = "the request"},
        .texts = texts,
        .room = room,
        .code = "malformed_kserve",
        .complaint = "the request is no infer request"};
    q->lender = lender;
    q->err = err;
    status = read_header(q);
    if (status == STATUS_OK)
        status = place_inputs(q, body + header, length - header);
    if (status == STATUS_OK)
        status = set_all(q, arena, fresh_seed, out);
    if (status == STATUS_OK)
        status = choose_outputs(q, out, outputs);

free_request:
    free(texts);
    free(q);
    return status;
}
