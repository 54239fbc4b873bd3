#ifndef PROTO_PARAMS_H
#define PROTO_PARAMS_H

#include "core/base/arena.h"
#include "core/request.h"
#include "proto/numbers/numbers.h"
#include "proto/params/params_check.h"

/* The parameters of a request (params_table.h) while it is decoded, whatever it is decoded from. */

/* Largest text of one JSON parameter other than logits and bias: cJSON takes 64 bytes a number. */
#define PARAMS_MAX_TEXT_BYTES ((size_t)1 << 20)

/* Values that the columns of one request can have at most: 16 of the longest texts, a number taking two
 * bytes.
 */
#define PARAMS_MAX_VALUES (16 * PARAMS_MAX_TEXT_BYTES / 2)

/* A request while it is decoded. */
struct params {
    struct sample_request request;
    uint32_t vocab_size;  /* of a raw body */
    uint32_t rows;        /* that it must have; 0: any number */
    struct arena *arena;  /* lends what request points at */
    enum param_form form; /* of the request that is decoded */
    bool seen[PARAMS_MAX];
    size_t lengths[PARAMS_MAX]; /* of a list; 0 for one value */
    struct shape logits_shape, bias_shape, ids_shape;
    uint8_t order[NUM_RULES]; /* enum rule_id */
};

void params_init(struct params *p, struct arena *arena, enum param_form form);

/*
 * The parameter of this name, noted as seen.
 * Errors: STATUS_INVALID unknown_parameter, with the nearest name; duplicate_parameter.
 */
enum status params_begin(struct params *p, const char *name, size_t length, const struct param **out,
                         struct error *err);

/* Take a parameter back that params_begin noted: it was named, with no value, and is as if it had not been.
 */
void params_omit(struct params *p, const struct param *param);

/*
 * Set a parameter.  A list has count values, of which the request keeps a copy; one value is no list.
 * Errors: STATUS_INVALID wrong_type, when the parameter is of another type or takes no list; out_of_range.
 */
enum status params_set_numbers(struct params *p, const struct param *param, const double *values,
                               size_t count, bool is_list, struct error *err);
enum status params_set_words(struct params *p, const struct param *param, const uint64_t *values,
                             size_t count, bool is_list, struct error *err);
enum status params_set_flag(struct params *p, const struct param *param, bool value, struct error *err);
/* A PARAM_CHOICE or PARAM_TEXT. */
enum status params_set_text(struct params *p, const struct param *param, const char *text, struct error *err);
/* A PARAM_LOGITS, or PARAM_ARRAY of DTYPE_F32.  values stay where they are: a view. */
enum status params_set_array(struct params *p, const struct param *param, const void *values,
                             enum dtype dtype, const struct shape *shape, struct error *err);

/* A PARAM_IDS: values stay where they are, and are 0 or more. */
enum status params_set_ids(struct params *p, const struct param *param, const int32_t *values,
                           const struct shape *shape, struct error *err);

/*
 * A PARAM_SWITCH: 0 and 1; and a PARAM_PAIR: two numbers for each of the rows, or for all (rows 0).  Errors
 * as above.
 */
enum status params_set_switches(struct params *p, const struct param *param, const double *values,
                                size_t count, bool is_list, struct error *err);
enum status params_set_pairs(struct params *p, const struct param *param, const double *values, size_t rows,
                             struct error *err);

/* Lists of a rule: value is complete, and what it points at stays where it is; rows is 0 for one for all. */
void params_set_lists(struct params *p, const struct param *param, const struct rule_value *value,
                      size_t rows);

/*
 * A PARAM_ORDER: one name after the other, from an empty list.
 * Errors: STATUS_INVALID out_of_range, where there is no such rule in a chain, with the nearest.
 */
enum status params_add_to_order(struct params *p, const struct param *param, const char *name, size_t length,
                                struct error *err);

/* Memory of the request for count values of a parameter; NULL with err set (too_large) when there is none. */
void *params_keep(struct params *p, const struct param *param, size_t count, size_t size, struct error *err);

/*
 * Defaults for what was not sent, then all that only the whole request can tell: shapes, lengths of lists.
 *
 *   fresh_seed  used when no seed was sent
 *   out         complete on success
 */
enum status params_finish(struct params *p, uint64_t fresh_seed, struct sample_request *out,
                          struct error *err);

/* Values in the list that was set for this parameter; 0 for one value or none. */
size_t params_length(const struct params *p, const char *name);

#endif
