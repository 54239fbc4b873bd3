#ifndef PROTO_PARAMS_TABLE_H
#define PROTO_PARAMS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
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
    PARAM_IDS,     /* nested lists of token ids */

    /* values of rules (core/rules/values.h), one for all rows or one a row */
    PARAM_SWITCH,      /* true or false */
    PARAM_PAIR,        /* two numbers */
    PARAM_ID_LISTS,    /* a list of token ids */
    PARAM_BIASES,      /* numbers by token id, null masks */
    PARAM_SEQUENCES,   /* a list of token ids and of lists of them */
    PARAM_BITMASK,     /* packed words, a bit a token */
    PARAM_BIAS_IDS,    /* of named tensors: the token ids of biases, */
    PARAM_BIAS_VALUES, /* and the biases */
    PARAM_ORDER        /* names of rules, one list for the request */
};

/* Where a parameter can be sent: in a JSON object, beside a raw or an npy body, among named tensors. */
enum param_form { PARAM_IN_JSON = 1, PARAM_IN_RAW = 2, PARAM_IN_NPY = 4, PARAM_IN_TENSORS = 8 };

#define PARAM_IN_ANY (PARAM_IN_JSON | PARAM_IN_RAW | PARAM_IN_NPY | PARAM_IN_TENSORS)

struct param {
    const char *name;
    enum param_type type;
    unsigned forms;           /* enum param_form bits */
    bool per_row;             /* a list of batch_size values is taken as well */
    bool whole;               /* of a PARAM_REAL: no fraction */
    bool above_min;           /* min itself is out of range */
    double min, max;          /* of a number; of a text's length in bytes */
    const char *initial;      /* its default, as the documents say it */
    const char *const *words; /* of a PARAM_CHOICE: NULL-terminated, the default first */
    const char *help;
    size_t offset; /* of its field in struct params */
};

#define PARAMS_MAX ((size_t)96) /* entries of the table, at most */

/* Complete before main(): the parameters of rules are those that the rules declare (core/rules/rule.h). */
extern struct param params_table[PARAMS_MAX];
extern size_t params_count;

extern const char *const params_dtypes[]; /* names of enum dtype, in its order; NULL-terminated */

/* The parameter of one of these forms by its name; NULL for none. */
const struct param *params_find(unsigned forms, const char *name, size_t length);

/* The one whose name is nearest to this, at most so many edits away; NULL for none. */
const struct param *params_nearest(unsigned forms, const char *name, size_t length, size_t most);

/* Ours for a name that other engines have for it; NULL for any other name. */
const char *params_alias(const char *name, size_t length);

/* Whether it is a value of a rule. */
bool params_is_of_rule(const struct param *param);

/* Whether it need not be sent. */
bool params_is_optional(const struct param *param);

/* Whether it may be a list: of a value a row, of weights, of numbers or of ids. */
bool params_takes_list(const struct param *param);

/* What a parameter takes, in words: "from 0 to 1". */
void params_range(const struct param *param, char *text, size_t size);

/* The table as Markdown: name, what it takes, default, meaning. */
void params_print(FILE *out);

/* The rules as Markdown, in the reference's order: name, parameters, engines that have it, source. */
void params_print_rules(FILE *out);

#endif
