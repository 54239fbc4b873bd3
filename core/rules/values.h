#ifndef CORE_VALUES_H
#define CORE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a parameter of a rule can hold.  Each is one value for every row of the request, or one value a row.
 */

/* A number; or two of them, which a row then has side by side. */
struct column {
    const double *values; /* [per_row ? batch_size : 1] */
    bool per_row;
};

/* Lists of token ids, one behind the other. */
struct id_lists {
    const int32_t *ids;
    const uint32_t *starts; /* [lists + 1] list i is ids[starts[i]] .. ids[starts[i + 1] - 1] */
    const float *biases;    /* beside each id, where it is a logit_bias; -INFINITY masks; else NULL */
    bool per_row;           /* a list for each row; else one for all */
};

/* Lists of sequences of token ids. */
struct id_sequences {
    struct id_lists lists;      /* every sequence of every row; its per_row says nothing */
    const uint32_t *row_starts; /* [rows + 1] row r has the lists row_starts[r] .. row_starts[r + 1] - 1 */
    bool per_row;
};

/* A bit a token, least significant first: 1 allows it. */
struct bitmask {
    const uint32_t *words; /* [per_row ? batch_size : 1, words_per_row] */
    size_t words_per_row;  /* ceil(vocab_size / 32) */
    bool per_row;
};

/* The kind of the parameter says which of these it is (rule.h). */
struct rule_value {
    bool sent; /* else it is off, or the engine's default */
    union {
        struct column number;
        struct id_lists ids;
        struct id_sequences sequences;
        struct bitmask bitmask;
    };
};

static inline double column_at(const struct column *c, size_t row)
{
    return c->values[c->per_row ? row : 0];
}

/* One list. */
struct id_list {
    const int32_t *ids;  /* [n] */
    const float *biases; /* [n] or NULL */
    size_t n;
};

static inline struct id_list id_lists_nth(const struct id_lists *lists, size_t i)
{
    size_t first = lists->starts[i];
    const float *biases = lists->biases == NULL ? NULL : lists->biases + first;
    return (struct id_list){lists->ids + first, biases, lists->starts[i + 1] - first};
}

#endif
