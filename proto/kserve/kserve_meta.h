#ifndef PROTO_KSERVE_META_H
#define PROTO_KSERVE_META_H

#include <stdbool.h>

/*
 * What KServe v2 asks of a server beside inference: documents in JSON, NUL-terminated, that the caller frees;
 * NULL when memory is short.  Inputs come from the parameter table; all but logits can be left out.
 *
 * The datatypes are those to send when in doubt: tensors.h takes others too.
 */

/* GET /v2: name, version, extensions. */
char *kserve_meta_server(bool system_shared_memory);

/* GET /v2/models/sampler: inputs and outputs, each with datatype and shape, -1 where any length will do. */
char *kserve_meta_model(void);

/* GET /v2/models/sampler/config: the same as Triton configures a model. */
char *kserve_meta_config(void);

#endif
