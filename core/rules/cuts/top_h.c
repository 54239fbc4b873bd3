#include "core/kernels/exact_math.h"
#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(top_h), KIND_REAL, 0, 1, false, NAN, "none",
     "of the 100 likeliest, renormalised: keep those whose running entropy stays <= top_h times all of it"},
};

#define LOOKED_AT 100 /* tokens */

/* -p ln p */
static double surprise(double p)
{
    return p > DBL_MIN ? -p * exact_log(p) : 0.0;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_sent(request, SLOT_top_h) && !isnan(rule_number(request, SLOT_top_h, row));
}

static void apply(struct rule_row *r)
{
    int32_t *ranked;
    double p[LOOKED_AT], total = 0.0, whole = 0.0, running = 0.0;
    size_t n = rule_row_likeliest(r, LOOKED_AT, &ranked), kept = 0;
    for (size_t i = 0; i < n; i++)
        total += p[i] = exact_exp((r->support.z[ranked[i]] - (double)r->support.max) / r->temperature);
    for (size_t i = 0; i < n; i++)
        whole += surprise(p[i] / total);
    double most = rule_row_number(r, SLOT_top_h) * whole;
    while (kept < n && (running += surprise(p[kept] / total)) <= most)
        kept++;
    rule_row_keep_positions(r, ranked, kept > 0 ? kept : 1);
}

const struct rule rule_top_h = {
    .name = "top_h",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Potraghloo et al., Top-H decoding, 2025, arXiv:2509.02510",
    .is_on = is_on,
    .apply = apply,
};
