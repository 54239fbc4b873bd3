#include "core/row/select.h"
#include "core/rules/rule_row.h"

#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(top_p), KIND_REAL, 0, 1, false, 1, "1",
     "keep the likeliest tokens while their sum stays <= top_p; 0 and 1 keep all"},
};

static bool keeps_crossing(const struct sample_request *request)
{
    return request->top_p_crossing == TOP_P_CROSSING_ENGINE ? rule_engine(request)->top_p_keep
                                                            : request->top_p_crossing == TOP_P_CROSSING_KEEP;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    double top_p = rule_number(request, SLOT_top_p, row);
    return top_p < 1 && (top_p > 0 || rule_engine(request)->top_p_zero == ZERO_KEEPS_ONE);
}

static void apply(struct rule_row *r)
{
    struct nucleus nucleus = {rule_row_number(r, SLOT_top_p), r->top_p_total, keeps_crossing(r->request)};
    if (nucleus.top_p > 0)
        select_top_p(&r->support, &nucleus, rule_row_scale(r), r->kernels, r->scratch);
    else
        rule_row_keep_above(r, INFINITY);
}

const struct rule rule_top_p = {
    .name = "top_p",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Holtzman et al., The curious case of neural text degeneration, ICLR 2020, arXiv:1904.09751; "
              "the crossing token goes, unlike there",
    .is_on = is_on,
    .apply = apply,
};
