#include "bench/baseline.h"

#include "core/row/rng.h"

#include <math.h>
#include <stdlib.h>

void baseline_init(struct baseline *b, const struct sampling_case *sampling, const float *logits,
                   size_t vocab_size)
{
    *b = (struct baseline){.sampling = sampling, .logits = logits, .vocab_size = vocab_size};
    b->work = timing_alloc(vocab_size, sizeof *b->work);
    b->sorted = timing_alloc(vocab_size, sizeof *b->sorted);
}

void baseline_fini(struct baseline *b)
{
    free(b->work);
    free(b->sorted);
}

double baseline_uniform(size_t repeat)
{
    struct rng_address address = {.seed = 7, .offset = repeat};
    return rng_uniform(&address);
}

static int compare_tokens(const void *a, const void *b)
{
    const struct baseline_token *x = a, *y = b;
    if (x->z != y->z)
        return x->z > y->z ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void baseline_sort_row(struct baseline *b)
{
    for (size_t i = 0; i < b->vocab_size; i++)
        b->sorted[i] = (struct baseline_token){b->logits[i], (int32_t)i};
    qsort(b->sorted, b->vocab_size, sizeof *b->sorted, compare_tokens);
}

size_t baseline_top_k(const struct baseline *b)
{
    size_t n = b->vocab_size, k = (size_t)b->sampling->top_k;
    if (k == 0 || k >= n)
        return n;
    float cut = b->sorted[k - 1].z;
    while (k < n && b->sorted[k].z == cut)
        k++;
    return k;
}

size_t baseline_top_p(const struct baseline *b, const float *w, size_t n, double total)
{
    double top_p = b->sampling->top_p, running = 0;
    if (top_p <= 0 || top_p >= 1)
        return n;
    size_t kept = 0;
    while (kept < n && (running += w[kept]) <= top_p * total)
        kept++;
    return kept > 0 ? kept : 1;
}

size_t baseline_draw(const float *w, size_t n, double target)
{
    double running = 0;
    for (size_t i = 0; i < n; i++)
        if ((running += w[i]) > target)
            return i;
    return n - 1;
}

static double sum(const float *w, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += w[i];
    return total;
}

bool baseline_cuts(const struct baseline *b)
{
    return b->sampling->top_k > 0 || (b->sampling->top_p > 0 && b->sampling->top_p < 1);
}

static int32_t sample_whole(struct baseline *b, double u)
{
    const float *z = b->logits;
    size_t best = 0;
    for (size_t i = 1; i < b->vocab_size; i++)
        if (z[i] > z[best])
            best = i;
    float temperature = (float)b->sampling->temperature;
    if (temperature <= 0)
        return (int32_t)best;
    for (size_t i = 0; i < b->vocab_size; i++)
        b->work[i] = expf((z[i] - z[best]) / temperature);
    return (int32_t)baseline_draw(b->work, b->vocab_size, u * sum(b->work, b->vocab_size));
}

/* The draw in sorted order too: nobody who sorts puts the tokens back for it. */
static int32_t sample_cut(struct baseline *b, double u)
{
    baseline_sort_row(b);
    float temperature = (float)b->sampling->temperature;
    size_t kept = baseline_top_k(b);
    for (size_t i = 0; i < kept; i++)
        b->work[i] = expf((b->sorted[i].z - b->sorted[0].z) / temperature);
    kept = baseline_top_p(b, b->work, kept, sum(b->work, kept));
    return b->sorted[baseline_draw(b->work, kept, u * sum(b->work, kept))].id;
}

static void run(void *context, size_t repeats)
{
    struct baseline *b = context;
    for (size_t i = 0; i < repeats; i++)
        b->token_id =
            baseline_cuts(b) ? sample_cut(b, baseline_uniform(i)) : sample_whole(b, baseline_uniform(i));
}

struct timing_entry baseline_sort_entry(struct baseline *b)
{
    return (struct timing_entry){.run = run, .context = b};
}
