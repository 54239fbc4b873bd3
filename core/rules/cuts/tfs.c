#include "core/rules/rule_row.h"

#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(tfs), KIND_REAL, 0, 1, false, 1, "1",
     "keep the likeliest tokens until the running sum of the second differences of sorted p, made to sum to "
     "1, exceeds tfs; 1 keeps all"},
};

static float *weights_of(struct rule_row *r, const int32_t *positions, size_t n)
{
    float *z = rule_row_lend(r, n, sizeof *z), *w = rule_row_lend(r, n, sizeof *w);
    for (size_t i = 0; i < n; i++)
        z[i] = r->support.z[positions[i]];
    r->kernels->weights(z, n, rule_row_scale(r), w);
    return w;
}

/* The size of the second difference. */
static double bend(const float *w, size_t i)
{
    return fabs((double)w[i] - 2.0 * w[i + 1] + w[i + 2]);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_tfs, row) < 1;
}

static void apply(struct rule_row *r)
{
    int32_t *ranked;
    size_t n = rule_row_likeliest(r, r->support.n, &ranked);
    if (n < 3)
        return;
    float *w = weights_of(r, ranked, n);
    double total = 0.0, sum = 0.0, most;
    for (size_t i = 0; i + 2 < n; i++)
        total += bend(w, i);
    most = rule_row_number(r, SLOT_tfs) * total;
    for (size_t i = 0; i + 2 < n && total > 0; i++) {
        sum += bend(w, i);
        if (sum > most) {
            rule_row_keep_positions(r, ranked, i + 1);
            return;
        }
    }
}

const struct rule rule_tfs = {
    .name = "tfs",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Phénix, Egan, Tail free sampling, 2019",
    .is_on = is_on,
    .apply = apply,
};
