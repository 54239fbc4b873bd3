#include "core/rules/penalties/history.h"
#include "core/rules/rule_row.h"

#include <float.h>

static const struct rule_param params[] = {
    {RULE_PARAM(repetition_penalty), KIND_REAL, 0, DBL_MAX, true, 1, "1",
     "divides the positive logits of ids in history and multiplies the others; 1 leaves them"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_repetition_penalty, row) != 1;
}

static void apply(struct rule_row *r)
{
    rule_row_settle(r);
    double penalty = rule_row_number(r, SLOT_repetition_penalty);
    bool generated = rule_engine(r->request)->repeats_generated;
    const struct id_map *counts = history_counts(r);
    struct rule_tokens tokens = rule_row_open(r);
    for (size_t i = 0; i < counts->count; i++) {
        const struct id_entry *seen = &counts->entries[i];
        ptrdiff_t at = generated && seen->generated == 0 ? -1 : rule_tokens_find(&tokens, seen->id);
        if (at < 0)
            continue;
        double z = tokens.z[at];
        rule_tokens_set(&tokens, (size_t)at, z > 0 ? z / penalty : rule_row_unmasked(z * penalty));
    }
    rule_row_refresh(r);
}

const struct rule rule_repetition_penalty = {
    .name = "repetition_penalty",
    .place = PLACE_LOGITS,
    RULE_PARAMS(params),
    .source = "Keskar et al., CTRL, 2019, arXiv:1909.05858",
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
    .prepare = history_count,
    .scratch_bytes = history_scratch_bytes,
};
