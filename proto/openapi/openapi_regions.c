#include "proto/openapi/openapi_regions.h"

#include "proto/openapi/operation.h"
#include "proto/openapi/schema.h"

#include <string.h>

#define REGIONS "/v2/systemsharedmemory"
#define REGION  REGIONS "/region/{name}"

/* ---- paths ---- */

static const struct {
    const char *path, *method, *id, *summary;
    const char *body;    /* its schema, or NULL */
    const char *answer;  /* its schema; NULL: an empty object */
    const char *invalid; /* what a 400 means, or NULL */
} operations[] = {
    {REGIONS "/status", "get", "kserve_regions", "The regions of shared memory", NULL, "Regions", NULL},
    {REGION "/status", "get", "kserve_region", "One region, in a list", NULL, "Regions",
     "there is no such region"},
    {REGION "/register", "post", "kserve_register", "Make part of an object in /dev/shm a region",
     "RegisterRequest", NULL, "malformed, no such part, or there is a region of that name"},
    {REGION "/unregister", "post", "kserve_unregister", "Forget a region; it need not be there", NULL, NULL,
     NULL},
    {REGIONS "/unregister", "post", "kserve_unregister_all", "Forget all regions", NULL, NULL, NULL},
};

static cJSON *parameters(void)
{
    cJSON *list = cJSON_CreateArray(), *name = schema_type("string");
    schema_add_text(name, "pattern", "^[^/\\u0000]+$");
    cJSON_AddItemToArray(list, operation_parameter("name", "path", "of the region", name));
    return list;
}

static cJSON *empty_object(void)
{
    cJSON *schema = schema_type("object");
    cJSON_AddObjectToObject(schema, "properties");
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

static cJSON *responses_of(size_t i)
{
    static const char error[] = "InferError";
    cJSON *responses = cJSON_CreateObject(), *ok;
    if (operations[i].answer == NULL)
        ok = operation_response("done", "application/json", empty_object());
    else
        ok = operation_response("as it says", "application/json",
                                schema_reference("schemas", operations[i].answer));
    cJSON_AddItemToObject(responses, "200", ok);
    if (operations[i].invalid != NULL)
        operation_add_error(responses, "400", operations[i].invalid, error);
    operation_add_refusals(responses, "401", error);
    operation_add_error(responses, "404", "system_shared_memory is off", error);
    if (strcmp(operations[i].method, "post") == 0)
        operation_add_refusals(responses, "408 413 415 503", error);
    return responses;
}

static void add_path(cJSON *paths, size_t i)
{
    cJSON *operation = operation_add(paths, operations[i].path, operations[i].method, operations[i].id,
                                     operations[i].summary);
    if (strstr(operations[i].path, "{name}") != NULL)
        cJSON_AddItemToObject(operation, "parameters", parameters());
    if (operations[i].body != NULL)
        operation_add_form(operation_add_body(operation), "application/json",
                           schema_reference("schemas", operations[i].body));
    cJSON_AddItemToObject(operation, "responses", responses_of(i));
}

void openapi_regions_add_paths(cJSON *paths)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        add_path(paths, i);
}

/* ---- schemas ---- */

/* {"key":"/name","offset":0,"byte_size":64} */
static cJSON *place_schema(const char *const *required, int num_required)
{
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *key = schema_type("string");
    schema_add_text(key, "pattern", "^/?[^/\\u0000]+$");
    cJSON_AddItemToObject(fields, "key", key);
    cJSON_AddItemToObject(fields, "offset", schema_whole(0));
    cJSON_AddItemToObject(fields, "byte_size", schema_whole(1));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(required, num_required));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

void openapi_regions_add_schemas(cJSON *schemas)
{
    static const char *const asked[] = {"key", "byte_size"};
    static const char *const told[] = {"name", "key", "offset", "byte_size"};
    cJSON *region = place_schema(told, 4), *regions = schema_type("array");
    cJSON_AddItemToObject(cJSON_GetObjectItem(region, "properties"), "name", schema_type("string"));
    cJSON_AddItemToObject(regions, "items", region);
    cJSON_AddItemToObject(schemas, "RegisterRequest", place_schema(asked, 2));
    cJSON_AddItemToObject(schemas, "Regions", regions);
}
