#include "core/rowcheck.h"

#include <math.h>

enum status rowcheck_values(const float *z, size_t vocab_size, size_t row, struct error *err)
{
    for (size_t i = 0; i < vocab_size; i++) {
        if (!(z[i] < INFINITY)) {
            const char *what = isnan(z[i]) ? "NaN" : "+infinity";
            error_set(err, STATUS_UNSAMPLABLE, "invalid_logits",
                      "row %zu of logits is %s at token %zu; logits must be finite, or -infinity for a "
                      "masked token",
                      row, what, i);
            return error_at(err, "logits", row);
        }
    }
    return STATUS_OK;
}

void rowcheck_explain(const float *z, size_t vocab_size, size_t row, struct error *err)
{
    if (rowcheck_values(z, vocab_size, row, err) != STATUS_OK)
        return;
    error_set(err, STATUS_UNSAMPLABLE, "invalid_logits",
              "row %zu of logits masks every token; at least one of its %zu logits must be finite", row,
              vocab_size);
    error_at(err, "logits", row);
}
