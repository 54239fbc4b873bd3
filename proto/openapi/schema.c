#include "proto/openapi/schema.h"

#include "core/rules/rule.h"
#include "proto/kserve/kserve_answer.h"
#include "proto/kserve/kserve_values.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

cJSON *schema_add_text(cJSON *object, const char *name, const char *text)
{
    return cJSON_AddStringToObject(object, name, text);
}

cJSON *schema_reference(const char *kind, const char *name)
{
    char path[96];
    cJSON *object = cJSON_CreateObject();
    snprintf(path, sizeof path, "#/components/%s/%s", kind, name);
    schema_add_text(object, "$ref", path);
    return object;
}

cJSON *schema_type(const char *type)
{
    cJSON *schema = cJSON_CreateObject();
    schema_add_text(schema, "type", type);
    return schema;
}

cJSON *schema_list_of(cJSON *items)
{
    cJSON *schema = schema_type("array");
    cJSON_AddItemToObject(schema, "items", items);
    cJSON_AddNumberToObject(schema, "minItems", 1);
    return schema;
}

cJSON *schema_whole(double least)
{
    cJSON *schema = schema_type("integer");
    cJSON_AddNumberToObject(schema, "minimum", least);
    return schema;
}

/* {"anyOf":[a, b]} */
static cJSON *either(cJSON *a, cJSON *b)
{
    cJSON *schema = cJSON_CreateObject(), *choices = cJSON_AddArrayToObject(schema, "anyOf");
    cJSON_AddItemToArray(choices, a);
    cJSON_AddItemToArray(choices, b);
    return schema;
}

/* ---- parameters ---- */

static cJSON *number_schema(const struct param *param)
{
    cJSON *schema = schema_type(param->whole ? "integer" : "number");
    if (fabs(param->min) < DBL_MAX)
        cJSON_AddNumberToObject(schema, param->above_min ? "exclusiveMinimum" : "minimum", param->min);
    if (fabs(param->max) < DBL_MAX)
        cJSON_AddNumberToObject(schema, "maximum", param->max);
    return schema;
}

/* A number as far as JSON readers are exact, or decimal digits; a pattern cannot say 2^64 - 1 shorter. */
static cJSON *word_schema(void)
{
    cJSON *number = schema_whole(0), *digits = schema_type("string");
    cJSON_AddItemToObject(number, "maximum", cJSON_CreateRaw("9007199254740992"));
    schema_add_text(digits, "pattern", "^(0|[1-9][0-9]{0,18}|1[0-8][0-9]{18})$");
    return either(number, digits);
}

static cJSON *choice_schema(const char *const *words)
{
    cJSON *schema = schema_type("string"), *list = cJSON_AddArrayToObject(schema, "enum");
    for (; *words != NULL; words++)
        cJSON_AddItemToArray(list, cJSON_CreateString(*words));
    return schema;
}

/* `item` in `depth` lists, one within the other. */
static cJSON *lists_of(cJSON *item, int depth)
{
    for (int i = 0; i < depth; i++)
        item = schema_list_of(item);
    return item;
}

static cJSON *number_or_null(void)
{
    static const char *const types[] = {"number", "null"};
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToObject(item, "type", cJSON_CreateStringArray(types, 2));
    return item;
}

/* [V] or [B][V] numbers and nulls. */
static cJSON *array_schema(void)
{
    return either(schema_list_of(number_or_null()), lists_of(number_or_null(), 2));
}

/* A row of logits: one at least is no null.  In a stack of `mix` whose weight is 0 all may be. */
static cJSON *logits_row(void)
{
    cJSON *row = schema_list_of(number_or_null());
    cJSON_AddItemToObject(row, "contains", schema_type("number"));
    return row;
}

static cJSON *ids_row(const struct param *param)
{
    cJSON *row = schema_list_of(number_schema(param));
    cJSON_AddTrueToObject(row, "uniqueItems");
    return row;
}

/* {"b64":"...","dtype":"bf16","shape":[B,V]} */
static cJSON *packed_schema(void)
{
    static const char *const names[] = {"b64", "dtype", "shape"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *bytes = schema_type("string"), *shape = schema_list_of(schema_whole(1));
    cJSON_AddNumberToObject(shape, "maxItems", 3);
    schema_add_text(bytes, "contentEncoding", "base64");
    schema_add_text(bytes, "pattern", "^[A-Za-z0-9+/]+={0,2}$");
    cJSON_AddItemToObject(fields, "b64", bytes);
    cJSON_AddItemToObject(fields, "dtype", choice_schema(params_dtypes));
    cJSON_AddItemToObject(fields, "shape", shape);
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 3));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

static cJSON *logits_schema(void)
{
    cJSON *schema = either(logits_row(), schema_list_of(logits_row()));
    cJSON *choices = cJSON_GetObjectItem(schema, "anyOf");
    cJSON_AddItemToArray(choices, lists_of(number_or_null(), 3));
    cJSON_AddItemToArray(choices, packed_schema());
    return schema;
}

/* ---- values of rules, for one row ---- */

/* Maybe empty. */
static cJSON *list_of_any(cJSON *items)
{
    cJSON *schema = schema_type("array");
    cJSON_AddItemToObject(schema, "items", items);
    return schema;
}

static cJSON *id_schema(void)
{
    cJSON *schema = schema_whole(0);
    cJSON_AddNumberToObject(schema, "maximum", INT32_MAX);
    return schema;
}

static cJSON *pair_schema(const struct param *param)
{
    cJSON *schema = list_of_any(number_schema(param));
    cJSON_AddNumberToObject(schema, "minItems", 2);
    cJSON_AddNumberToObject(schema, "maxItems", 2);
    return schema;
}

static cJSON *biases_schema(void)
{
    cJSON *schema = schema_type("object"), *names = cJSON_AddObjectToObject(schema, "propertyNames");
    schema_add_text(names, "pattern", "^[0-9]+$");
    cJSON_AddItemToObject(schema, "additionalProperties", number_or_null());
    return schema;
}

/* [-1,7], or {"b64":"...","dtype":"i32","shape":[B,W]} */
static cJSON *bitmask_schema(void)
{
    static const char *const types[] = {"i32", "u32", NULL};
    cJSON *word = schema_type("integer"), *packed = packed_schema();
    cJSON_AddNumberToObject(word, "minimum", INT32_MIN);
    cJSON_AddNumberToObject(word, "maximum", UINT32_MAX);
    cJSON *fields = cJSON_GetObjectItem(packed, "properties");
    cJSON_ReplaceItemInObject(fields, "dtype", choice_schema(types));
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(fields, "shape"), "maxItems", cJSON_CreateNumber(2));
    return either(packed, schema_list_of(word));
}

/* Names of rules that a chain can have. */
static cJSON *order_schema(void)
{
    cJSON *name = schema_type("string"), *list = cJSON_AddArrayToObject(name, "enum");
    for (size_t i = 0; i < NUM_RULES; i++)
        if (rules[i]->place != PLACE_MASK && rules[i]->place != PLACE_NOWHERE)
            cJSON_AddItemToArray(list, cJSON_CreateString(rules[i]->name));
    return list_of_any(name);
}

cJSON *schema_value(const struct param *param)
{
    switch (param->type) {
    case PARAM_WORD:
        return word_schema();
    case PARAM_FLAG:
        return schema_type("boolean");
    case PARAM_CHOICE:
        return choice_schema(param->words);
    case PARAM_TEXT: {
        cJSON *schema = schema_type("string");
        cJSON_AddNumberToObject(schema, "maxLength", param->max);
        schema_add_text(schema, "pattern", "^[^\\u0000]*$");
        return schema;
    }
    case PARAM_WEIGHTS:
        return schema_list_of(number_schema(param));
    case PARAM_LOGITS:
        return logits_schema();
    case PARAM_ARRAY:
        return array_schema();
    case PARAM_IDS:
        return either(ids_row(param), schema_list_of(ids_row(param)));
    case PARAM_SWITCH:
        return schema_type("boolean");
    case PARAM_PAIR:
        return pair_schema(param);
    case PARAM_ID_LISTS:
        return list_of_any(id_schema());
    case PARAM_BIASES:
        return biases_schema();
    case PARAM_SEQUENCES:
        return list_of_any(either(schema_list_of(id_schema()), id_schema()));
    case PARAM_BITMASK:
        return bitmask_schema();
    case PARAM_ORDER:
        return order_schema();
    default:
        return number_schema(param);
    }
}

/* The schema, or null. */
static cJSON *nullable(cJSON *schema)
{
    cJSON *choices = cJSON_GetObjectItem(schema, "anyOf"), *type = cJSON_GetObjectItem(schema, "type");
    if (choices != NULL) {
        cJSON_AddItemToArray(choices, schema_type("null"));
        return schema;
    }
    const char *const types[] = {cJSON_GetStringValue(type), "null"};
    if (types[0] != NULL)
        cJSON_ReplaceItemInObject(schema, "type", cJSON_CreateStringArray(types, 2));
    return schema;
}

/* The schema of a parameter in JSON: one value, one a row or in a list, null for one that need not be sent.
 */
static cJSON *param_schema(const struct param *param)
{
    cJSON *schema = schema_value(param);
    if (param->per_row || !params_takes_list(param)) { /* or a value for each row, or a list of the one */
        cJSON *list = schema_list_of(schema_value(param));
        if (!param->per_row)
            cJSON_AddNumberToObject(list, "maxItems", 1);
        schema = either(schema, list);
    }
    if (params_is_optional(param))
        schema = nullable(schema);
    schema_add_text(schema, "description", param->help);
    return schema;
}

cJSON *schema_request(void)
{
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *required = cJSON_AddArrayToObject(schema, "required");
    for (const struct param *param = params_table; param < params_table + params_count; param++) {
        if (!(param->forms & PARAM_IN_JSON))
            continue;
        cJSON_AddItemToObject(fields, param->name, param_schema(param));
        if (strcmp(param->initial, "required") == 0)
            cJSON_AddItemToArray(required, cJSON_CreateString(param->name));
    }
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

/* ---- answers ---- */

static cJSON *plain_rows(const char *type)
{
    cJSON *row = schema_type("array"), *rows = schema_type("array");
    cJSON_AddItemToObject(row, "items", schema_type(type));
    cJSON_AddItemToObject(rows, "items", row);
    return rows;
}

cJSON *schema_answer(void)
{
    static const char *const required[] = {"token_ids", "seed"};
    static const char *const reals[] = {"logprobs", "top_probs", "top_logprobs"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON_AddItemToObject(fields, "id", schema_type("string"));
    cJSON_AddItemToObject(fields, "token_ids", plain_rows("integer"));
    cJSON_AddItemToObject(fields, "seed", either(word_schema(), schema_list_of(word_schema())));
    cJSON_AddItemToObject(fields, "top_token_ids", plain_rows("integer"));
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        cJSON_AddItemToObject(fields, reals[i], plain_rows("number"));
    cJSON_AddItemToObject(fields, "mirostat_mu", list_of_any(schema_type("number")));
    cJSON_AddItemToObject(fields, "adaptive_state", plain_rows("number"));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(required, 2));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

cJSON *schema_error(void)
{
    static const char *const names[] = {"message", "type", "param", "code", "row"};
    static const char *const nullable[] = {"string", "null"}, *const row[] = {"integer", "null"};
    cJSON *schema = schema_type("object"), *outer = cJSON_AddObjectToObject(schema, "properties");
    cJSON *error = schema_type("object"), *fields = cJSON_AddObjectToObject(error, "properties");
    for (size_t i = 0; i < 5; i++) {
        cJSON *field = schema_type("string");
        if (i == 2)
            cJSON_ReplaceItemInObject(field, "type", cJSON_CreateStringArray(nullable, 2));
        if (i == 4)
            cJSON_ReplaceItemInObject(field, "type", cJSON_CreateStringArray(row, 2));
        cJSON_AddItemToObject(fields, names[i], field);
    }
    cJSON_AddItemToObject(error, "required", cJSON_CreateStringArray(names, 5));
    cJSON_AddFalseToObject(error, "additionalProperties");
    cJSON_AddItemToObject(outer, "error", error);
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray((const char *const[]){"error"}, 1));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

/* ---- KServe v2 ---- */

/* The names of inputs: parameters that are numbers. */
static cJSON *input_names(void)
{
    cJSON *schema = schema_type("string"), *list = cJSON_AddArrayToObject(schema, "enum");
    for (const struct param *param = params_table; param < params_table + params_count; param++)
        if ((param->forms & PARAM_IN_TENSORS) && param->type != PARAM_TEXT && param->type != PARAM_CHOICE &&
            param->type != PARAM_ORDER)
            cJSON_AddItemToArray(list, cJSON_CreateString(param->name));
    return schema;
}

static cJSON *output_names(void)
{
    cJSON *schema = schema_type("string"), *list = cJSON_AddArrayToObject(schema, "enum");
    for (int i = 0; i < KSERVE_OUTPUTS; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(kserve_output_name((enum kserve_output)i)));
    return schema;
}

static cJSON *datatypes(void)
{
    cJSON *schema = schema_type("string"), *list = cJSON_AddArrayToObject(schema, "enum");
    for (int i = 0; i < TENSOR_TYPES; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(kserve_type_name((enum tensor_type)i)));
    return schema;
}

/* Where the bytes of a tensor are or go: behind the JSON, which is what `binary` says, or in a region. */
static cJSON *place_schema(const char *binary, cJSON *value)
{
    static const char *const names[] = {"shared_memory_byte_size"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *needed = cJSON_AddObjectToObject(schema, "dependentRequired");
    cJSON_AddItemToObject(fields, binary, value);
    cJSON_AddItemToObject(fields, "shared_memory_region", schema_type("string"));
    cJSON_AddItemToObject(fields, "shared_memory_offset", schema_whole(0));
    cJSON_AddItemToObject(fields, names[0], schema_whole(1));
    cJSON_AddItemToObject(needed, "shared_memory_region", cJSON_CreateStringArray(names, 1));
    return schema;
}

static cJSON *having(const char *name)
{
    cJSON *schema = cJSON_CreateObject();
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(&name, 1));
    return schema;
}

/*
 * {"name":"logits","datatype":"FP32","shape":[2,8],"data":[...]}; without data, parameters say where it is.
 * choice: "oneOf" the two, or "anyOf" for an input, which can have parameters that say nothing of it.
 */
static cJSON *tensor_schema(cJSON *name, const char *choice)
{
    static const char *const names[] = {"name", "datatype", "shape"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON *choices = cJSON_AddArrayToObject(schema, choice);
    cJSON_AddItemToObject(fields, "name", name);
    cJSON_AddItemToObject(fields, "datatype", datatypes());
    cJSON_AddItemToObject(fields, "shape", schema_list_of(schema_whole(1)));
    cJSON_AddItemToObject(fields, "parameters", place_schema("binary_data_size", schema_whole(1)));
    cJSON_AddItemToObject(fields, "data", schema_type("array"));
    cJSON_AddItemToArray(choices, having("data"));
    cJSON_AddItemToArray(choices, having("parameters"));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 3));
    return schema;
}

/* An output that is asked for. */
static cJSON *output_schema(void)
{
    static const char *const names[] = {"name"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON_AddItemToObject(fields, "name", output_names());
    cJSON_AddItemToObject(fields, "parameters", place_schema("binary_data", schema_type("boolean")));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 1));
    return schema;
}

cJSON *schema_infer_request(void)
{
    static const char *const names[] = {"inputs"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON_AddItemToObject(fields, "id", schema_type("string"));
    cJSON_AddItemToObject(fields, "parameters", schema_type("object"));
    cJSON_AddItemToObject(fields, "inputs", schema_list_of(tensor_schema(input_names(), "anyOf")));
    cJSON_AddItemToObject(fields, "outputs", schema_list_of(output_schema()));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 1));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}

cJSON *schema_infer_answer(void)
{
    static const char *const names[] = {"model_name", "outputs"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON_AddItemToObject(fields, "model_name", schema_type("string"));
    cJSON_AddItemToObject(fields, "model_version", schema_type("string"));
    cJSON_AddItemToObject(fields, "id", schema_type("string"));
    cJSON_AddItemToObject(fields, "outputs", schema_list_of(tensor_schema(output_names(), "oneOf")));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 2));
    return schema;
}

cJSON *schema_infer_error(void)
{
    static const char *const names[] = {"error"};
    cJSON *schema = schema_type("object"), *fields = cJSON_AddObjectToObject(schema, "properties");
    cJSON_AddItemToObject(fields, "error", schema_type("string"));
    cJSON_AddItemToObject(schema, "required", cJSON_CreateStringArray(names, 1));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    return schema;
}
