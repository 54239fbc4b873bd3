#include "core/rules/rule_row.h"

static const struct rule_param params[] = {
    {RULE_PARAM(p_less), KIND_SWITCH, 0, 1, false, 0, "false",
     "keep p >= the sum of p^2, the chance that two draws agree"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_p_less, row) > 0;
}

static void apply(struct rule_row *r)
{
    struct rule_moments m = rule_row_moments(r);
    rule_row_keep_weight(r, m.sum_of_squares * m.total);
}

const struct rule rule_p_less = {
    .name = "p_less",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Tan et al., p-less sampling, 2025, arXiv:2509.23234",
    .is_on = is_on,
    .apply = apply,
};
