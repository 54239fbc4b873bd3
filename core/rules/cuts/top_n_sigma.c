#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(top_n_sigma), KIND_REAL, 0, DBL_MAX, false, 0, "0",
     "keep z >= max - top_n_sigma standard deviations; 0 keeps all"},
};

#define SAMPLED 64   /* tokens */
#define FEW     2048 /* tokens: below, float64 costs nothing */

/* Near the mean, so that squares lose nothing to it. */
static float center_of(const float *z, size_t n)
{
    double sum = 0.0;
    size_t count = 0, step = n / SAMPLED + 1;
    for (size_t i = 0; i < n; i += step) {
        bool finite = z[i] > -INFINITY;
        sum += finite ? z[i] : 0.0;
        count += finite;
    }
    return count == 0 ? 0.0f : (float)(sum / (double)count);
}

/* Sums in float64. */
static struct kernels_spread exact_spread(const float *z, size_t n, double center)
{
    struct kernels_spread sums = {0};
    for (size_t i = 0; i < n; i++) {
        if (z[i] == -INFINITY)
            continue;
        double d = z[i] - center;
        sums.count++;
        sums.d += d;
        sums.dd += d * d;
    }
    return sums;
}

static double mean_square(struct kernels_spread sums)
{
    double mean = sums.d / (double)sums.count;
    return fmax(sums.dd / (double)sums.count - mean * mean, 0.0);
}

/* From the mean itself: of two tokens the deviation is half their distance, exactly. */
static double exact_variance(const float *z, size_t n)
{
    struct kernels_spread sums = exact_spread(z, n, 0.0);
    return mean_square(exact_spread(z, n, sums.d / (double)sums.count));
}

/* Of the logits that are left. */
static double variance(const struct rule_row *r)
{
    const struct support *s = &r->support;
    if (s->n <= FEW)
        return exact_variance(s->z, s->n);
    struct kernels_spread sums = r->kernels->spread(s->z, s->n, center_of(s->z, s->n));
    bool overflowed = !isfinite(sums.dd) || !isfinite(sums.d);
    return overflowed ? exact_variance(s->z, s->n) : mean_square(sums);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_top_n_sigma, row) > 0;
}

static void apply(struct rule_row *r)
{
    double deviation = sqrt(variance(r));
    rule_row_keep_above(r, r->support.max - rule_row_number(r, SLOT_top_n_sigma) * deviation);
}

const struct rule rule_top_n_sigma = {
    .name = "top_n_sigma",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "Tang et al., Top-n-sigma: not all logits are you need, 2024, arXiv:2411.07641",
    .is_on = is_on,
    .apply = apply,
};
