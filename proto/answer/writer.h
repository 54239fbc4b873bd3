#ifndef PROTO_WRITER_H
#define PROTO_WRITER_H

#include "proto/numbers/number_write.h"

#include <stdint.h>

/*
 * Text of answers, written piece behind piece; the caller has counted that all of it fits, and no NUL is
 * written.
 */
struct writer {
    char *p; /* where the next piece goes */
};

/* Longest texts, each with the comma after it. */
#define WRITER_ID_BYTES   (sizeof "-2147483648,")
#define WRITER_REAL_BYTES (NUMBER_MAX_BYTES + 1)
#define WRITER_WORD_BYTES (sizeof "\"18446744073709551615\",")

void writer_put(struct writer *w, const char *text);
void writer_word(struct writer *w, uint64_t word);

/* A JSON string of length bytes of text; what is not UTF-8 becomes U+FFFD: at most 6 * length + 2 bytes. */
void writer_string(struct writer *w, const char *text, size_t length);

/* n values with commas between them: ids of 0 or more; reals of 9 significant digits (number_write.h). */
void writer_ids(struct writer *w, const int32_t *ids, size_t n);
void writer_reals(struct writer *w, const double *reals, size_t n);

#endif
