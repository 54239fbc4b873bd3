#include "core/rules/draws/adaptive_p.h"

#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const struct rule_param params[] = {
    {RULE_PARAM(adaptive_target), KIND_REAL, 0, 1, false, NAN, "none",
     "reshape p so that tokens near a probability are likely, which steers the drawn ones to this"},
    {RULE_PARAM(adaptive_decay), KIND_REAL, 0, 0.99, false, 0.9, "0.9",
     "how long it remembers what was drawn"},
    {RULE_PARAM(adaptive_state), KIND_PAIR, -DBL_MAX, DBL_MAX, false, NAN, "start",
     "what it remembers, two numbers; the answer has the next"},
};

#define PEAK  5.0
#define SLOPE 10.0
#define WIDTH 0.3

void adaptive_p_state(const struct sample_request *request, size_t row, double state[2])
{
    const struct rule_value *sent = &request->rule_values[SLOT_adaptive_state];
    double decay = rule_number(request, SLOT_adaptive_decay, row);
    double target = rule_number(request, SLOT_adaptive_target, row);
    if (sent->sent) {
        const double *pair = sent->number.values + (sent->number.per_row ? 2 * row : 0);
        state[0] = pair[0];
        state[1] = pair[1];
    } else {
        state[0] = target / (1 - decay);
        state[1] = 1 / (1 - decay);
    }
}

void adaptive_p_next(const struct sample_request *request, size_t row, double p, double state[2])
{
    double decay = rule_number(request, SLOT_adaptive_decay, row);
    adaptive_p_state(request, row, state);
    state[0] = p + decay * state[0];
    state[1] = 1 + decay * state[1];
}

/* The probability that brings the mean of what was drawn to the target. */
static double aim(const struct sample_request *request, size_t row)
{
    double state[2];
    adaptive_p_state(request, row, state);
    double aim = 2 * rule_number(request, SLOT_adaptive_target, row) - state[0] / state[1];
    return fmin(fmax(aim, 0.0), 1.0);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_sent(request, SLOT_adaptive_target) &&
           !isnan(rule_number(request, SLOT_adaptive_target, row));
}

static void apply(struct rule_row *r)
{
    size_t n = r->support.n;
    double target = aim(r->request, r->index), total = rule_row_total(r);
    float *before = rule_row_lend(r, n, sizeof *before), *w = rule_row_lend(r, n, sizeof *w);
    memcpy(before, r->support.z, n * sizeof *before);
    r->before = before;
    r->before_max = r->support.max;
    r->before_temperature = r->temperature;
    r->kernels->weights(before, n, rule_row_scale(r), w);
    float *z = rule_row_rewrite(r);
    for (size_t i = 0; i < n; i++) {
        double x = fabs(w[i] / total - target) / WIDTH;
        z[i] = before[i] > -INFINITY ? (float)(PEAK - SLOPE * x * x / (1.0 + x)) : -INFINITY;
    }
    rule_row_rewritten(r);
}

const struct rule rule_adaptive_p = {
    .name = "adaptive_p",
    .place = PLACE_END,
    RULE_PARAMS(params),
    .source = "MrJackSpade, Adaptive-p sampling, 2025",
    .is_on = is_on,
    .apply = apply,
};
