#include "proto/openapi/openapi.h"

#include "proto/kserve/kserve_answer.h"
#include "proto/openapi/openapi_regions.h"
#include "proto/openapi/operation.h"
#include "proto/openapi/schema.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/*
 * cJSON's adding functions return NULL when memory is short and take NULL for an object, so a failure
 * anywhere leaves a document with a gap; the one failure that matters, of printing, is told.
 */

#define LENGTH_HEADER "Inference-Header-Content-Length"
#define MODEL         "/v2/models/" KSERVE_MODEL
#define VERSION       MODEL "/versions/" KSERVE_VERSION

/* A query field: one value is a list of one, and a list has commas. */
static cJSON *query_field(const struct param *param)
{
    char text[256];
    bool is_list = param->type == PARAM_ID_LISTS || param->type == PARAM_PAIR || param->type == PARAM_ORDER ||
                   param->type == PARAM_WEIGHTS; /* by itself, and one for all rows */
    bool per_row = param->per_row && !is_list;
    cJSON *schema = per_row ? schema_list_of(schema_value(param)) : schema_value(param), *field;
    snprintf(text, sizeof text, "%s; only beside a raw%s body", param->help,
             param->forms & PARAM_IN_NPY ? " or npy" : "");
    field = operation_parameter(param->name, "query", text, schema);
    if (per_row || is_list) {
        schema_add_text(field, "style", "form");
        cJSON_AddFalseToObject(field, "explode");
    }
    return field;
}

static cJSON *timeout_field(void)
{
    return operation_parameter(
        "X-Request-Timeout-Ms", "header",
        "milliseconds from the last byte of the request to its answer; it can shorten the server's own",
        schema_whole(1));
}

static cJSON *infer_fields(void)
{
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, timeout_field());
    cJSON_AddItemToArray(list,
                         operation_parameter(LENGTH_HEADER, "header",
                                             "of a request with tensors as bytes: the length of its JSON",
                                             schema_whole(1)));
    return list;
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

static cJSON *binary_schema(const char *description)
{
    cJSON *schema = schema_type("string"); /* as generators of clients know bytes */
    schema_add_text(schema, "format", "binary");
    schema_add_text(schema, "description", description);
    return schema;
}

/* A 200 as JSON of this schema, or as bytes. */
static cJSON *tokens(const char *schema, const char *bytes)
{
    cJSON *ok = operation_response("the tokens", "application/json", schema_reference("schemas", schema));
    operation_add_form(cJSON_GetObjectItem(ok, "content"), "application/octet-stream", binary_schema(bytes));
    return ok;
}

static cJSON *sample_responses(void)
{
    cJSON *responses = cJSON_CreateObject();
    cJSON *ok = tokens("Answer", "int32 token ids [B, n], little-endian");
    operation_add_header(
        ok, "X-Samplerd-Seed", "string",
        "of an answer of token ids alone: the seed used, unless each row was sent one of its own");
    cJSON_AddItemToObject(responses, "200", ok);
    operation_add_refusals(responses, "400 401 406 408 413 415 422 500 503 504", "Error");
    return responses;
}

/* Every refusal of /sample but 406: the request itself says which outputs are bytes. */
static cJSON *infer_responses(void)
{
    cJSON *responses = cJSON_CreateObject();
    cJSON *ok = tokens("InferAnswer", "JSON, and behind it the outputs that were asked for as bytes");
    operation_add_header(ok, LENGTH_HEADER, "integer", "of an answer with bytes: the length of its JSON");
    cJSON_AddItemToObject(responses, "200", ok);
    operation_add_refusals(responses, "400 401 408 413 415 422 500 503 504", "InferError");
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
        schema_add_text(example, "summary", examples[i].summary);
        cJSON_AddItemToObject(example, "value", cJSON_Parse(examples[i].value));
    }
}

static void add_sample_body(cJSON *post)
{
    cJSON *content = operation_add_body(post);
    add_examples(
        operation_add_form(content, "application/json", schema_reference("schemas", "SampleRequest")));
    operation_add_form(content, "application/octet-stream",
                       binary_schema("the logits alone, little-endian, row-major; the rest is in the query"));
    operation_add_form(content, "application/x-npy",
                       binary_schema("a file of numpy.save; the rest is in the query"));
    operation_add_form(content, "application/x-safetensors",
                       binary_schema("named tensors; single values may be in the metadata"));
}

static void add_infer_body(cJSON *post)
{
    static const char example[] =
        "{\"inputs\":[{\"name\":\"logits\",\"datatype\":\"FP32\",\"shape\":[2,4],\"data\":[10,8,6,3,1,2,0,5]}"
        ","
        "{\"name\":\"temperature\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[0.8,0]}],"
        "\"parameters\":{\"top_k\":2,\"seed\":7}}";
    cJSON *content = operation_add_body(post), *json;
    json = operation_add_form(content, "application/json", schema_reference("schemas", "InferRequest"));
    cJSON_AddItemToObject(json, "example", cJSON_Parse(example));
    operation_add_form(
        content, "application/octet-stream",
        binary_schema(
            "the JSON, and behind it the bytes of inputs that are neither in it nor in shared memory"));
}

static void add_sample(cJSON *paths)
{
    cJSON *post = operation_add(paths, "/sample", "post", "sample", "Draw token ids from a batch of logits");
    cJSON_AddItemToObject(post, "parameters", sample_fields());
    add_sample_body(post);
    cJSON_AddItemToObject(post, "responses", sample_responses());
}

static void add_infer(cJSON *paths, const char *path, const char *id)
{
    cJSON *post = operation_add(paths, path, "post", id,
                                "The same as KServe v2 has it: parameters by the names of /sample");
    cJSON_AddItemToObject(post, "parameters", infer_fields());
    add_infer_body(post);
    cJSON_AddItemToObject(post, "responses", infer_responses());
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
    {"/v2", "kserve_server", "Server metadata of KServe v2", "application/json", false, NULL, NULL},
    {"/v2/health/live", "kserve_live", "The same as /livez", "application/json", true, NULL, NULL},
    {"/v2/health/ready", "kserve_ready", "The same as /readyz", "application/json", true, "draining", NULL},
    {MODEL, "kserve_model", "Inputs and outputs", "application/json", false, NULL, NULL},
    {MODEL "/ready", "kserve_model_ready", "The same as /readyz", "application/json", false, "draining",
     NULL},
    {MODEL "/config", "kserve_config", "The model as Triton configures one", "application/json", false, NULL,
     NULL},
    {VERSION, "kserve_version", "Inputs and outputs", "application/json", false, NULL, NULL},
    {VERSION "/ready", "kserve_version_ready", "The same as /readyz", "application/json", false, "draining",
     NULL},
    {VERSION "/config", "kserve_version_config", "The model as Triton configures one", "application/json",
     false, NULL, NULL},
};

static cJSON *page_schema(size_t i)
{
    static const char *const names[] = {"name", "version", "kernels"};
    if (strcmp(pages[i].media_type, "text/plain") == 0)
        return schema_type("string");
    cJSON *schema = schema_type("object"), *fields;
    if (strcmp(pages[i].id, "version") != 0)
        return schema;
    fields = cJSON_AddObjectToObject(schema, "properties");
    for (size_t name = 0; name < 3; name++)
        cJSON_AddItemToObject(fields, names[name], schema_type("string"));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 3));
    return schema;
}

static cJSON *page_responses(size_t i)
{
    cJSON *responses = cJSON_CreateObject();
    const char *error = strncmp(pages[i].path, "/v2", 3) == 0 ? "InferError" : "Error";
    cJSON_AddItemToObject(responses, "200",
                          operation_response("as it says", pages[i].media_type, page_schema(i)));
    if (!pages[i].open)
        operation_add_refusals(responses, "401", error);
    if (pages[i].absent != NULL)
        operation_add_error(responses, "404", pages[i].absent, error);
    if (pages[i].unready != NULL) {
        bool text = strcmp(pages[i].media_type, "text/plain") == 0;
        cJSON *schema = text ? schema_type("string") : schema_reference("schemas", error);
        cJSON_AddItemToObject(responses, "503",
                              operation_response(pages[i].unready, pages[i].media_type, schema));
    }
    return responses;
}

static void add_page(cJSON *paths, size_t i)
{
    cJSON *get = operation_add(paths, pages[i].path, "get", pages[i].id, pages[i].summary);
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
    cJSON_AddItemToObject(schemas, "SampleRequest", schema_request());
    cJSON_AddItemToObject(schemas, "Answer", schema_answer());
    cJSON_AddItemToObject(schemas, "Error", schema_error());
    cJSON_AddItemToObject(schemas, "InferRequest", schema_infer_request());
    cJSON_AddItemToObject(schemas, "InferAnswer", schema_infer_answer());
    cJSON_AddItemToObject(schemas, "InferError", schema_infer_error());
    openapi_regions_add_schemas(schemas);
    schemes = cJSON_AddObjectToObject(components, "securitySchemes");
    bearer = cJSON_AddObjectToObject(schemes, "token");
    schema_add_text(bearer, "type", "http");
    schema_add_text(bearer, "scheme", "bearer");
    schema_add_text(bearer, "description", "asked for where the server has a token_file");
}

char *openapi_document(void)
{
    cJSON *document = cJSON_CreateObject(), *info, *licence, *paths;
    schema_add_text(document, "openapi", "3.1.0");
    info = cJSON_AddObjectToObject(document, "info");
    schema_add_text(info, "title", "samplerd");
    schema_add_text(info, "version", SAMPLERD_VERSION);
    schema_add_text(info, "description",
                    "Logits in, token ids out: the same token for the same seed on every machine.");
    licence = cJSON_AddObjectToObject(info, "license");
    schema_add_text(licence, "name", "MIT");
    schema_add_text(licence, "identifier", "MIT");
    add_security(document);
    paths = cJSON_AddObjectToObject(document, "paths");
    add_sample(paths);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        add_page(paths, i);
    add_infer(paths, MODEL "/infer", "kserve_infer");
    add_infer(paths, VERSION "/infer", "kserve_version_infer");
    openapi_regions_add_paths(paths);
    add_components(document);
    char *text = cJSON_Print(document);
    cJSON_Delete(document);
    return text;
}
