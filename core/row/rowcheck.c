#include "core/row/rowcheck.h"

#include <math.h>

enum status rowcheck_values(const char *param, const float *z, size_t vocab_size, size_t row,
                            struct error *err)
{
    for (size_t i = 0; i < vocab_size; i++) {
        if (!(z[i] < INFINITY)) {
            const char *what = isnan(z[i]) ? "NaN" : "+infinity";
            error_set(err, STATUS_UNSAMPLABLE, "invalid_logits",
                      "row %zu of %s is %s at token %zu; %s must be finite, or -infinity for a masked token",
                      row, param, what, i, param);
            return error_at(err, param, row);
        }
    }
    return STATUS_OK;
}

void rowcheck_explain(const float *z, size_t vocab_size, size_t row, struct error *err)
{
    if (rowcheck_values("logits", z, vocab_size, row, err) != STATUS_OK)
        return;
    error_set(err, STATUS_UNSAMPLABLE, "invalid_logits",
              "row %zu of logits masks every token; at least one of its %zu logits must be finite", row,
              vocab_size);
    error_at(err, "logits", row);
}
