#include "core/kernels/exact_math.h"
#include "core/rules/penalties/history.h"
#include "core/rules/penalties/repeats.h"
#include "core/rules/rule_row.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const struct rule_param params[] = {
    {RULE_PARAM(dry_multiplier), KIND_REAL, 0, DBL_MAX, false, 0, "0",
     "subtract dry_multiplier * dry_base^(n - dry_allowed_length) from an id that would repeat n ids of "
     "history; 0 is off"},
    {RULE_PARAM(dry_base), KIND_REAL, 1, DBL_MAX, false, 1.75, "1.75", "how fast that grows"},
    {RULE_PARAM(dry_allowed_length), KIND_WHOLE, 0, INT32_MAX, false, 2, "2", "shorter repetitions are free"},
    {RULE_PARAM(dry_last_n), KIND_WHOLE, -1, INT32_MAX, false, -1, "-1",
     "look at so many of the last ids of history; -1 for all"},
    {RULE_PARAM(dry_sequence_breakers), KIND_SEQUENCES, 0, INT32_MAX, false, NAN, "none",
     "ids or lists of ids, or those for each row: no repetition reaches across one"},
};

/* Sequences that end a repetition; those of the same last id are chained. */
struct breakers {
    struct sequence_range sequences;
    struct id_map *last_ids; /* id -> 1 + a sequence that ends with it */
    uint32_t *next;          /* [sequences.n] 1 + another one, or 0 */
};

static struct breakers breakers_of(struct rule_row *r)
{
    struct breakers b = {.sequences = rule_sequences(r->request, SLOT_dry_sequence_breakers, r->index)};
    b.last_ids = id_map_create(b.sequences.n, r->scratch);
    b.next = rule_row_lend(r, b.sequences.n, sizeof *b.next);
    for (size_t i = 0; i < b.sequences.n; i++) {
        struct id_list sequence = id_lists_nth(b.sequences.lists, b.sequences.first + i);
        struct id_entry *entry = id_map_put(b.last_ids, sequence.ids[sequence.n - 1]);
        b.next[i] = entry->count;
        entry->count = (uint32_t)i + 1;
    }
    return b;
}

/* Whether one of the sequences ends the text; it is at most `longest` long. */
static bool ends_text(const struct breakers *b, struct id_list text, size_t longest)
{
    const struct id_entry *entry = id_map_find(b->last_ids, text.ids[text.n - 1]);
    for (uint32_t i = entry == NULL ? 0 : entry->count; i != 0; i = b->next[i - 1]) {
        struct id_list s = id_lists_nth(b->sequences.lists, b->sequences.first + i - 1);
        if (s.n <= text.n && s.n <= longest &&
            memcmp(text.ids + text.n - s.n, s.ids, s.n * sizeof *s.ids) == 0)
            return true;
    }
    return false;
}

static size_t ids_after_breaker(const struct breakers *b, struct id_list window)
{
    for (size_t n = 0; b->sequences.n > 0 && n < window.n; n++)
        if (ends_text(b, (struct id_list){window.ids, NULL, window.n - n}, SIZE_MAX))
            return n;
    return window.n;
}

/* A breaker of one id is never penalised. */
static bool is_breaker(const struct breakers *b, int32_t id)
{
    return b->sequences.n > 0 && ends_text(b, (struct id_list){&id, NULL, 1}, 1);
}

/* For each id its longest repetition, in `count`; the first id of the window has none. */
static struct id_map *longest_repeats(struct rule_row *r, struct id_list window, size_t longest)
{
    struct id_map *repeats = id_map_create(window.n, r->scratch);
    uint32_t *lengths = rule_row_lend(r, window.n, sizeof *lengths);
    repeats_measure(window, lengths);
    for (size_t i = 1; i < window.n; i++) {
        struct id_entry *entry = id_map_put(repeats, window.ids[i]);
        uint32_t length = lengths[i] < longest ? lengths[i] : (uint32_t)longest;
        entry->count = length > entry->count ? length : entry->count;
    }
    return repeats;
}

/* The largest that keeps base^n a float32. */
static double largest_exponent(double base)
{
    return base > 1.000001 ? floor(88.7228391 / exact_log(base)) : INFINITY;
}

static double penalty(const struct rule_row *r, double exponent)
{
    double base = rule_row_number(r, SLOT_dry_base);
    return rule_row_number(r, SLOT_dry_multiplier) * exact_power(base, (uint64_t)exponent);
}

static size_t scratch_bytes(const struct sample_request *request)
{
    size_t window = history_longest(request), breakers = 0;
    for (size_t row = 0; row < request->batch_size; row++) {
        size_t n = rule_sequences(request, SLOT_dry_sequence_breakers, row).n;
        breakers = n > breakers ? n : breakers;
    }
    return id_map_bytes(window) + window * sizeof(uint32_t) + id_map_bytes(breakers) +
           breakers * sizeof(uint32_t) + 2 * ARENA_ALIGNMENT;
}

static bool is_on(const struct sample_request *request, size_t row)
{
    return rule_number(request, SLOT_dry_multiplier, row) > 0;
}

static void apply(struct rule_row *r)
{
    struct id_list window = history_last(r->request, r->index, rule_row_number(r, SLOT_dry_last_n));
    struct breakers breakers = breakers_of(r);
    struct id_map *repeats = longest_repeats(r, window, ids_after_breaker(&breakers, window));
    double allowed = rule_row_number(r, SLOT_dry_allowed_length);
    double most = largest_exponent(rule_row_number(r, SLOT_dry_base));
    rule_row_settle(r);
    for (size_t i = 0; i < repeats->count; i++) {
        const struct id_entry *repeat = &repeats->entries[i];
        ptrdiff_t at = is_breaker(&breakers, repeat->id) ? -1 : rule_row_find(r, repeat->id);
        if (at >= 0 && repeat->count >= allowed)
            rule_row_set(
                r, (size_t)at,
                rule_row_unmasked(r->support.z[at] - penalty(r, fmin(repeat->count - allowed, most))));
    }
    rule_row_refresh(r);
}

const struct rule rule_dry = {
    .name = "dry",
    .place = PLACE_LOGITS,
    RULE_PARAMS(params),
    .source = "p-e-w, DRY: a modern repetition penalty, 2024",
    .sets_tokens = true,
    .is_on = is_on,
    .apply = apply,
    .scratch_bytes = scratch_bytes,
};
