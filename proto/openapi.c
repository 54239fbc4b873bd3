#include "proto/openapi.h"

#include "proto/kserve_answer.h"
#include "proto/schema.h"

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
    bool is_list = param->per_row || param->type == PARAM_WEIGHTS;
    cJSON *field = cJSON_CreateObject();
    schema_add_text(field, "name", param->name);
    schema_add_text(field, "in", "query");
    snprintf(text, sizeof text, "%s; only beside a raw%s body", param->help,
             param->forms & PARAM_IN_NPY ? " or npy" : "");
    schema_add_text(field, "description", text);
    if (is_list) {
        schema_add_text(field, "style", "form");
        cJSON_AddFalseToObject(field, "explode");
    }
    cJSON_AddItemToObject(field, "schema",
                          param->per_row ? schema_list_of(schema_value(param)) : schema_value(param));
    return field;
}

static cJSON *header_field(const char *name, const char *description, double least)
{
    cJSON *field = cJSON_CreateObject(), *schema = schema_type("integer");
    schema_add_text(field, "name", name);
    schema_add_text(field, "in", "header");
    schema_add_text(field, "description", description);
    cJSON_AddNumberToObject(schema, "minimum", least);
    cJSON_AddItemToObject(field, "schema", schema);
    return field;
}

static cJSON *timeout_field(void)
{
    return header_field(
        "X-Request-Timeout-Ms",
        "milliseconds from the last byte of the request to its answer; it can shorten the server's own", 1);
}

static cJSON *infer_fields(void)
{
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, timeout_field());
    cJSON_AddItemToArray(
        list, header_field(LENGTH_HEADER, "of a request with tensors as bytes: the length of its JSON", 0));
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

/* A response with one form of content; the schema is handed over. */
static cJSON *response(const char *description, const char *media_type, cJSON *schema)
{
    cJSON *object = cJSON_CreateObject(), *content, *media;
    schema_add_text(object, "description", description);
    content = cJSON_AddObjectToObject(object, "content");
    media = cJSON_AddObjectToObject(content, media_type);
    cJSON_AddItemToObject(media, "schema", schema);
    return object;
}

static cJSON *binary_schema(const char *description)
{
    cJSON *schema = cJSON_CreateObject();
    schema_add_text(schema, "description", description);
    return schema;
}

/* A header of a response. */
static void add_header(cJSON *answer, const char *name, const char *type, const char *description)
{
    cJSON *headers = cJSON_GetObjectItem(answer, "headers");
    if (headers == NULL)
        headers = cJSON_AddObjectToObject(answer, "headers");
    cJSON *header = cJSON_AddObjectToObject(headers, name);
    schema_add_text(header, "description", description);
    cJSON_AddItemToObject(header, "schema", schema_type(type));
}

static const struct {
    const char *code, *meaning, *header, *header_type, *header_meaning;
} refusals[] = {
    {"400", "malformed, or a parameter out of range", NULL, NULL, NULL},
    {"401", "no valid token where one is asked for", "WWW-Authenticate", "string", "the scheme: Bearer"},
    {"406", "no form of answer that the client accepts", NULL, NULL, NULL},
    {"408", "the body did not come in time", NULL, NULL, NULL},
    {"413", "over a limit, which the message names", NULL, NULL, NULL},
    {"415", "a Content-Type or Content-Encoding that is not read here", NULL, NULL, NULL},
    {"422", "a row that cannot be sampled: NaN, +infinity, or every token masked", NULL, NULL, NULL},
    {"500", "a bug", NULL, NULL, NULL},
    {"503", "full or draining", "Retry-After", "integer", "seconds until it is worth asking again"},
    {"504", "the deadline of the request passed", NULL, NULL, NULL},
};

/* error: the schema of its body */
static cJSON *refusal(size_t i, const char *error)
{
    cJSON *answer = response(refusals[i].meaning, "application/json", schema_reference("schemas", error));
    if (refusals[i].header != NULL)
        add_header(answer, refusals[i].header, refusals[i].header_type, refusals[i].header_meaning);
    return answer;
}

/* A 200 as JSON of this schema, or as bytes. */
static cJSON *tokens(const char *schema, const char *bytes)
{
    cJSON *ok = response("the tokens", "application/json", schema_reference("schemas", schema));
    cJSON *binary = cJSON_AddObjectToObject(cJSON_GetObjectItem(ok, "content"), "application/octet-stream");
    cJSON_AddItemToObject(binary, "schema", binary_schema(bytes));
    return ok;
}

static cJSON *sample_responses(void)
{
    cJSON *responses = cJSON_CreateObject();
    cJSON *ok = tokens("Answer", "int32 token ids [B, n], little-endian");
    add_header(ok, "X-Samplerd-Seed", "string",
               "of an answer of token ids alone: the seed used, unless each row was sent one of its own");
    cJSON_AddItemToObject(responses, "200", ok);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        cJSON_AddItemToObject(responses, refusals[i].code, refusal(i, "Error"));
    return responses;
}

/* Every refusal of /sample but 406: the request itself says which outputs are bytes. */
static cJSON *infer_responses(void)
{
    cJSON *responses = cJSON_CreateObject();
    cJSON *ok = tokens("InferAnswer", "JSON, and behind it the outputs that were asked for as bytes");
    add_header(ok, LENGTH_HEADER, "integer", "of an answer with bytes: the length of its JSON");
    cJSON_AddItemToObject(responses, "200", ok);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strcmp(refusals[i].code, "406") != 0)
            cJSON_AddItemToObject(responses, refusals[i].code, refusal(i, "InferError"));
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

/* A form of request body; the schema is handed over. */
static cJSON *add_form(cJSON *content, const char *media_type, cJSON *schema)
{
    cJSON *form = cJSON_AddObjectToObject(content, media_type);
    cJSON_AddItemToObject(form, "schema", schema);
    return form;
}

static cJSON *sample_body(void)
{
    cJSON *body = cJSON_CreateObject(), *content;
    cJSON_AddTrueToObject(body, "required");
    content = cJSON_AddObjectToObject(body, "content");
    add_examples(add_form(content, "application/json", schema_reference("schemas", "SampleRequest")));
    add_form(content, "application/octet-stream",
             binary_schema("the logits alone, little-endian, row-major; the rest is in the query"));
    add_form(content, "application/x-npy", binary_schema("a file of numpy.save; the rest is in the query"));
    add_form(content, "application/x-safetensors",
             binary_schema("named tensors; single values may be in the metadata"));
    return body;
}

static cJSON *infer_body(void)
{
    static const char example[] =
        "{\"inputs\":[{\"name\":\"logits\",\"datatype\":\"FP32\",\"shape\":[2,4],\"data\":[10,8,6,3,1,2,0,5]}"
        ","
        "{\"name\":\"temperature\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[0.8,0]}],"
        "\"parameters\":{\"top_k\":2,\"seed\":7}}";
    cJSON *body = cJSON_CreateObject(), *content, *json;
    cJSON_AddTrueToObject(body, "required");
    content = cJSON_AddObjectToObject(body, "content");
    json = add_form(content, "application/json", schema_reference("schemas", "InferRequest"));
    cJSON_AddItemToObject(json, "example", cJSON_Parse(example));
    add_form(content, "application/octet-stream",
             binary_schema("the JSON, and behind it the bytes of the inputs without data, in their order"));
    return body;
}

static void add_sample(cJSON *paths)
{
    cJSON *post = cJSON_AddObjectToObject(cJSON_AddObjectToObject(paths, "/sample"), "post");
    schema_add_text(post, "operationId", "sample");
    schema_add_text(post, "summary", "Draw token ids from a batch of logits");
    cJSON_AddItemToObject(post, "parameters", sample_fields());
    cJSON_AddItemToObject(post, "requestBody", sample_body());
    cJSON_AddItemToObject(post, "responses", sample_responses());
}

static void add_infer(cJSON *paths, const char *path, const char *id)
{
    cJSON *post = cJSON_AddObjectToObject(cJSON_AddObjectToObject(paths, path), "post");
    schema_add_text(post, "operationId", id);
    schema_add_text(post, "summary", "The same as KServe v2 has it: parameters by the names of /sample");
    cJSON_AddItemToObject(post, "parameters", infer_fields());
    cJSON_AddItemToObject(post, "requestBody", infer_body());
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
    cJSON_AddItemToObject(responses, "200", response("as it says", pages[i].media_type, page_schema(i)));
    if (!pages[i].open)
        cJSON_AddItemToObject(responses, "401", refusal(1, error));
    if (pages[i].absent != NULL)
        cJSON_AddItemToObject(
            responses, "404",
            response(pages[i].absent, "application/json", schema_reference("schemas", error)));
    if (pages[i].unready != NULL) {
        bool text = strcmp(pages[i].media_type, "text/plain") == 0;
        cJSON *schema = text ? schema_type("string") : schema_reference("schemas", error);
        cJSON_AddItemToObject(responses, "503", response(pages[i].unready, pages[i].media_type, schema));
    }
    return responses;
}

static void add_page(cJSON *paths, size_t i)
{
    cJSON *get = cJSON_AddObjectToObject(cJSON_AddObjectToObject(paths, pages[i].path), "get");
    schema_add_text(get, "operationId", pages[i].id);
    schema_add_text(get, "summary", pages[i].summary);
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
    add_components(document);
    char *text = cJSON_Print(document);
    cJSON_Delete(document);
    return text;
}
