#include "proto/openapi.h"

#include "proto/params.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * cJSON's adding functions return NULL when memory is short and take NULL for an object, so a failure
 * anywhere leaves a document with a gap; the one failure that matters, of printing, is told.
 */

static cJSON *add_text(cJSON *object, const char *name, const char *text)
{
    return cJSON_AddStringToObject(object, name, text);
}

/* {"$ref":"#/components/<kind>/<name>"} */
static cJSON *reference(const char *kind, const char *name)
{
    char path[96];
    cJSON *object = cJSON_CreateObject();
    snprintf(path, sizeof path, "#/components/%s/%s", kind, name);
    add_text(object, "$ref", path);
    return object;
}

static cJSON *type_schema(const char *type)
{
    cJSON *schema = cJSON_CreateObject();
    add_text(schema, "type", type);
    return schema;
}

static cJSON *list_of(cJSON *items)
{
    cJSON *schema = type_schema("array");
    cJSON_AddItemToObject(schema, "items", items);
    cJSON_AddNumberToObject(schema, "minItems", 1);
    return schema;
}

/* {"anyOf":[a, b]} */
static cJSON *either(cJSON *a, cJSON *b)
{
    cJSON *schema = cJSON_CreateObject(), *choices = cJSON_AddArrayToObject(schema, "anyOf");
    cJSON_AddItemToArray(choices, a);
    cJSON_AddItemToArray(choices, b);
    return schema;
}

/* ---- parameters ---- */

static cJSON *number_schema(const struct param *param)
{
    cJSON *schema = type_schema(param->whole ? "integer" : "number");
    if (fabs(param->max) < DBL_MAX) {
        cJSON_AddNumberToObject(schema, "minimum", param->min);
        cJSON_AddNumberToObject(schema, "maximum", param->max);
    }
    return schema;
}

/* A number as far as JSON readers are exact, or decimal digits; a pattern cannot say 2^64 - 1 shorter. */
static cJSON *word_schema(void)
{
    cJSON *number = type_schema("integer"), *digits = type_schema("string");
    cJSON_AddNumberToObject(number, "minimum", 0);
    cJSON_AddItemToObject(number, "maximum", cJSON_CreateRaw("9007199254740992"));
    add_text(digits, "pattern", "^(0|[1-9][0-9]{0,18}|1[0-8][0-9]{18})$");
    return either(number, digits);
}

static cJSON *choice_schema(const char *const *words)
{
    cJSON *schema = type_schema("string"), *list = cJSON_AddArrayToObject(schema, "enum");
    for (; *words != NULL; words++)
        cJSON_AddItemToArray(list, cJSON_CreateString(*words));
    return schema;
}

/* `item` in `depth` lists, one within the other. */
static cJSON *lists_of(cJSON *item, int depth)
{
    for (int i = 0; i < depth; i++)
        item = list_of(item);
    return item;
}

static cJSON *number_or_null(void)
{
    static const char *const types[] = {"number", "null"};
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToObject(item, "type", cJSON_CreateStringArray(types, 2));
    return item;
}

/* [V] or [B][V] numbers and nulls. */
static cJSON *array_schema(void)
{
    return either(list_of(number_or_null()), lists_of(number_or_null(), 2));
}

/* A row of logits: one at least is no null.  In a stack of `mix` whose weight is 0 all may be. */
static cJSON *logits_row(void)
{
    cJSON *row = list_of(number_or_null());
    cJSON_AddItemToObject(row, "contains", type_schema("number"));
    return row;
}

static cJSON *ids_row(const struct param *param)
{
    cJSON *row = list_of(number_schema(param));
    cJSON_AddTrueToObject(row, "uniqueItems");
    return row;
}

/* {"b64":"...","dtype":"bf16","shape":[B,V]} */
static cJSON *packed_schema(void)
{
    static const char *const names[] = {"b64", "dtype", "shape"};
    cJSON *schema = type_schema("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *bytes = type_schema("string"), *length = type_schema("integer"), *shape = list_of(length);
    cJSON_AddNumberToObject(shape, "maxItems", 3);
    add_text(bytes, "contentEncoding", "base64");
    add_text(bytes, "pattern", "^[A-Za-z0-9+/]+={0,2}$");
    cJSON_AddNumberToObject(length, "minimum", 1);
    cJSON_AddItemToObject(fields, "b64", bytes);
    cJSON_AddItemToObject(fields, "dtype", choice_schema(params_dtypes));
    cJSON_AddItemToObject(fields, "shape", shape);
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 3));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

static cJSON *logits_schema(void)
{
    cJSON *schema = either(logits_row(), list_of(logits_row()));
    cJSON *choices = cJSON_GetObjectItem(schema, "anyOf");
    cJSON_AddItemToArray(choices, lists_of(number_or_null(), 3));
    cJSON_AddItemToArray(choices, packed_schema());
    return schema;
}

static cJSON *value_schema(const struct param *param)
{
    switch (param->type) {
    case PARAM_WORD:
        return word_schema();
    case PARAM_FLAG:
        return type_schema("boolean");
    case PARAM_CHOICE:
        return choice_schema(param->words);
    case PARAM_TEXT: {
        cJSON *schema = type_schema("string");
        cJSON_AddNumberToObject(schema, "maxLength", param->max);
        add_text(schema, "pattern", "^[^\\u0000]*$");
        return schema;
    }
    case PARAM_WEIGHTS:
        return list_of(number_schema(param));
    case PARAM_LOGITS:
        return logits_schema();
    case PARAM_ARRAY:
        return array_schema();
    case PARAM_IDS:
        return either(ids_row(param), list_of(ids_row(param)));
    default:
        return number_schema(param);
    }
}

/* The schema of a parameter in JSON: one value, or one a row. */
static cJSON *param_schema(const struct param *param)
{
    cJSON *schema = value_schema(param);
    if (param->per_row)
        schema = either(schema, list_of(value_schema(param)));
    add_text(schema, "description", param->help);
    return schema;
}

static cJSON *request_schema(void)
{
    cJSON *schema = type_schema("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *required = cJSON_AddArrayToObject(schema, "required");
    for (const struct param *param = params_table; param < params_table + params_count; param++) {
        if (!(param->forms & PARAM_IN_JSON))
            continue;
        cJSON_AddItemToObject(fields, param->name, param_schema(param));
        if (strcmp(param->initial, "required") == 0)
            cJSON_AddItemToArray(required, cJSON_CreateString(param->name));
    }
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

/* A query field: one value is a list of one, and a list has commas. */
static cJSON *query_field(const struct param *param)
{
    char text[256];
    bool is_list = param->per_row || param->type == PARAM_WEIGHTS;
    cJSON *field = cJSON_CreateObject();
    add_text(field, "name", param->name);
    add_text(field, "in", "query");
    snprintf(text, sizeof text, "%s; only beside a raw%s body", param->help,
             param->forms & PARAM_IN_NPY ? " or npy" : "");
    add_text(field, "description", text);
    if (is_list) {
        add_text(field, "style", "form");
        cJSON_AddFalseToObject(field, "explode");
    }
    cJSON_AddItemToObject(field, "schema",
                          param->per_row ? list_of(value_schema(param)) : value_schema(param));
    return field;
}

static cJSON *timeout_field(void)
{
    cJSON *field = cJSON_CreateObject(), *schema = type_schema("integer");
    add_text(field, "name", "X-Request-Timeout-Ms");
    add_text(field, "in", "header");
    add_text(field, "description",
             "milliseconds from the last byte of the request to its answer; it can shorten the server's own");
    cJSON_AddNumberToObject(schema, "minimum", 1);
    cJSON_AddItemToObject(field, "schema", schema);
    return field;
}

static cJSON *sample_fields(void)
{
    cJSON *list = cJSON_CreateArray();
    for (const struct param *param = params_table; param < params_table + params_count; param++)
        if (param->forms & (PARAM_IN_RAW | PARAM_IN_NPY))
            cJSON_AddItemToArray(list, query_field(param));
    cJSON_AddItemToArray(list, timeout_field());
    return list;
}

/* ---- answers ---- */

static cJSON *plain_rows(const char *type)
{
    cJSON *row = type_schema("array"), *rows = type_schema("array");
    cJSON_AddItemToObject(row, "items", type_schema(type));
    cJSON_AddItemToObject(rows, "items", row);
    return rows;
}

static cJSON *answer_schema(void)
{
    static const char *const required[] = {"token_ids", "seed"};
    static const char *const reals[] = {"logprobs", "top_probs", "top_logprobs"};
    cJSON *schema = type_schema("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON_AddItemToObject(fields, "id", type_schema("string"));
    cJSON_AddItemToObject(fields, "token_ids", plain_rows("integer"));
    cJSON_AddItemToObject(fields, "seed", either(word_schema(), list_of(word_schema())));
    cJSON_AddItemToObject(fields, "top_token_ids", plain_rows("integer"));
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        cJSON_AddItemToObject(fields, reals[i], plain_rows("number"));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(required, 2));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

static cJSON *error_schema(void)
{
    static const char *const names[] = {"message", "type", "param", "code", "row"};
    static const char *const nullable[] = {"string", "null"}, *const row[] = {"integer", "null"};
    cJSON *schema = type_schema("object"), *outer = cJSON_AddObjectToObject(schema, "properties");
    cJSON *error = type_schema("object"), *fields = cJSON_AddObjectToObject(error, "properties");
    for (size_t i = 0; i < 5; i++) {
        cJSON *field = type_schema("string");
        if (i == 2)
            cJSON_ReplaceItemInObject(field, "type", cJSON_CreateStringArray(nullable, 2));
        if (i == 4)
            cJSON_ReplaceItemInObject(field, "type", cJSON_CreateStringArray(row, 2));
        cJSON_AddItemToObject(fields, names[i], field);
    }
    cJSON_AddItemToObject(error, "required", cJSON_CreateStringArray(names, 5));
    cJSON_AddFalseToObject(error, "additionalProperties");
    cJSON_AddItemToObject(outer, "error", error);
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray((const char *const[]){"error"}, 1));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

/* A response with one form of content; the schema is handed over. */
static cJSON *response(const char *description, const char *media_type, cJSON *schema)
{
    cJSON *object = cJSON_CreateObject(), *content, *media;
    add_text(object, "description", description);
    content = cJSON_AddObjectToObject(object, "content");
    media = cJSON_AddObjectToObject(content, media_type);
    cJSON_AddItemToObject(media, "schema", schema);
    return object;
}

static cJSON *binary_schema(const char *description)
{
    cJSON *schema = cJSON_CreateObject();
    add_text(schema, "description", description);
    return schema;
}

/* A header of a response. */
static void add_header(cJSON *answer, const char *name, const char *type, const char *description)
{
    cJSON *headers = cJSON_GetObjectItem(answer, "headers");
    if (headers == NULL)
        headers = cJSON_AddObjectToObject(answer, "headers");
    cJSON *header = cJSON_AddObjectToObject(headers, name);
    add_text(header, "description", description);
    cJSON_AddItemToObject(header, "schema", type_schema(type));
}

static const struct {
    const char *code, *meaning, *header, *header_type, *header_meaning;
} refusals[] = {
    {"400", "malformed, or a parameter out of range", NULL, NULL, NULL},
    {"401", "no valid token where one is asked for", "WWW-Authenticate", "string", "the scheme: Bearer"},
    {"406", "no form of answer that the client accepts", NULL, NULL, NULL},
    {"408", "the body did not come in time", NULL, NULL, NULL},
    {"413", "over a limit, which the message names", NULL, NULL, NULL},
    {"415", "a Content-Type that is not read here", NULL, NULL, NULL},
    {"422", "a row that cannot be sampled: NaN, +infinity, or every token masked", NULL, NULL, NULL},
    {"500", "a bug", NULL, NULL, NULL},
    {"503", "full or draining", "Retry-After", "integer", "seconds until it is worth asking again"},
    {"504", "the deadline of the request passed", NULL, NULL, NULL},
};

static cJSON *refusal(size_t i)
{
    cJSON *answer = response(refusals[i].meaning, "application/json", reference("schemas", "Error"));
    if (refusals[i].header != NULL)
        add_header(answer, refusals[i].header, refusals[i].header_type, refusals[i].header_meaning);
    return answer;
}

static cJSON *sample_responses(void)
{
    cJSON *responses = cJSON_CreateObject();
    cJSON *ok = response("the tokens", "application/json", reference("schemas", "Answer"));
    cJSON *binary = cJSON_CreateObject();
    cJSON_AddItemToObject(binary, "schema", binary_schema("int32 token ids [B, n], little-endian"));
    cJSON_AddItemToObject(cJSON_GetObjectItem(ok, "content"), "application/octet-stream", binary);
    add_header(ok, "X-Samplerd-Seed", "string",
               "of an answer of token ids alone: the seed used, unless each row was sent one of its own");
    cJSON_AddItemToObject(responses, "200", ok);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        cJSON_AddItemToObject(responses, refusals[i].code, refusal(i));
    return responses;
}

/* ---- paths ---- */

static const struct {
    const char *name, *summary, *value;
} examples[] = {
    {"row", "One flat row",
     "{\"logits\":[10,8,6,3],\"temperature\":0.8,\"top_k\":2,\"seed\":7,\"top_candidates\":3}"},
    {"batch", "A batch, with parameters and a seed for each row",
     "{\"logits\":[[1,2,null],[0.5,0.5,0.5]],\"temperature\":[0,1],\"seed\":[\"18446744073709551615\",1],"
     "\"n\":4,\"logprobs\":true}"},
    {"packed", "Logits as base64 of bfloat16",
     "{\"logits\":{\"b64\":\"gD8AQA==\",\"dtype\":\"bf16\",\"shape\":[1,2]},\"temperature\":1,\"seed\":7}"},
    {"candidates", "Logits of some tokens only", "{\"logits\":[[1,5,2]],\"candidate_ids\":[[30,10,20]]}"},
    {"guidance", "Two stacks of logits, mixed",
     "{\"logits\":[[[1,5,2]],[[1,1,4]]],\"mix\":[1.5,-0.5],\"bias\":[0,0,1],\"temperature\":1,\"seed\":7}"},
};

static void add_examples(cJSON *media)
{
    cJSON *list = cJSON_AddObjectToObject(media, "examples");
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        cJSON *example = cJSON_AddObjectToObject(list, examples[i].name);
        add_text(example, "summary", examples[i].summary);
        cJSON_AddItemToObject(example, "value", cJSON_Parse(examples[i].value));
    }
}

static cJSON *sample_body(void)
{
    static const struct {
        const char *type, *description;
    } forms[] = {
        {"application/octet-stream", "the logits alone, little-endian, row-major; the rest is in the query"},
        {"application/x-npy", "a file of numpy.save; the rest is in the query"},
        {"application/x-safetensors", "named tensors; single values may be in the metadata"},
    };
    cJSON *body = cJSON_CreateObject(), *content, *json;
    cJSON_AddTrueToObject(body, "required");
    content = cJSON_AddObjectToObject(body, "content");
    json = cJSON_AddObjectToObject(content, "application/json");
    cJSON_AddItemToObject(json, "schema", reference("schemas", "SampleRequest"));
    add_examples(json);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        cJSON *form = cJSON_AddObjectToObject(content, forms[i].type);
        cJSON_AddItemToObject(form, "schema", binary_schema(forms[i].description));
    }
    return body;
}

static void add_sample(cJSON *paths)
{
    cJSON *post = cJSON_AddObjectToObject(cJSON_AddObjectToObject(paths, "/sample"), "post");
    add_text(post, "operationId", "sample");
    add_text(post, "summary", "Draw token ids from a batch of logits");
    cJSON_AddItemToObject(post, "parameters", sample_fields());
    cJSON_AddItemToObject(post, "requestBody", sample_body());
    cJSON_AddItemToObject(post, "responses", sample_responses());
}

static const struct {
    const char *path, *id, *summary, *media_type;
    bool open;           /* without a token, too */
    const char *unready; /* what a 503 means, or NULL */
    const char *absent;  /* what a 404 means, or NULL */
} pages[] = {
    {"/livez", "livez", "Whether the process is alive", "text/plain", true, NULL, NULL},
    {"/readyz", "readyz", "Whether it takes requests", "text/plain", true, "draining", NULL},
    {"/healthz", "healthz", "The same as /livez", "text/plain", true, NULL, NULL},
    {"/version", "version", "Name, version and kernels in use", "application/json", false, NULL, NULL},
    {"/metrics", "metrics", "Prometheus metrics, text format 0.0.4", "text/plain", false, NULL,
     "they are at admin_listen, where the server has one"},
    {"/openapi.json", "openapi", "This document", "application/json", false, NULL, NULL},
};

static cJSON *page_schema(size_t i)
{
    static const char *const names[] = {"name", "version", "kernels"};
    if (strcmp(pages[i].media_type, "text/plain") == 0)
        return type_schema("string");
    cJSON *schema = type_schema("object"), *fields;
    if (strcmp(pages[i].id, "version") != 0)
        return schema;
    fields = cJSON_AddObjectToObject(schema, "properties");
    for (size_t name = 0; name < 3; name++)
        cJSON_AddItemToObject(fields, names[name], type_schema("string"));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 3));
    return schema;
}

static cJSON *page_responses(size_t i)
{
    cJSON *responses = cJSON_CreateObject();
    cJSON_AddItemToObject(responses, "200", response("as it says", pages[i].media_type, page_schema(i)));
    if (!pages[i].open)
        cJSON_AddItemToObject(responses, "401", refusal(1));
    if (pages[i].absent != NULL)
        cJSON_AddItemToObject(responses, "404",
                              response(pages[i].absent, "application/json", reference("schemas", "Error")));
    if (pages[i].unready != NULL)
        cJSON_AddItemToObject(responses, "503",
                              response(pages[i].unready, "text/plain", type_schema("string")));
    return responses;
}

static void add_page(cJSON *paths, size_t i)
{
    cJSON *get = cJSON_AddObjectToObject(cJSON_AddObjectToObject(paths, pages[i].path), "get");
    add_text(get, "operationId", pages[i].id);
    add_text(get, "summary", pages[i].summary);
    if (pages[i].open)
        cJSON_AddArrayToObject(get, "security");
    cJSON_AddItemToObject(get, "responses", page_responses(i));
}

/* A token, or none where the server asks for none. */
static void add_security(cJSON *document)
{
    cJSON *choices = cJSON_AddArrayToObject(document, "security"), *token = cJSON_CreateObject();
    cJSON_AddItemToArray(choices, cJSON_CreateObject());
    cJSON_AddArrayToObject(token, "token");
    cJSON_AddItemToArray(choices, token);
}

static void add_components(cJSON *document)
{
    cJSON *components = cJSON_AddObjectToObject(document, "components"), *schemas, *schemes, *bearer;
    schemas = cJSON_AddObjectToObject(components, "schemas");
    cJSON_AddItemToObject(schemas, "SampleRequest", request_schema());
    cJSON_AddItemToObject(schemas, "Answer", answer_schema());
    cJSON_AddItemToObject(schemas, "Error", error_schema());
    schemes = cJSON_AddObjectToObject(components, "securitySchemes");
    bearer = cJSON_AddObjectToObject(schemes, "token");
    add_text(bearer, "type", "http");
    add_text(bearer, "scheme", "bearer");
    add_text(bearer, "description", "asked for where the server has a token_file");
}

char *openapi_document(void)
{
    cJSON *document = cJSON_CreateObject(), *info, *licence, *paths;
    add_text(document, "openapi", "3.1.0");
    info = cJSON_AddObjectToObject(document, "info");
    add_text(info, "title", "samplerd");
    add_text(info, "version", SAMPLERD_VERSION);
    add_text(info, "description",
             "Logits in, token ids out: the same token for the same seed on every machine.");
    licence = cJSON_AddObjectToObject(info, "license");
    add_text(licence, "name", "MIT");
    add_text(licence, "identifier", "MIT");
    add_security(document);
    paths = cJSON_AddObjectToObject(document, "paths");
    add_sample(paths);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        add_page(paths, i);
    add_components(document);
    char *text = cJSON_Print(document);
    cJSON_Delete(document);
    return text;
}
