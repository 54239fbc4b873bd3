#ifndef PROTO_QUERY_H
#define PROTO_QUERY_H

#include "proto/params/params.h"

/*
 * Parameters as text, one field each, for bodies that are logits and nothing else; a list is comma-separated
 * values, with spaces around them or none.  Flags are true or false in any case, or 1 or 0.
 */

/* One field of a query, percent-decoded. */
struct query_field {
    const char *key;
    const char *value; /* NULL without '=' */
};

/* Whether there is nothing in it, as between the two of "a=1&&b=2". */
bool query_is_empty(const struct query_field *field);

/* Arena bytes that these fields may need. */
size_t query_arena_bytes(const struct query_field *fields, size_t count);

/*
 * Set the parameter that a field names, or all of them in order but empty ones.
 * Errors: STATUS_INVALID (params.h).  What the request keeps is copied into the arena of p.
 */
enum status query_set(struct params *p, const struct query_field *field, struct error *err);
enum status query_read(struct params *p, const struct query_field *fields, size_t count, struct error *err);

#endif
