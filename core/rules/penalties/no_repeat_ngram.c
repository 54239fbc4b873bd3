#include "core/rules/penalties/history.h"
#include "core/rules/penalties/repeats.h"
#include "core/rules/rule_row.h"

#include <math.h>

static const struct rule_param params[] = {
    {RULE_PARAM(no_repeat_ngram_size), KIND_WHOLE, 0, INT32_MAX, false, 0, "0",
     "mask every id that would repeat so many ids of history; 0 masks none"},
};

static size_t scratch_bytes(const struct sample_request *request)
{
    return history_longest(request) * sizeof(uint32_t) + ARENA_ALIGNMENT;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_no_repeat_ngram_size, row) > 0;
}

static void apply(struct rule_row *r)
{
    struct id_list text = rule_row_ids(r, SLOT_history);
    size_t before = (size_t)rule_row_number(r, SLOT_no_repeat_ngram_size) - 1; /* ids that come again */
    uint32_t *lengths = rule_row_lend(r, text.n, sizeof *lengths);
    repeats_measure(text, lengths);
    for (size_t i = 0; i < text.n; i++)
        if (lengths[i] >= before)
            rule_row_mask(r, text.ids[i]);
    rule_row_refresh(r);
}

const struct rule rule_no_repeat_ngram = {
    .name = "no_repeat_ngram",
    .place = PLACE_LOGITS,
    RULE_PARAMS(params),
    .source = "Paulus, Xiong, Socher, A deep reinforced model for abstractive summarization, 2017, "
              "arXiv:1705.04304",
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
    .scratch_bytes = scratch_bytes,
};
