#ifndef PROTO_KSERVE_HEADER_H
#define PROTO_KSERVE_HEADER_H

#include "proto/kserve/kserve_answer.h"
#include "proto/params/query.h"
#include "proto/tensors/lender.h"
#include "proto/tensors/tensors.h"

/* The JSON of an infer request (kserve.h), taken apart. */

struct kserve_input {
    struct tensor tensor;        /* data is set if it was FP32 in JSON, and NULL otherwise: */
    const char *json, *json_end; /* then its values are this list or, if that is NULL, */
    size_t bytes;                /* so many bytes, behind the header */
    const char *region;          /* or, unless that is NULL, in a region of shared memory, */
    size_t offset;               /* from here on */
    bool has_name, has_type, has_shape, has_bytes, has_parameters; /* read so far */
};

struct kserve_asked {
    const char *name; /* of an output, which is known */
    bool says;        /* whether it is to be binary, */
    bool binary;
    struct kserve_place place; /* where it goes, unless region is NULL */
    bool has_parameters;       /* read so far */
};

struct kserve_header {
    struct kserve_input inputs[PARAMS_MAX];
    size_t num_inputs;
    struct kserve_asked asked[KSERVE_OUTPUTS];
    size_t num_asked;
    struct query_field fields[PARAMS_MAX + 1]; /* parameters of one value, as a query has them, and id */
    size_t num_fields;
    bool binary_output; /* unless an output says otherwise */
};

/*
 * Read [text, end), behind which NUMBERS_PADDING bytes may be looked at.  Each input is complete, and its
 * values in JSON as many as its shape says.
 *
 *   texts   [room] lends names and values to *out
 *   lender  lends FP32 data, at most once
 *
 * Errors: as kserve_decode().
 */
enum status kserve_header_read(const char *text, const char *end, char *texts, size_t room,
                               struct lender *lender, struct kserve_header *out, struct error *err);

#endif
