#ifndef CORE_RULE_H
#define CORE_RULE_H

#include "core/request.h"
#include "core/rules/list.h"

/* What a parameter of a rule takes. */
enum rule_kind {
    KIND_REAL,      /* a number: rule_value.number */
    KIND_WHOLE,     /* a number without fraction */
    KIND_SWITCH,    /* true or false, as 1 or 0 */
    KIND_PAIR,      /* two numbers, side by side */
    KIND_IDS,       /* a list of token ids: rule_value.ids */
    KIND_BIASES,    /* the same, each with a number */
    KIND_SEQUENCES, /* a list of lists of token ids: rule_value.sequences */
    KIND_BITMASK    /* a bit a token: rule_value.bitmask */
};

/* A parameter, as it is sent and as documents tell it. */
struct rule_param {
    const char *name;
    enum rule_slot slot;
    enum rule_kind kind;
    double min, max;     /* of numbers */
    bool above_min;      /* min itself is out of range */
    double off;          /* of numbers: the value when none was sent; NAN for none */
    const char *initial; /* what documents call that */
    const char *help;
};

/* Where a rule may stand. */
enum rule_place {
    PLACE_MASK,   /* before all others, in the order of the list */
    PLACE_LOGITS, /* anywhere in the order; greedy rows obey it */
    PLACE_CHAIN,  /* anywhere in the order */
    PLACE_END,    /* last: it draws, or it watches the draw */
    PLACE_NOWHERE /* no rule of its own: parameters that several share */
};

struct rule_row;

struct rule {
    const char *name;
    enum rule_place place;
    const struct rule_param *params; /* [num_params] */
    size_t num_params;
    const char *source; /* paper or program */
    bool sets_tokens;   /* by their ids, so that a row is copied before */

    /* Whether the values of this row ask for it. */
    bool (*is_on)(const struct sample_request *request, size_t row);

    /* Borrow what stays until the row is done, before any rule runs; NULL for nothing. */
    void (*prepare)(struct rule_row *row);

    /* Change what is left (rule_row.h); NULL where the rule only changes the draw. */
    void (*apply)(struct rule_row *row);

    /* The most that apply borrows beyond a few rows, for a row of n tokens; NULL for nothing. */
    size_t (*scratch_bytes)(const struct sample_request *request);
};

extern const struct rule *const rules[NUM_RULES]; /* by enum rule_id */

/* Of a rule's definition. */
#define RULE_PARAMS(array) .params = (array), .num_params = sizeof(array) / sizeof((array)[0])
#define RULE_PARAM(name)   #name, SLOT_##name

/* A rule_value of one number for all rows. */
#define RULE_NUMBER(pointer)                                                                                 \
    {                                                                                                        \
        .sent = true, .number = {.values = (pointer) }                                                       \
    }

/* By name; NULL for none. */
const struct rule *rule_find(const char *name, size_t length);

/* The parameter of a slot. */
const struct rule_param *rule_param_of(enum rule_slot slot);

/* ---- the values of one row ---- */

/* Whether a value was sent, for any row. */
static inline bool rule_sent(const struct sample_request *request, enum rule_slot slot)
{
    return request->rule_values[slot].sent;
}

/* A number: what was sent, else the engine's default, else `off`. */
double rule_number(const struct sample_request *request, enum rule_slot slot, size_t row);

/* A list; empty when none was sent. */
struct id_list rule_ids(const struct sample_request *request, enum rule_slot slot, size_t row);

/* Sequences side by side in lists, from `first` on; none when none was sent. */
struct sequence_range {
    const struct id_lists *lists;
    size_t first, n;
};
struct sequence_range rule_sequences(const struct sample_request *request, enum rule_slot slot, size_t row);

/* The engine whose conventions hold. */
static inline const struct engine_column *rule_engine(const struct sample_request *request)
{
    return &engine_columns[request->engine];
}

#endif
