#include "core/rules/rule_row.h"

static const struct rule_param params[] = {
    {RULE_PARAM(min_p), KIND_REAL, 0, 1, false, 0, "0", "keep p >= min_p times the largest p; 0 keeps all"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_min_p, row) > 0;
}

static void apply(struct rule_row *r)
{
    rule_row_keep_weight(r, rule_row_number(r, SLOT_min_p));
}

const struct rule rule_min_p = {
    .name = "min_p",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Nguyen et al., Turning up the heat: min-p sampling, 2024, arXiv:2407.01082",
    .is_on = is_on,
    .apply = apply,
};
