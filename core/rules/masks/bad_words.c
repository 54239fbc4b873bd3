#include "core/rules/penalties/history.h"
#include "core/rules/rule_row.h"

#include <math.h>
#include <string.h>

static const struct rule_param params[] = {
    {RULE_PARAM(bad_words), KIND_SEQUENCES, 0, INT32_MAX, false, NAN, "none",
     "lists of ids, or those for each row: the last id of a list is masked where the ids before it end "
     "history"},
};

static bool ends_with(struct id_list text, struct id_list end)
{
    return end.n == 0 ||
           (end.n <= text.n && memcmp(text.ids + text.n - end.n, end.ids, end.n * sizeof *end.ids) == 0);
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_sequences(request, SLOT_bad_words, row).n > 0;
}

static void apply(struct rule_row *r)
{
    struct id_list text = rule_engine(r->request)->words_in_generated
                              ? history_generated(r->request, r->index)
                              : rule_row_ids(r, SLOT_history);
    struct sequence_range words = rule_sequences(r->request, SLOT_bad_words, r->index);
    for (size_t i = 0; i < words.n; i++) {
        struct id_list word = id_lists_nth(words.lists, words.first + i);
        if (ends_with(text, (struct id_list){word.ids, NULL, word.n - 1}))
            rule_row_mask(r, word.ids[word.n - 1]);
    }
    rule_row_refresh(r);
}

const struct rule rule_bad_words = {
    .name = "bad_words",
    .place = PLACE_MASK,
    RULE_PARAMS(params),
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
};
