#include "proto/kserve/kserve_meta.h"

#include "proto/kserve/kserve_answer.h"
#include "proto/kserve/kserve_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct described {
    const char *name, *type; /* "FP32" */
    const char *dims;
};

static const char *type_of(const struct param *param)
{
    switch (param->type) {
    case PARAM_WORD:
        return kserve_type_name(TENSOR_U64);
    case PARAM_FLAG:
    case PARAM_SWITCH:
        return kserve_type_name(TENSOR_BOOL);
    case PARAM_COUNT:
    case PARAM_IDS:
        return kserve_type_name(TENSOR_I32);
    case PARAM_PAIR:
        return kserve_type_name(TENSOR_F64);
    default:
        return kserve_type_name(param->whole ? TENSOR_I32 : TENSOR_F32);
    }
}

static const char *dims_of(const struct param *param)
{
    switch (param->type) {
    case PARAM_LOGITS:
    case PARAM_ARRAY:
    case PARAM_IDS:
    case PARAM_ID_LISTS:
    case PARAM_BIAS_IDS:
    case PARAM_BIAS_VALUES:
    case PARAM_BITMASK:
        return "[-1,-1]";
    case PARAM_PAIR:
        return "[-1,2]";
    case PARAM_SEQUENCES:
        return "[-1,-1,-1]";
    default:
        return params_takes_list(param) ? "[-1]" : "[1]";
    }
}

static bool is_input(const struct param *param)
{
    return (param->forms & PARAM_IN_TENSORS) != 0 && param->type != PARAM_CHOICE &&
           param->type != PARAM_TEXT && param->type != PARAM_ORDER;
}

/* Write the inputs, or the outputs, each as `entry` does. */
static void put_inputs(FILE *out, void (*entry)(FILE *out, const struct described *d, bool optional))
{
    const char *comma = "";
    for (const struct param *param = params_table; param < params_table + params_count; param++) {
        if (!is_input(param))
            continue;
        fputs(comma, out);
        entry(out, &(struct described){param->name, type_of(param), dims_of(param)},
              param->type != PARAM_LOGITS);
        comma = ",";
    }
}

static void put_outputs(FILE *out, void (*entry)(FILE *out, const struct described *d, bool optional))
{
    for (enum kserve_output o = KSERVE_TOKEN_IDS; o < KSERVE_OUTPUTS; o++) {
        fputs(o == KSERVE_TOKEN_IDS ? "" : ",", out);
        entry(out,
              &(struct described){kserve_output_name(o), kserve_output_type(o),
                                  o == KSERVE_SEED || o == KSERVE_MIROSTAT_MU ? "[-1]"
                                  : o == KSERVE_ADAPTIVE_STATE                ? "[-1,2]"
                                                                              : "[-1,-1]"},
              false);
    }
}

static void put_metadata(FILE *out, const struct described *d, bool optional)
{
    (void)optional;
    fprintf(out, "{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":%s}", d->name, d->type, d->dims);
}

static void put_config_input(FILE *out, const struct described *d, bool optional)
{
    fprintf(out,
            "{\"name\":\"%s\",\"data_type\":\"TYPE_%s\",\"format\":\"FORMAT_NONE\",\"dims\":%s,"
            "\"is_shape_tensor\":false,\"allow_ragged_batch\":false,\"optional\":%s}",
            d->name, d->type, d->dims, optional ? "true" : "false");
}

static void put_config_output(FILE *out, const struct described *d, bool optional)
{
    (void)optional;
    fprintf(out,
            "{\"name\":\"%s\",\"data_type\":\"TYPE_%s\",\"dims\":%s,\"label_filename\":\"\","
            "\"is_shape_tensor\":false}",
            d->name, d->type, d->dims);
}

#define SERVER                                                                                               \
    "{\"name\":\"samplerd\",\"version\":\"" SAMPLERD_VERSION                                                 \
    "\",\"extensions\":[\"binary_tensor_data\",\"model_configuration\",\"parameters\""

static void put_server(FILE *out)
{
    fputs(SERVER "]}", out);
}

static void put_sharing_server(FILE *out)
{
    fputs(SERVER ",\"system_shared_memory\"]}", out);
}

static void put_model(FILE *out)
{
    fputs("{\"name\":\"" KSERVE_MODEL "\",\"versions\":[\"" KSERVE_VERSION
          "\"],\"platform\":\"samplerd\",\"inputs\":[",
          out);
    put_inputs(out, put_metadata);
    fputs("],\"outputs\":[", out);
    put_outputs(out, put_metadata);
    fputs("]}", out);
}

/* max_batch_size 0: the shapes have the batch already. */
static void put_config(FILE *out)
{
    fputs("{\"name\":\"" KSERVE_MODEL "\",\"platform\":\"samplerd\",\"backend\":\"samplerd\","
          "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":0,\"input\":[",
          out);
    put_inputs(out, put_config_input);
    fputs("],\"output\":[", out);
    put_outputs(out, put_config_output);
    fputs("],\"instance_group\":[],\"default_model_filename\":\"\",\"parameters\":{}}", out);
}

static char *document(void (*put)(FILE *out))
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    put(out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

char *kserve_meta_server(bool system_shared_memory)
{
    return document(system_shared_memory ? put_sharing_server : put_server);
}

char *kserve_meta_model(void)
{
    return document(put_model);
}

char *kserve_meta_config(void)
{
    return document(put_config);
}
