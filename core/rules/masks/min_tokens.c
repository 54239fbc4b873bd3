#include "core/rules/penalties/history.h"
#include "core/rules/rule_row.h"

#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(min_tokens), KIND_WHOLE, 0, INT32_MAX, false, 0, "0",
     "mask stop_token_ids while fewer ids than this have been generated"},
    {RULE_PARAM(stop_token_ids), KIND_IDS, 0, INT32_MAX, false, NAN, "none",
     "ids, or a list for each row, that end a text"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_ids(request, SLOT_stop_token_ids, row).n > 0 &&
           (double)history_generated(request, row).n < rule_number(request, SLOT_min_tokens, row);
}

static void apply(struct rule_row *r)
{
    struct id_list list = rule_row_ids(r, SLOT_stop_token_ids);
    for (size_t i = 0; i < list.n; i++)
        rule_row_mask(r, list.ids[i]);
    rule_row_refresh(r);
}

const struct rule rule_min_tokens = {
    .name = "min_tokens",
    .place = PLACE_MASK,
    RULE_PARAMS(params),
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
};
