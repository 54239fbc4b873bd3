#include "core/rules/rule_row.h"

#include <math.h>
#include <string.h>

static const struct rule_param params[] = {
    {RULE_PARAM(allowed_token_ids), KIND_IDS, 0, INT32_MAX, false, NAN, "none",
     "ids, or a list for each row: all others are masked"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    (void)row;
    return rule_sent(request, SLOT_allowed_token_ids);
}

static void apply(struct rule_row *r)
{
    size_t words = (r->support.n + 31) / 32;
    uint32_t *bits = rule_row_lend(r, words, sizeof *bits);
    memset(bits, 0, words * sizeof *bits);
    struct id_list list = rule_row_ids(r, SLOT_allowed_token_ids);
    for (size_t i = 0; i < list.n; i++) {
        ptrdiff_t at = rule_row_find(r, list.ids[i]);
        if (at >= 0)
            bits[at / 32] |= UINT32_C(1) << at % 32;
    }
    rule_row_keep_bits(r, bits);
}

const struct rule rule_allowed_token_ids = {
    .name = "allowed_token_ids",
    .place = PLACE_MASK,
    RULE_PARAMS(params),
    .is_on = is_on,
    .apply = apply,
};
