#ifndef PROTO_SCHEMA_H
#define PROTO_SCHEMA_H

#include "proto/params/params.h"

#include <cjson/cJSON.h>

/*
 * JSON Schemas (2020-12, as OpenAPI 3.1 has them) of requests, answers and errors; those of requests from the
 * parameter table.  What is returned is the caller's; NULL, or a gap in it, when memory is short.
 */

cJSON *schema_type(const char *type);
/* At least one of these; items is taken over. */
cJSON *schema_list_of(cJSON *items);
/* A whole number. */
cJSON *schema_whole(double least);
/* {"$ref":"#/components/<kind>/<name>"} */
cJSON *schema_reference(const char *kind, const char *name);
cJSON *schema_add_text(cJSON *object, const char *name, const char *text);

/* One value of a parameter. */
cJSON *schema_value(const struct param *param);

/* Of POST /sample. */
cJSON *schema_request(void);
cJSON *schema_answer(void);
cJSON *schema_error(void);

/* Of infer requests: inputs are tensors with or without data, outputs of an answer as well. */
cJSON *schema_infer_request(void);
cJSON *schema_infer_answer(void);
cJSON *schema_infer_error(void);

#endif
