#include "core/rules/rule_row.h"

#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(banned_token_ids), KIND_IDS, 0, INT32_MAX, false, NAN, "none",
     "ids, or a list for each row: these are masked"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_ids(request, SLOT_banned_token_ids, row).n > 0;
}

static void apply(struct rule_row *r)
{
    struct id_list list = rule_row_ids(r, SLOT_banned_token_ids);
    for (size_t i = 0; i < list.n; i++)
        rule_row_mask(r, list.ids[i]);
    rule_row_refresh(r);
}

const struct rule rule_banned_token_ids = {
    .name = "banned_token_ids",
    .place = PLACE_MASK,
    RULE_PARAMS(params),
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
};
