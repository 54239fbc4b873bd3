#include "core/row/select.h"
#include "core/rules/rule_row.h"

#include <float.h>

static const struct rule_param params[] = {
    {RULE_PARAM(top_k), KIND_WHOLE, -DBL_MAX, DBL_MAX, false, 0, "0",
     "keep the logits >= the k-th largest, ties included; 0 and below keep all"},
};

static bool keeps_lower_id(const struct sample_request *request)
{
    return request->top_k_ties == TOP_K_TIES_ENGINE ? rule_engine(request)->top_k_lower_id
                                                    : request->top_k_ties == TOP_K_TIES_LOWER_ID;
}

/* Whether top_p, still to come, is a share of what is left before this rule. */
static bool needs_total(const struct rule_row *r)
{
    return rule_engine(r->request)->top_p_of_all && rule_row_number(r, SLOT_top_p) < 1;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_top_k, row) > 0;
}

static void apply(struct rule_row *r)
{
    if (needs_total(r))
        r->top_p_total = rule_row_total(r);
    double k = rule_row_number(r, SLOT_top_k);
    if (k < (double)r->support.n)
        select_top_k(&r->support, (size_t)k, keeps_lower_id(r->request), r->kernels, r->scratch);
}

const struct rule rule_top_k = {
    .name = "top_k",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Fan, Lewis, Dauphin, Hierarchical neural story generation, ACL 2018, arXiv:1805.04833",
    .is_on = is_on,
    .apply = apply,
};
