#include "proto/tensors/lender.h"

#include <stdint.h>
#include <string.h>

const void *lender_align(struct lender *lender, const void *data, size_t bytes, size_t alignment,
                         struct error *err)
{
    if (((uintptr_t)data & (alignment - 1)) == 0)
        return data;
    void *copy = lender->lend(lender, bytes, err);
    if (copy != NULL)
        memcpy(copy, data, bytes);
    return copy;
}
