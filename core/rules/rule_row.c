#include "core/rules/rule_row.h"

#include "core/kernels/exact_math.h"
#include "core/row/order.h"
#include "core/row/rank.h"
#include "core/row/select.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

double rule_row_number(const struct rule_row *r, enum rule_slot slot)
{
    return rule_number(r->request, slot, r->index);
}

struct id_list rule_row_ids(const struct rule_row *r, enum rule_slot slot)
{
    return rule_ids(r->request, slot, r->index);
}

void *rule_row_lend(struct rule_row *r, size_t count, size_t size)
{
    void *lent = arena_alloc(r->scratch, count, size);
    assert(lent != NULL);
    return lent;
}

/* ---- single tokens ---- */

ptrdiff_t rule_row_find(const struct rule_row *r, int32_t token_id)
{
    const struct support *s = &r->support;
    size_t at = support_find(s, token_id);
    return at < s->n && s->z[at] > -INFINITY ? (ptrdiff_t)at : -1;
}

static float *own_lanes(struct rule_row *r)
{
    struct support *s = &r->support;
    const float *lanes = support_lanes(s, r->kernels);
    if (lanes != s->room->lanes) {
        memcpy(s->room->lanes, lanes, kernels_blocks(s->n) * KERNELS_LANES * sizeof *lanes);
        s->lanes = s->room->lanes;
    }
    return s->room->lanes;
}

/* Of the lane that this position belongs to. */
static float largest_of_lane(const float *z, size_t n, size_t position)
{
    size_t first = position / KERNELS_BLOCK * KERNELS_BLOCK;
    size_t end = first + KERNELS_BLOCK < n ? first + KERNELS_BLOCK : n;
    float largest = -INFINITY;
    for (size_t i = first + position % KERNELS_LANES; i < end; i += KERNELS_LANES)
        largest = z[i] > largest ? z[i] : largest;
    return largest;
}

struct rule_tokens rule_row_open(struct rule_row *r)
{
    float *lanes = own_lanes(r);
    return (struct rule_tokens){support_own(&r->support), lanes, &r->support};
}

void rule_tokens_lower(struct rule_tokens *t, size_t position)
{
    t->lanes[position / KERNELS_BLOCK * KERNELS_LANES + position % KERNELS_LANES] =
        largest_of_lane(t->z, t->support->n, position);
}

void rule_row_set(struct rule_row *r, size_t position, double logit)
{
    struct rule_tokens tokens = rule_row_open(r);
    rule_tokens_set(&tokens, position, logit);
}

void rule_row_mask(struct rule_row *r, int32_t token_id)
{
    ptrdiff_t at = rule_row_find(r, token_id);
    if (at >= 0)
        rule_row_set(r, (size_t)at, -INFINITY);
}

void rule_row_refresh(struct rule_row *r)
{
    struct support *s = &r->support;
    s->max = r->kernels->max(support_lanes(s, r->kernels), kernels_blocks(s->n) * KERNELS_LANES);
}

void rule_row_settle(struct rule_row *r)
{
    struct support *s = &r->support;
    if (r->temperature == 1.0)
        return;
    float *lanes = own_lanes(r), *z = support_own(s);
    for (size_t i = 0; i < s->n; i++)
        z[i] = rule_row_float(z[i] / r->temperature);
    for (size_t i = 0; i < kernels_blocks(s->n) * KERNELS_LANES; i++)
        lanes[i] = rule_row_float(lanes[i] / r->temperature); /* rounding keeps the order */
    s->max = rule_row_float(s->max / r->temperature);
    r->temperature = 1.0;
}

/* Word w of the bits of n tokens, those behind the last one left out. */
static uint32_t word_of(const uint32_t *words, size_t n, size_t w)
{
    return n - 32 * w >= 32 ? words[w] : words[w] & ((UINT32_C(1) << (n - 32 * w)) - 1);
}

/* Positions of bits that are set, ascending. */
static size_t positions_of_bits(const uint32_t *words, size_t n, int32_t *positions)
{
    size_t count = 0;
    for (size_t w = 0; w < (n + 31) / 32; w++)
        for (uint32_t left = word_of(words, n, w); left != 0; left &= left - 1)
            positions[count++] = (int32_t)(w * 32 + (size_t)__builtin_ctz(left));
    return count;
}

/* How many are set, or at least `most`. */
static size_t count_bits(const uint32_t *words, size_t n, size_t most)
{
    size_t count = 0;
    for (size_t w = 0; w < (n + 31) / 32 && count < most; w++)
        count += (size_t)__builtin_popcount(word_of(words, n, w));
    return count;
}

void rule_row_keep_bits(struct rule_row *r, const uint32_t *words)
{
    struct support *s = &r->support;
    size_t few = s->n / 16, count = count_bits(words, s->n, few);
    if (count > 0 && count < few) {
        int32_t *positions = rule_row_lend(r, count, sizeof *positions);
        support_keep(s, positions, positions_of_bits(words, s->n, positions));
    } else {
        r->kernels->mask_lanes(s->z, words, s->n, s->room->z, s->room->lanes);
        s->z = s->room->z;
        s->lanes = s->room->lanes;
    }
    rule_row_refresh(r);
}

float *rule_row_rewrite(struct rule_row *r)
{
    return support_own(&r->support);
}

void rule_row_rewritten(struct rule_row *r)
{
    r->support.lanes = NULL;
    r->temperature = 1.0;
    rule_row_refresh(r);
}

/* ---- the whole of what is left ---- */

struct weight_scale rule_row_scale(const struct rule_row *r)
{
    return weight_scale_make(r->support.max, r->temperature);
}

size_t rule_row_count(const struct rule_row *r)
{
    return r->kernels->count_above(r->support.z, NULL, r->support.n, -FLT_MAX, NULL);
}

double rule_row_total(struct rule_row *r)
{
    size_t mark = arena_mark(r->scratch);
    double *block_sums = rule_row_lend(r, kernels_blocks(r->support.n), sizeof *block_sums);
    double total = r->kernels->sum_weights(r->support.z, r->support.n, rule_row_scale(r), block_sums);
    arena_release(r->scratch, mark);
    return total;
}

struct rule_moments rule_row_moments(const struct rule_row *r)
{
    const double LN_2 = 0x1.62e42fefa39efp-1;
    struct kernels_moments sums = r->kernels->moments(r->support.z, r->support.n, rule_row_scale(r));
    double mean_log = sums.wy / sums.w * LN_2;
    return (struct rule_moments){
        .total = sums.w, .mean_log = mean_log, .entropy = exact_log(sums.w) - mean_log};
}

/* ---- cuts ---- */

void rule_row_keep_above(struct rule_row *r, double cut)
{
    float least = (float)cut;
    if ((double)least < cut)
        least = order_float(order_code(least) + 1);
    if (least <= r->support.max) {
        select_above(&r->support, least, r->kernels, r->scratch);
        return;
    }
    int32_t *likeliest;
    rule_row_likeliest(r, 1, &likeliest);
    rule_row_keep_positions(r, likeliest, 1);
}

double rule_row_logit_of(const struct rule_row *r, double weight)
{
    if (!(weight > 0.0))
        return -INFINITY;
    return weight > 1.0 ? INFINITY : r->support.max + r->temperature * exact_log(weight);
}

void rule_row_keep_weight(struct rule_row *r, double weight)
{
    rule_row_keep_above(r, rule_row_logit_of(r, weight));
}

size_t rule_row_likeliest(struct rule_row *r, size_t most, int32_t **positions)
{
    struct support *s = &r->support;
    int32_t *found = rule_row_lend(r, s->n, sizeof *found);
    size_t n = most < s->n
                   ? rank_top(r->kernels, s->z, support_lanes(s, r->kernels), s->n, most, found, r->scratch)
                   : rank_collect(r->kernels, s->z, support_lanes(s, r->kernels), s->n, -FLT_MAX, found);
    float *z = rule_row_lend(r, n, sizeof *z);
    struct ranked *order = rule_row_lend(r, n, sizeof *order);
    for (size_t i = 0; i < n; i++)
        z[i] = s->z[found[i]];
    rank_sort(z, n, order, r->scratch);
    size_t count = n < most ? n : most;
    while (count > 1 && z[order[count - 1].position] == -INFINITY)
        count--;
    *positions = rule_row_lend(r, count, sizeof **positions);
    for (size_t i = 0; i < count; i++)
        (*positions)[i] = found[order[i].position];
    return count;
}

void rule_row_keep_positions(struct rule_row *r, const int32_t *positions, size_t count)
{
    struct ranked *order = rule_row_lend(r, count, sizeof *order);
    int32_t *ascending = rule_row_lend(r, count, sizeof *ascending);
    for (size_t i = 0; i < count; i++)
        order[i] = (struct ranked){(uint32_t)positions[i], (int32_t)i};
    rank_sort_keys(order, count, r->scratch);
    for (size_t i = 0; i < count; i++)
        ascending[i] = (int32_t)order[i].key;
    support_keep(&r->support, ascending, count);
}
