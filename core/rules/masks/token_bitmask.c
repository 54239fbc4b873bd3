#include "core/rules/rule_row.h"

#include <math.h>
#include <string.h>

static const struct rule_param params[] = {
    {RULE_PARAM(token_bitmask), KIND_BITMASK, 0, INT32_MAX, false, NAN, "none",
     "packed int32 words [B][ceil(V/32)], or one row of them: token t stays where bit t % 32 of word t / 32 "
     "is 1"},
};

/* The bits of the tokens that are left, by position. */
static const uint32_t *gather(struct rule_row *r, const uint32_t *words, size_t num_words)
{
    const struct support *s = &r->support;
    size_t own_words = (s->n + 31) / 32;
    uint32_t *bits = rule_row_lend(r, own_words, sizeof *bits);
    memset(bits, 0, own_words * sizeof *bits);
    for (size_t i = 0; i < s->n; i++) {
        size_t id = (size_t)s->ids[i];
        bits[i / 32] |= (id / 32 < num_words ? words[id / 32] >> id % 32 & 1 : 0) << i % 32;
    }
    return bits;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    (void)row;
    return rule_sent(request, SLOT_token_bitmask);
}

static void apply(struct rule_row *r)
{
    const struct bitmask *mask = &r->request->rule_values[SLOT_token_bitmask].bitmask;
    const uint32_t *words = mask->words + (mask->per_row ? r->index * mask->words_per_row : 0);
    rule_row_keep_bits(r, r->support.ids == NULL ? words : gather(r, words, mask->words_per_row));
}

const struct rule rule_token_bitmask = {
    .name = "token_bitmask",
    .place = PLACE_MASK,
    RULE_PARAMS(params),
    .source = "Dong et al., XGrammar, 2024, arXiv:2411.15100",
    .is_on = is_on,
    .apply = apply,
};
