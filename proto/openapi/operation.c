#include "proto/openapi/operation.h"

#include "proto/openapi/schema.h"

#include <string.h>

cJSON *operation_add(cJSON *paths, const char *path, const char *method, const char *id, const char *summary)
{
    cJSON *operation = cJSON_AddObjectToObject(cJSON_AddObjectToObject(paths, path), method);
    schema_add_text(operation, "operationId", id);
    schema_add_text(operation, "summary", summary);
    return operation;
}

cJSON *operation_parameter(const char *name, const char *place, const char *description, cJSON *schema)
{
    cJSON *parameter = cJSON_CreateObject();
    schema_add_text(parameter, "name", name);
    schema_add_text(parameter, "in", place);
    schema_add_text(parameter, "description", description);
    if (strcmp(place, "path") == 0)
        cJSON_AddTrueToObject(parameter, "required");
    cJSON_AddItemToObject(parameter, "schema", schema);
    return parameter;
}

cJSON *operation_add_body(cJSON *operation)
{
    cJSON *body = cJSON_AddObjectToObject(operation, "requestBody");
    cJSON_AddTrueToObject(body, "required");
    return cJSON_AddObjectToObject(body, "content");
}

cJSON *operation_add_form(cJSON *content, const char *media_type, cJSON *schema)
{
    cJSON *form = cJSON_AddObjectToObject(content, media_type);
    cJSON_AddItemToObject(form, "schema", schema);
    return form;
}

cJSON *operation_response(const char *description, const char *media_type, cJSON *schema)
{
    cJSON *response = cJSON_CreateObject();
    schema_add_text(response, "description", description);
    operation_add_form(cJSON_AddObjectToObject(response, "content"), media_type, schema);
    return response;
}

void operation_add_header(cJSON *response, const char *name, const char *type, const char *description)
{
    cJSON *headers = cJSON_GetObjectItem(response, "headers");
    if (headers == NULL)
        headers = cJSON_AddObjectToObject(response, "headers");
    cJSON *header = cJSON_AddObjectToObject(headers, name);
    schema_add_text(header, "description", description);
    cJSON_AddItemToObject(header, "schema", schema_type(type));
}

/* ---- refusals ---- */

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

static cJSON *error_response(const char *meaning, const char *error)
{
    return operation_response(meaning, "application/json", schema_reference("schemas", error));
}

void operation_add_error(cJSON *responses, const char *code, const char *meaning, const char *error)
{
    cJSON_AddItemToObject(responses, code, error_response(meaning, error));
}

void operation_add_refusals(cJSON *responses, const char *codes, const char *error)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (strstr(codes, refusals[i].code) == NULL)
            continue;
        cJSON *response = error_response(refusals[i].meaning, error);
        if (refusals[i].header != NULL)
            operation_add_header(response, refusals[i].header, refusals[i].header_type,
                                 refusals[i].header_meaning);
        cJSON_AddItemToObject(responses, refusals[i].code, response);
    }
}
