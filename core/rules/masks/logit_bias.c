#include "core/rules/rule_row.h"

#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(logit_bias), KIND_BIASES, 0, INT32_MAX, false, NAN, "none",
     "{id: number}, or one for each row: added to the logits; null masks"},
};

static double clamp(double bias, double limit)
{
    return fmin(fmax(bias, -limit), limit);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_ids(request, SLOT_logit_bias, row).n > 0;
}

static void apply(struct rule_row *r)
{
    struct id_list list = rule_row_ids(r, SLOT_logit_bias);
    double limit = rule_engine(r->request)->bias_limit;
    rule_row_settle(r);
    struct rule_tokens tokens = rule_row_open(r);
    for (size_t i = 0; i < list.n; i++) {
        ptrdiff_t at = rule_tokens_find(&tokens, list.ids[i]);
        double bias = list.biases[i];
        if (at >= 0)
            rule_tokens_set(&tokens, (size_t)at,
                            bias == -INFINITY ? bias : tokens.z[at] + clamp(bias, limit));
    }
    rule_row_refresh(r);
}

const struct rule rule_logit_bias = {
    .name = "logit_bias",
    .place = PLACE_MASK,
    RULE_PARAMS(params),
    .source = "OpenAI, API reference, 2021",
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
};
