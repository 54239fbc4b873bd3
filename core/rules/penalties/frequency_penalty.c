#include "core/rules/penalties/history.h"
#include "core/rules/rule_row.h"

#include <float.h>

static const struct rule_param params[] = {
    {RULE_PARAM(frequency_penalty), KIND_REAL, -DBL_MAX, DBL_MAX, false, 0, "0",
     "subtracted from a logit for each time that its id was generated"},
};

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_frequency_penalty, row) != 0;
}

static void apply(struct rule_row *r)
{
    rule_row_settle(r);
    double penalty = rule_row_number(r, SLOT_frequency_penalty);
    bool all = rule_engine(r->request)->counts_prompt;
    const struct id_map *counts = history_counts(r);
    struct rule_tokens tokens = rule_row_open(r);
    for (size_t i = 0; i < counts->count; i++) {
        const struct id_entry *seen = &counts->entries[i];
        double count = all ? seen->count : seen->generated;
        ptrdiff_t at = count > 0 ? rule_tokens_find(&tokens, seen->id) : -1;
        if (at >= 0)
            rule_tokens_set(&tokens, (size_t)at, rule_row_unmasked(tokens.z[at] - penalty * count));
    }
    rule_row_refresh(r);
}

const struct rule rule_frequency_penalty = {
    .name = "frequency_penalty",
    .place = PLACE_LOGITS,
    RULE_PARAMS(params),
    .source = "OpenAI, API reference, 2021",
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
    .prepare = history_count,
    .scratch_bytes = history_scratch_bytes,
};
