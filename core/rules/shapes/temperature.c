#include "core/kernels/exact_math.h"
#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(temperature), KIND_REAL, -DBL_MAX, DBL_MAX, false, 0, "0",
     "divides the logits; 0 and below are greedy"},
    {RULE_PARAM(dynatemp_range), KIND_REAL, 0, DBL_MAX, false, 0, "0",
     "let the temperature follow the entropy, by so much below and above"},
    {RULE_PARAM(dynatemp_exponent), KIND_REAL, 0, DBL_MAX, false, 1, "1",
     "how: lo + (hi - lo) (entropy / ln(tokens left))^dynatemp_exponent"},
};

/* T = lo + (hi - lo) (H / ln n)^e, of the n tokens that are left. */
static double dynamic(const struct rule_row *r, double temperature, double range)
{
    double low = fmax(temperature - range, 0.0), high = temperature + range;
    size_t n = rule_row_count(r);
    if (n == 1)
        return high;
    double share = rule_row_moments(r).entropy / exact_log((double)n);
    double exponent = rule_row_number(r, SLOT_dynatemp_exponent);
    if (!(share > DBL_MIN))
        return exponent == 0 ? high : low;
    return low + (high - low) * exact_pow(share, exponent);
}

/* llama.cpp's mirostat knows one temperature. */
static bool only_mirostat(const struct rule_row *r)
{
    return r->request->order == NULL && rule_engine(r->request)->mirostat_order != NULL &&
           rule_row_number(r, SLOT_mirostat) > 0;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_temperature, row) != 1 ||
           rule_number(request, SLOT_dynatemp_range, row) > 0;
}

static void apply(struct rule_row *r)
{
    double range = rule_row_number(r, SLOT_dynatemp_range);
    double temperature =
        fmax(rule_row_number(r, SLOT_temperature), rule_engine(r->request)->least_temperature);
    if (range > 0 && !only_mirostat(r))
        temperature = dynamic(r, temperature, range);
    if ((float)temperature > 0.0f)
        r->temperature = fmin(temperature, DBL_MAX);
    else
        rule_row_keep_above(r, INFINITY);
}

const struct rule rule_temperature = {
    .name = "temperature",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Ackley, Hinton, Sejnowski, A learning algorithm for Boltzmann machines, 1985; dynamic: "
              "kalomaze, Dynamic temperature, 2023",
    .is_on = is_on,
    .apply = apply,
};
