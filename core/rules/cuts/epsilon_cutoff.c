#include "core/rules/rule_row.h"

static const struct rule_param params[] = {
    {RULE_PARAM(epsilon_cutoff), KIND_REAL, 0, 1, false, 0, "0", "keep p >= epsilon_cutoff; 0 keeps all"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_epsilon_cutoff, row) > 0;
}

static void apply(struct rule_row *r)
{
    rule_row_keep_weight(r, rule_row_number(r, SLOT_epsilon_cutoff) * rule_row_total(r));
}

const struct rule rule_epsilon_cutoff = {
    .name = "epsilon_cutoff",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source =
        "Hewitt, Manning, Liang, Truncation sampling as language model desmoothing, 2022, arXiv:2210.15191",
    .is_on = is_on,
    .apply = apply,
};
