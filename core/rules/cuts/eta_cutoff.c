#include "core/kernels/exact_math.h"
#include "core/rules/rule_row.h"

#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(eta_cutoff), KIND_REAL, 0, 1, false, 0, "0",
     "keep p >= min(e, sqrt(e) exp(-entropy)), e = eta_cutoff; 0 keeps all"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_eta_cutoff, row) > 0;
}

static void apply(struct rule_row *r)
{
    double eta = rule_row_number(r, SLOT_eta_cutoff);
    struct rule_moments m = rule_row_moments(r);
    rule_row_keep_weight(r, fmin(eta, sqrt(eta) * exact_exp(-m.entropy)) * m.total);
}

const struct rule rule_eta_cutoff = {
    .name = "eta_cutoff",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source =
        "Hewitt, Manning, Liang, Truncation sampling as language model desmoothing, 2022, arXiv:2210.15191",
    .is_on = is_on,
    .apply = apply,
};
