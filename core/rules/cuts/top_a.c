#include "core/rules/rule_row.h"

#include <float.h>

static const struct rule_param params[] = {
    {RULE_PARAM(top_a), KIND_REAL, 0, DBL_MAX, false, 0, "0",
     "keep p >= top_a times the square of the largest p; 0 keeps all"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_top_a, row) > 0;
}

static void apply(struct rule_row *r)
{
    double largest = 1.0 / rule_row_total(r); /* its weight is 1 */
    rule_row_keep_weight(r, rule_row_number(r, SLOT_top_a) * largest);
}

const struct rule rule_top_a = {
    .name = "top_a",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "BlinkDL, RWKV-LM: top-a, 2022",
    .is_on = is_on,
    .apply = apply,
};
