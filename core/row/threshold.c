#include "core/row/threshold.h"

#include "core/row/order.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* A search under way.  Counts are of the tokens that b->z holds by now; those above it are in `base` alone.
 */
struct search {
    struct threshold *b;
    double target;
    const struct kernels *kernels;
    struct arena *scratch;
    double base;       /* measure of the tokens that were left out because they are above */
    size_t base_count; /* their number */
    size_t at_low;     /* tokens of b->z with z >= low */
    size_t at_high;    /* tokens of b->z with z >= high */
};

size_t threshold_scratch_bytes(size_t n)
{
    /* each list is at most a quarter of the one before, but the last, which may be as long as the row */
    return 6 * n * sizeof(float) + 64 * ARENA_ALIGNMENT;
}

/* By value, the middle is quick to find a model's threshold; by code, it never needs more than 32 steps. */
static int64_t middle_of(const struct threshold *b, unsigned step)
{
    if (step % 2 == 0) {
        double middle = 0.5 * ((double)order_float((int32_t)b->low) + (double)order_float((int32_t)b->high));
        int64_t code = isfinite(middle) ? order_code((float)middle) : b->low;
        if (code > b->low && code < b->high)
            return code;
    }
    return b->low + (b->high - b->low) / 2;
}

static void narrow(struct search *s, int64_t at)
{
    struct threshold *b = s->b;
    double mass = 0.0;
    size_t count = s->kernels->count_above(b->z, b->w, b->n, order_float((int32_t)at), &mass);
    double measure = s->base + (b->w == NULL ? (double)count : mass);
    if (measure > s->target) {
        b->low = at;
        s->at_low = count;
    } else {
        b->high = at;
        b->above = measure;
        b->count_above = s->base_count + count;
        s->at_high = count;
    }
}

/* Places in b->z of the tokens that are inside; as many as the counts say. */
static int32_t *find_inside(struct search *s, size_t n)
{
    struct threshold *b = s->b;
    int32_t *found = arena_alloc(s->scratch, n + 16, sizeof *found); /* vectors are stored whole */
    assert(found != NULL);
    size_t count = s->kernels->find_between(b->z, b->n, order_float((int32_t)b->low),
                                            order_float((int32_t)b->high), found);
    assert(count == n);
    (void)count;
    return found;
}

/* Turn places in b->z into positions in the first z. */
static void set_positions(struct threshold *b, int32_t *found, size_t n)
{
    for (size_t i = 0; b->positions != NULL && i < n; i++)
        found[i] = b->positions[found[i]];
    b->positions = found;
    b->n = n;
}

/* Leave out every token that is outside. */
static void shrink(struct search *s)
{
    struct threshold *b = s->b;
    size_t n = s->at_low - s->at_high;
    if (n == b->n)
        return;
    int32_t *found = find_inside(s, n);
    float *z = arena_alloc(s->scratch, n, sizeof *z);
    float *w = b->w == NULL ? NULL : arena_alloc(s->scratch, n, sizeof *w);
    assert(z != NULL && (b->w == NULL || w != NULL));
    for (size_t i = 0; i < n; i++) {
        z[i] = b->z[found[i]];
        if (w != NULL)
            w[i] = b->w[found[i]];
    }
    set_positions(b, found, n);
    b->z = z;
    b->w = w;
    s->base = b->above;
    s->base_count = b->count_above;
    s->at_low = n;
    s->at_high = 0;
}

/* Ties may be most of the row: their places are all that is asked for. */
static void keep_ties(struct search *s)
{
    size_t n = s->at_low - s->at_high;
    set_positions(s->b, find_inside(s, n), n);
    s->b->z = s->b->w = NULL;
}

void threshold_find_near(struct threshold *b, double target, size_t few, const float *hints, size_t count,
                         const struct kernels *kernels, struct arena *scratch)
{
    struct search s = {.b = b, .target = target, .kernels = kernels, .scratch = scratch, .at_low = b->n};
    b->positions = NULL;
    b->low = order_code(-INFINITY);
    b->high = (int64_t)order_code(b->max) + 1;
    b->above = 0.0;
    b->count_above = 0;
    for (size_t i = 0; i < count; i++)
        if (order_code(hints[i]) > b->low && order_code(hints[i]) < b->high)
            narrow(&s, order_code(hints[i]));
    for (unsigned step = 0; b->high - b->low > 1 && s.at_low - s.at_high > few; step++) {
        narrow(&s, middle_of(b, step));
        if (s.at_low - s.at_high <= b->n / 4 && !threshold_is_tie(b))
            shrink(&s);
    }
    if (threshold_is_tie(b))
        keep_ties(&s);
    else
        shrink(&s);
}

void threshold_find(struct threshold *b, double target, size_t few, const struct kernels *kernels,
                    struct arena *scratch)
{
    threshold_find_near(b, target, few, NULL, 0, kernels, scratch);
}
