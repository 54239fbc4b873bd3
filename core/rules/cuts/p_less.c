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
    struct kernels_moments sums = r->kernels->squares(r->support.z, r->support.n, rule_row_scale(r));
    rule_row_keep_weight(r, sums.ww / sums.w); /* of sum p^2 = sum w^2 / (sum w)^2 */
}

const struct rule rule_p_less = {
    .name = "p_less",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Tan et al., p-less sampling, 2025, arXiv:2509.23234",
    .is_on = is_on,
    .apply = apply,
};
