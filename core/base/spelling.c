#include "core/base/spelling.h"

static char fold(char c)
{
    return c == '-' ? '_' : (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t spelling_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[SPELLING_NAME_BYTES + 1]; /* distances of a's first i characters from each prefix of b */
    a_length = smaller(a_length, SPELLING_NAME_BYTES);
    b_length = smaller(b_length, SPELLING_NAME_BYTES);
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (fold(a[i - 1]) != fold(b[j - 1]));
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}
