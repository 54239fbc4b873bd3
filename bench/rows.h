#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include <stddef.h>

/* What a batch is made of. */
enum rows_kind {
    ROWS_CAPITAL, /* a real model's logits, of one position each; bfloat16 files widened */
    ROWS_JSON,
    ROWS_NUMBERS,
    ROWS_SHELL,
    ROWS_REAL,      /* the four in turn */
    ROWS_FLAT,      /* all equal: everything ties */
    ROWS_NEAR_FLAT, /* deviation 0.01: nothing ties, and nothing is unlikely */
    ROWS_ONE_HOT,   /* 20 in the middle, 0 elsewhere */
    ROWS_KINDS
};

const char *rows_name(enum rows_kind kind);

/*
 * batch_size rows of vocab_size tokens, each in memory of its own; the caller frees them.
 *
 * A real row is cut to the vocabulary; where that is larger than its file, it goes on with the next file, up
 * to 4 * 262,144 tokens.  Reads tests/data; ends the program when that is not there.
 */
float *rows_make(enum rows_kind kind, size_t batch_size, size_t vocab_size);

/* Read rows once, as fast as this CPU can: the yardstick.  Returns a mix of all bits, to be used. */
unsigned rows_read(const float *z, size_t n);

#endif
