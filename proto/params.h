#ifndef PROTO_PARAMS_H
#define PROTO_PARAMS_H

#include "core/arena.h"
#include "core/request.h"
#include "proto/numbers.h"

#include <stdio.h>

/*
 * The parameters of a request: one table says each one's name, type, range, default and meaning, and every
 * decoder, error text and document comes from it.
 */

enum param_type {
    PARAM_REAL,    /* a finite number, or one a row */
    PARAM_WORD,    /* a whole number below 2^64, or one a row */
    PARAM_COUNT,   /* a whole number */
    PARAM_FLAG,    /* true or false */
    PARAM_CHOICE,  /* one of a few words */
    PARAM_TEXT,    /* a string */
    PARAM_WEIGHTS, /* a list of finite numbers */
    PARAM_LOGITS,  /* nested lists of numbers and nulls, or bytes of any dtype */
    PARAM_ARRAY,   /* nested lists of numbers and nulls */
    PARAM_IDS      /* nested lists of token ids */
};

/* Where a parameter can be sent: in a JSON object, beside a raw or an npy body, among named tensors. */
enum param_form { PARAM_IN_JSON = 1, PARAM_IN_RAW = 2, PARAM_IN_NPY = 4, PARAM_IN_TENSORS = 8 };

struct param {
    const char *name;
    enum param_type type;
    unsigned forms;           /* enum param_form bits */
    bool per_row;             /* a list of batch_size values is taken as well */
    bool whole;               /* of a PARAM_REAL: no fraction */
    double min, max;          /* of a number; of a text's length in bytes */
    const char *initial;      /* its default, as the documents say it */
    const char *const *words; /* of a PARAM_CHOICE: NULL-terminated, the default first */
    const char *help;
    size_t offset; /* of its field in struct params */
};

#define PARAMS_MAX ((size_t)16) /* entries of the table, at most */

extern const struct param params_table[];
extern const size_t params_count; /* <= PARAMS_MAX */

extern const char *const params_dtypes[]; /* names of enum dtype, in its order; NULL-terminated */

/* Largest text of one JSON parameter other than logits and bias: cJSON takes 64 bytes a number. */
#define PARAMS_MAX_TEXT_BYTES ((size_t)1 << 20)

/* Values that the columns of one request can have at most, a number taking two bytes of text. */
#define PARAMS_MAX_VALUES (PARAMS_MAX * PARAMS_MAX_TEXT_BYTES / 2)

/* A request while it is decoded. */
struct params {
    struct sample_request request;
    uint32_t vocab_size;  /* of a raw body */
    struct arena *arena;  /* lends what request points at */
    enum param_form form; /* of the request that is decoded */
    bool seen[PARAMS_MAX];
    size_t lengths[PARAMS_MAX]; /* of a list; 0 for one value */
    struct shape logits_shape, bias_shape, ids_shape;
};

void params_init(struct params *p, struct arena *arena, enum param_form form);

/*
 * The parameter of this name, noted as seen.
 * Errors: STATUS_INVALID unknown_parameter, with the nearest name; duplicate_parameter.
 */
enum status params_begin(struct params *p, const char *name, size_t length, const struct param **out,
                         struct error *err);

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

/* Memory of the request for count values of a parameter; NULL with err set (too_large) when there is none. */
void *params_keep(struct params *p, const struct param *param, size_t count, size_t size, struct error *err);

/* Whether one number is finite and in range, and whole where it must be.  row as below. */
enum status params_check_number(const struct param *param, double value, size_t row, struct error *err);

/*
 * A word from its decimal digits.  Errors: STATUS_INVALID out_of_range; row is the place in a list or
 * ERROR_NO_ROW.
 */
enum status params_read_word(const struct param *param, const char *digits, size_t length, size_t row,
                             uint64_t *out, struct error *err);

/* The same of one id, at [row][i] of a list, or at [i] where row is ERROR_NO_ROW; false when it is no id. */
bool params_is_id(double value);
enum status params_refuse_id(const struct param *param, const char *code, const char *what, size_t row,
                             size_t i, struct error *err);

/* Whether it may be a list: of a value a row, of weights, of numbers or of ids. */
bool params_takes_list(const struct param *param);

/* "<name> <verdict>; it must be <what the parameter takes>": out_of_range.  row as above. */
enum status params_out_of_range(const struct param *param, const char *verdict, size_t row,
                                struct error *err);

/* "<name> is <what>; it must be <what the parameter takes>": wrong_type.  row as above. */
enum status params_wrong_type(const struct param *param, const char *what, size_t row, struct error *err);

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

/* What a parameter takes, in words: "from 0 to 1". */
void params_range(const struct param *param, char *text, size_t size);

/* The table as Markdown: name, what it takes, default, meaning. */
void params_print(FILE *out);

#endif
