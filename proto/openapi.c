#include "proto/openapi.h"

#include "proto/params.h"

#include <cjson/cJSON.h>
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
    if (fabs(param->max) < 1e30) {
        cJSON_AddNumberToObject(schema, "minimum", param->min);
        cJSON_AddNumberToObject(schema, "maximum", param->max);
    }
    return schema;
}

/* A number as far as JSON readers are exact, or decimal digits. */
static cJSON *word_schema(void)
{
    cJSON *number = type_schema("integer"), *digits = type_schema("string");
    cJSON_AddNumberToObject(number, "minimum", 0);
    cJSON_AddItemToObject(number, "maximum", cJSON_CreateRaw("9007199254740992"));
    add_text(digits, "pattern", "^(0|[1-9][0-9]{0,19})$");
    return either(number, digits);
}

static cJSON *choice_schema(const char *const *words)
{
    cJSON *schema = type_schema("string"), *list = cJSON_AddArrayToObject(schema, "enum");
    for (; *words != NULL; words++)
        cJSON_AddItemToArray(list, cJSON_CreateString(*words));
    return schema;
}

/* Numbers, or nulls where they may be, nested `least` to `most` lists deep. */
static cJSON *nested_schema(const char *type, bool nullable, int least, int most)
{
    cJSON *schema = cJSON_CreateObject(), *choices = cJSON_AddArrayToObject(schema, "anyOf");
    for (int depth = least; depth <= most; depth++) {
        cJSON *item = type_schema(type);
        if (nullable) {
            const char *const types[] = {type, "null"};
            cJSON_ReplaceItemInObject(item, "type", cJSON_CreateStringArray(types, 2));
        }
        if (strcmp(type, "integer") == 0)
            cJSON_AddNumberToObject(item, "minimum", 0);
        for (int i = 0; i < depth; i++)
            item = list_of(item);
        cJSON_AddItemToArray(choices, item);
    }
    return schema;
}

/* {"b64":"...","dtype":"bf16","shape":[B,V]} */
static cJSON *packed_schema(void)
{
    static const char *const names[] = {"b64", "dtype", "shape"};
    cJSON *schema = type_schema("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *bytes = type_schema("string"), *length = type_schema("integer");
    add_text(bytes, "contentEncoding", "base64");
    cJSON_AddNumberToObject(length, "minimum", 1);
    cJSON_AddItemToObject(fields, "b64", bytes);
    cJSON_AddItemToObject(fields, "dtype", choice_schema(params_dtypes));
    cJSON_AddItemToObject(fields, "shape", list_of(length));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 3));
    cJSON_AddFalseToObject(schema, "additionalProperties");
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
        return schema;
    }
    case PARAM_WEIGHTS:
        return list_of(type_schema("number"));
    case PARAM_LOGITS:
        return either(nested_schema("number", true, 1, 3), packed_schema());
    case PARAM_ARRAY:
        return nested_schema("number", true, 1, 2);
    case PARAM_IDS:
        return nested_schema("integer", false, 1, 2);
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

/* A query field: a list is written with commas, so its schema is a string but for one plain value. */
static cJSON *query_field(const struct param *param)
{
    char text[256];
    bool is_list = param->per_row || param->type == PARAM_WEIGHTS;
    cJSON *field = cJSON_CreateObject();
    add_text(field, "name", param->name);
    add_text(field, "in", "query");
    snprintf(text, sizeof text, "%s; only beside a raw%s body%s", param->help,
             param->forms & PARAM_IN_NPY ? " or npy" : "", is_list ? "; a list is separated by commas" : "");
    add_text(field, "description", text);
    cJSON_AddItemToObject(field, "schema", is_list ? type_schema("string") : value_schema(param));
    return field;
}

static cJSON *query_fields(void)
{
    cJSON *list = cJSON_CreateArray();
    for (const struct param *param = params_table; param < params_table + params_count; param++)
        if (param->forms & (PARAM_IN_RAW | PARAM_IN_NPY))
            cJSON_AddItemToArray(list, query_field(param));
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
    cJSON_AddItemToObject(outer, "error", error);
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray((const char *const[]){"error"}, 1));
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

static const struct {
    const char *code, *meaning;
} refusals[] = {
    {"400", "malformed, or a parameter out of range"},
    {"401", "no valid token where one is asked for"},
    {"406", "no form of answer that the client accepts"},
    {"408", "the body did not come in time"},
    {"413", "over a limit, which the message names"},
    {"415", "a Content-Type that is not read here"},
    {"422", "a row that cannot be sampled: NaN, +infinity, or every token masked"},
    {"500", "a bug"},
    {"503", "full or draining; Retry-After says when to come again"},
    {"504", "the deadline of the request passed"},
};

static cJSON *sample_responses(void)
{
    cJSON *responses = cJSON_CreateObject();
    cJSON *ok = response("the tokens", "application/json", reference("schemas", "Answer"));
    cJSON *binary = cJSON_CreateObject();
    cJSON_AddItemToObject(binary, "schema", binary_schema("int32 token ids [B, n], little-endian"));
    cJSON_AddItemToObject(cJSON_GetObjectItem(ok, "content"), "application/octet-stream", binary);
    cJSON_AddItemToObject(responses, "200", ok);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        cJSON_AddItemToObject(
            responses, refusals[i].code,
            response(refusals[i].meaning, "application/json", reference("schemas", "Error")));
    return responses;
}

/* ---- paths ---- */

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
    cJSON_AddItemToObject(post, "parameters", query_fields());
    cJSON_AddItemToObject(post, "requestBody", sample_body());
    cJSON_AddItemToObject(post, "responses", sample_responses());
}

static const struct {
    const char *path, *id, *summary, *media_type, *unready; /* unready: what a 503 means, or NULL */
} pages[] = {
    {"/livez", "livez", "Whether the process is alive", "text/plain", NULL},
    {"/readyz", "readyz", "Whether it takes requests", "text/plain", "draining"},
    {"/healthz", "healthz", "The same as /livez", "text/plain", NULL},
    {"/version", "version", "Name, version and kernels in use", "application/json", NULL},
    {"/metrics", "metrics", "Prometheus metrics, text format 0.0.4", "text/plain", NULL},
    {"/openapi.json", "openapi", "This document", "application/json", NULL},
};

static void add_page(cJSON *paths, size_t i)
{
    cJSON *get = cJSON_AddObjectToObject(cJSON_AddObjectToObject(paths, pages[i].path), "get"), *responses;
    const char *type = strcmp(pages[i].media_type, "text/plain") == 0 ? "string" : "object";
    add_text(get, "operationId", pages[i].id);
    add_text(get, "summary", pages[i].summary);
    responses = cJSON_AddObjectToObject(get, "responses");
    cJSON_AddItemToObject(responses, "200", response("as it says", pages[i].media_type, type_schema(type)));
    if (pages[i].unready != NULL)
        cJSON_AddItemToObject(responses, "503",
                              response(pages[i].unready, "text/plain", type_schema("string")));
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
    paths = cJSON_AddObjectToObject(document, "paths");
    add_sample(paths);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        add_page(paths, i);
    add_components(document);
    char *text = cJSON_Print(document);
    cJSON_Delete(document);
    return text;
}
