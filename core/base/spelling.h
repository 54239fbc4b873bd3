#ifndef CORE_SPELLING_H
#define CORE_SPELLING_H

#include <stddef.h>

/*
 * How far a misspelt name is from a known one: the fewest insertions, deletions and replacements of
 * characters.
 *
 * Upper and lower case, and '-' and '_', count as the same.  Names are cut to SPELLING_NAME_BYTES.
 * Source: Wagner and Fischer, "The string-to-string correction problem", JACM 1974.
 */
#define SPELLING_NAME_BYTES ((size_t)64)
size_t spelling_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
