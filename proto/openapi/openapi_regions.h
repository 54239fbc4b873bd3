#ifndef PROTO_OPENAPI_REGIONS_H
#define PROTO_OPENAPI_REGIONS_H

#include <cjson/cJSON.h>

/*
 * The part of the OpenAPI document about system shared memory, an extension of KServe v2: what is below
 * /v2/systemsharedmemory, and the schemas of that.
 */
void openapi_regions_add_paths(cJSON *paths);
void openapi_regions_add_schemas(cJSON *schemas);

#endif
