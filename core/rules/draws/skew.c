#include "core/rules/draws/skew.h"

#include "core/kernels/exact_math.h"

#include <float.h>

static const struct rule_param params[] = {
    {RULE_PARAM(skew), KIND_REAL, -DBL_MAX, DBL_MAX, false, 0, "0",
     "draw by falling p with u^exp(-skew); 0 draws by ascending id"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_skew, row) != 0;
}

static void apply(struct rule_row *r)
{
    r->skew = rule_row_number(r, SLOT_skew);
}

struct skewed skew_sort(struct rule_row *r)
{
    int32_t *ranked;
    size_t n = rule_row_likeliest(r, r->support.n, &ranked);
    float *z = rule_row_lend(r, n, sizeof *z), *w = rule_row_lend(r, n, sizeof *w);
    double *running = rule_row_lend(r, n, sizeof *running), sum = 0.0;
    for (size_t i = 0; i < n; i++)
        z[i] = r->support.z[ranked[i]];
    r->kernels->weights(z, n, rule_row_scale(r), w);
    for (size_t i = 0; i < n; i++)
        running[i] = sum += w[i];
    while (n > 1 && w[n - 1] == 0.0f)
        n--;
    return (struct skewed){ranked, running, n, exact_exp_any(-r->skew)};
}

size_t skew_draw(const struct skewed *skewed, double u)
{
    double power = u > 0.0 ? exact_pow(u, skewed->exponent) : 0.0;
    double target = power * skewed->running[skewed->n - 1];
    size_t low = 0, high = skewed->n - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (skewed->running[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return (size_t)skewed->positions[low];
}

const struct rule rule_skew = {
    .name = "skew",
    .place = PLACE_END,
    RULE_PARAMS(params),
    .source = "turboderp, exllamav2, 2024",
    .is_on = is_on,
    .apply = apply,
};
