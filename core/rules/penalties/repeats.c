#include "core/rules/penalties/repeats.h"

void repeats_measure(struct id_list text, uint32_t *lengths)
{
    /* backwards, id j is last[-j]; lengths[n - j] counts the ids from j on that equal those from 0 on */
    size_t n = text.n, left = 0, right = 0;
    const int32_t *last = text.ids + n - 1;
    if (n == 0)
        return;
    lengths[0] = 0;
    for (size_t j = 1; j < n; j++) {
        size_t length = 0; /* known: those that the match [left, right) covers */
        if (j < right) {
            size_t known = lengths[n - (j - left)];
            length = known < right - j ? known : right - j;
        }
        while (j + length < n && last[-(ptrdiff_t)(j + length)] == last[-(ptrdiff_t)length])
            length++;
        if (j + length > right) {
            left = j;
            right = j + length;
        }
        lengths[n - j] = (uint32_t)length;
    }
}
