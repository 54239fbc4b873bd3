#include "core/rules/draws/mirostat.h"

#include "core/kernels/exact_math.h"
#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(mirostat), KIND_WHOLE, 0, 2, false, 0, "0",
     "keep what is less surprising than mirostat_mu: 1 by an estimated rank, 2 by -log2 p; 0 is off"},
    {RULE_PARAM(mirostat_tau), KIND_REAL, 0, DBL_MAX, false, 5, "5",
     "the surprise, in bits, that it steers to"},
    {RULE_PARAM(mirostat_eta), KIND_REAL, 0, DBL_MAX, false, 0.1, "0.1", "how fast"},
    {RULE_PARAM(mirostat_mu), KIND_REAL, -DBL_MAX, DBL_MAX, false, NAN, "2 mirostat_tau",
     "where it stands; the answer has the next"},
};

#define LN_2      0x1.62e42fefa39efp-1
#define LOOKED_AT 100 /* tokens */

double mirostat_mu(const struct sample_request *request, size_t row)
{
    double mu = rule_number(request, SLOT_mirostat_mu, row);
    return isnan(mu) ? 2 * rule_number(request, SLOT_mirostat_tau, row) : mu;
}

double mirostat_next(const struct sample_request *request, size_t row, double logprob)
{
    double error = -logprob / LN_2 - rule_number(request, SLOT_mirostat_tau, row);
    return mirostat_mu(request, row) - rule_number(request, SLOT_mirostat_eta, row) * error;
}

/* Zipf's exponent of the likeliest tokens, by least squares: sum t b / sum t^2. */
static double zipf_exponent(const struct rule_row *r, const int32_t *ranked, size_t n)
{
    double tb = 0.0, tt = 0.0;
    for (size_t i = 0; i + 1 < n; i++) {
        double t = exact_log((double)(i + 2) / (double)(i + 1));
        double b = ((double)r->support.z[ranked[i]] - r->support.z[ranked[i + 1]]) / r->temperature;
        tb += t * b;
        tt += t * t;
    }
    return tt > 0.0 ? tb / tt : 0.0;
}

/* k = (e 2^mu / (1 - V^-e))^(1/s), e = s - 1; not a number where that is none. */
static double zipf_rank(const struct rule_row *r, double s, double mu)
{
    double e = s - 1.0, tail = 1.0 - exact_pow((double)r->request->vocab_size, -e);
    double base = e * exact_exp_any(mu * LN_2) / tail;
    return base >= DBL_MIN && base <= DBL_MAX ? exact_pow(base, 1.0 / s) : base > DBL_MAX ? INFINITY : NAN;
}

/* As many of the likeliest as Zipf's law gives mu bits of surprise. */
static void keep_likeliest(struct rule_row *r, double mu)
{
    int32_t *ranked;
    size_t n = rule_row_likeliest(r, LOOKED_AT, &ranked);
    double s = zipf_exponent(r, ranked, n), k = s > 0 ? zipf_rank(r, s, mu) : NAN;
    if (!(k <= (double)rule_row_count(r)))
        return;
    n = rule_row_likeliest(r, k < 1 ? 1 : (size_t)k, &ranked);
    rule_row_keep_positions(r, ranked, n);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_mirostat, row) > 0;
}

static void apply(struct rule_row *r)
{
    if (rule_row_number(r, SLOT_mirostat) == 1)
        keep_likeliest(r, mirostat_mu(r->request, r->index));
    else
        rule_row_keep_weight(r, exact_exp_any(-mirostat_mu(r->request, r->index) * LN_2) * rule_row_total(r));
}

const struct rule rule_mirostat = {
    .name = "mirostat",
    .place = PLACE_END,
    RULE_PARAMS(params),
    .source = "Basu et al., Mirostat, ICLR 2021, arXiv:2007.14966",
    .is_on = is_on,
    .apply = apply,
};
