#ifndef PROTO_OPERATION_H
#define PROTO_OPERATION_H

#include <cjson/cJSON.h>

/*
 * Parts of an operation, as OpenAPI 3.1 has them: what it takes and what it answers.  Schemas that are handed
 * in are taken over; what is returned is the caller's, or part of the first argument where the name has "add"
 * in it.  NULL, or a gap in it, when memory is short.
 */

/* The one operation of a path, by a method: "post". */
cJSON *operation_add(cJSON *paths, const char *path, const char *method, const char *id, const char *summary);

/* What it takes beside a body; place is "query", "header" or "path". */
cJSON *operation_parameter(const char *name, const char *place, const char *description, cJSON *schema);

/* A required body without any form of content yet; returns that content. */
cJSON *operation_add_body(cJSON *operation);

/* A form of content. */
cJSON *operation_add_form(cJSON *content, const char *media_type, cJSON *schema);

/* A response with one form of content. */
cJSON *operation_response(const char *description, const char *media_type, cJSON *schema);
void operation_add_header(cJSON *response, const char *name, const char *type, const char *description);

/*
 * Refusals, whose bodies are of the schema with the name `error`: one with a meaning of its own, or those of
 * `codes`, "400 401", which mean the same everywhere.
 */
void operation_add_error(cJSON *responses, const char *code, const char *meaning, const char *error);
void operation_add_refusals(cJSON *responses, const char *codes, const char *error);

#endif
