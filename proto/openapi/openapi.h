#ifndef PROTO_OPENAPI_H
#define PROTO_OPENAPI_H

/*
 * The OpenAPI 3.1 document of the service, its parameters from the parameter table; proto/openapi.json is a
 * copy, which a test holds to it.  Malloc'd text that the caller frees; NULL when memory is short.
 */
char *openapi_document(void);

#endif
