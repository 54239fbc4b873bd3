#include "core/row/rank.h"
#include "core/row/rng.h"
#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(xtc_probability), KIND_REAL, 0, 1, false, 0, "0",
     "with this probability a row drops, of the tokens with p >= xtc_threshold, all but the least likely"},
    {RULE_PARAM(xtc_threshold), KIND_REAL, 0, 1, false, 0.1, "0.1", "what that looks at; above 0.5 is off"},
    {RULE_PARAM(xtc_protected_ids), KIND_IDS, 0, INT32_MAX, false, NAN, "none",
     "ids, or a list for each row, that stay"},
};

/* One a row: the draw that no n reaches. */
static double coin(const struct rule_row *r)
{
    const struct sample_request *request = r->request;
    struct rng_address address = {
        .seed = column_u64_at(&request->seed, r->index),
        .offset = column_u64_at(&request->offset, r->index),
        .stream = request->seed.per_row ? 0 : (uint32_t)r->index,
        .draw = UINT32_MAX,
    };
    return rng_uniform(&address);
}

/* Positions of z >= cut, ascending; returns how many. */
static size_t find_top(struct rule_row *r, double cut, int32_t *positions)
{
    struct support *s = &r->support;
    float least = fmaxf(rule_row_float(cut), -FLT_MAX);
    if ((double)least < cut)
        least = nextafterf(least, INFINITY);
    return rank_collect(r->kernels, s->z, support_lanes(s, r->kernels), s->n, least, positions);
}

static bool is_protected(const struct rule_row *r, int32_t id)
{
    struct id_list list = rule_row_ids(r, SLOT_xtc_protected_ids);
    for (size_t i = 0; i < list.n; i++)
        if (list.ids[i] == id)
            return true;
    return false;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_xtc_probability, row) > 0 &&
           rule_number(request, SLOT_xtc_threshold, row) <= 0.5;
}

static void apply(struct rule_row *r)
{
    if (coin(r) >= rule_row_number(r, SLOT_xtc_probability))
        return;
    double cut = rule_row_logit_of(r, rule_row_number(r, SLOT_xtc_threshold) * rule_row_total(r));
    struct support *s = &r->support;
    int32_t *top = rule_row_lend(r, s->n, sizeof *top);
    size_t n = find_top(r, cut, top), last = 0;
    for (size_t i = 1; i < n; i++)
        if (s->z[top[i]] <= s->z[top[last]])
            last = i;
    for (size_t i = 0; i < n; i++)
        if (i != last && !is_protected(r, support_id(s, (size_t)top[i])))
            rule_row_set(r, (size_t)top[i], -INFINITY);
    rule_row_refresh(r);
}

const struct rule rule_xtc = {
    .name = "xtc",
    .place = PLACE_CHAIN,
    RULE_PARAMS(params),
    .source = "p-e-w, XTC: exclude top choices, 2024",
    .is_on = is_on,
    .apply = apply,
};
