#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(smoothing_factor), KIND_REAL, 0, DBL_MAX, false, 0, "0",
     "bend the logits: z = max - f (3 - c) / 2 d^2 + f (c - 1) / 2 d^3 with d = z - max, f = "
     "smoothing_factor; 0 leaves them"},
    {RULE_PARAM(smoothing_curve), KIND_REAL, -DBL_MAX, DBL_MAX, false, 1, "1", "c of that formula"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_smoothing_factor, row) > 0;
}

static void apply(struct rule_row *r)
{
    rule_row_settle(r);
    double f = rule_row_number(r, SLOT_smoothing_factor), c = rule_row_number(r, SLOT_smoothing_curve);
    double max = r->support.max, square = f * (3 - c) / 2, cube = f * (c - 1) / 2;
    float *z = rule_row_rewrite(r);
    for (size_t i = 0; i < r->support.n; i++) {
        double d = z[i] - max;
        z[i] = z[i] > -INFINITY ? rule_row_float(rule_row_unmasked(max - square * d * d + cube * d * d * d))
                                : -INFINITY;
    }
    rule_row_rewritten(r);
}

const struct rule rule_smoothing = {
    .name = "smoothing",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "kalomaze, Quadratic sampling and its curve, 2024",
    .is_on = is_on,
    .apply = apply,
};
