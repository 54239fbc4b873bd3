#include "core/rules/penalties/history.h"

#include <math.h>
#include <stdint.h>

static const struct rule_param params[] = {
    {RULE_PARAM(history), KIND_IDS, 0, INT32_MAX, false, NAN, "none",
     "[B][*] the ids so far, oldest first, or one list for all rows"},
    {RULE_PARAM(prompt_tokens), KIND_WHOLE, 0, INT32_MAX, false, 0, "0",
     "how many ids of history, from its begin, are the prompt; the others were generated"},
    {RULE_PARAM(penalty_last_n), KIND_WHOLE, -1, INT32_MAX, false, -1, "-1",
     "the penalties look at so many of the last ids of history; -1 for all"},
};

struct id_list history_last(const struct sample_request *request, size_t row, double n)
{
    struct id_list list = rule_ids(request, SLOT_history, row);
    if (n < 0 || n >= (double)list.n)
        return list;
    return (struct id_list){list.ids + list.n - (size_t)n, NULL, (size_t)n};
}

struct id_list history_generated(const struct sample_request *request, size_t row)
{
    struct id_list list = rule_ids(request, SLOT_history, row);
    double generated = (double)list.n - rule_number(request, SLOT_prompt_tokens, row);
    return history_last(request, row, generated > 0 ? generated : 0);
}

size_t history_longest(const struct sample_request *request)
{
    size_t longest = 0, lists = request->rule_values[SLOT_history].ids.per_row ? request->batch_size : 1;
    for (size_t row = 0; row < lists; row++) {
        size_t n = rule_ids(request, SLOT_history, row).n;
        longest = n > longest ? n : longest;
    }
    return longest;
}

size_t history_scratch_bytes(const struct sample_request *request)
{
    return id_map_bytes(history_longest(request));
}

void history_count(struct rule_row *r)
{
    if (r->counts != NULL)
        return;
    struct id_list window = history_last(r->request, r->index, rule_row_number(r, SLOT_penalty_last_n));
    size_t generated = history_generated(r->request, r->index).n;
    size_t first = window.n > generated ? window.n - generated : 0;
    r->counts = id_map_create(window.n, r->scratch);
    id_map_count(r->counts, window.ids, window.n, first);
}

const struct id_map *history_counts(const struct rule_row *r)
{
    return r->counts;
}

const struct rule rule_history = {
    .name = "history",
    .place = PLACE_NOWHERE,
    RULE_PARAMS(params),
};
