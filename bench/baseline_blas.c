#include "bench/baseline.h"

#include <cblas.h>
#include <math.h>

/* The largest logit.  isamax looks for the largest |z|; where that is negative, a row raised by it has no
 * negative number left. */
static size_t argmax(struct baseline *b)
{
    blasint n = (blasint)b->vocab_size;
    size_t found = cblas_isamax(n, b->logits, 1);
    if (b->logits[found] >= 0)
        return found;
    float raise = -b->logits[found];
    cblas_scopy(n, b->logits, 1, b->work, 1);
    cblas_saxpy(n, 1.0f, &raise, 0, b->work, 1);
    return cblas_isamax(n, b->work, 1);
}

/* w[n] = exp((z - max) / temperature), z in w before; returns the sum. */
static double weights(float *w, size_t n, float max, double temperature)
{
    float shift = -max;
    cblas_saxpy((blasint)n, 1.0f, &shift, 0, w, 1);
    cblas_sscal((blasint)n, (float)(1 / temperature), w, 1);
    for (size_t i = 0; i < n; i++)
        w[i] = expf(w[i]);
    return cblas_sasum((blasint)n, w, 1);
}

static int32_t sample_whole(struct baseline *b, double u)
{
    size_t best = argmax(b);
    if (b->sampling->temperature <= 0)
        return (int32_t)best;
    cblas_scopy((blasint)b->vocab_size, b->logits, 1, b->work, 1);
    double total = weights(b->work, b->vocab_size, b->logits[best], b->sampling->temperature);
    return (int32_t)baseline_draw(b->work, b->vocab_size, u * total);
}

static int32_t sample_cut(struct baseline *b, double u)
{
    baseline_sort_row(b);
    size_t kept = baseline_top_k(b);
    for (size_t i = 0; i < kept; i++)
        b->work[i] = b->sorted[i].z;
    double total = weights(b->work, kept, b->sorted[0].z, b->sampling->temperature);
    kept = baseline_top_p(b, b->work, kept, total);
    return b->sorted[baseline_draw(b->work, kept, u * cblas_sasum((blasint)kept, b->work, 1))].id;
}

static void run(void *context, size_t repeats)
{
    struct baseline *b = context;
    bool cut = baseline_cuts(b);
    for (size_t i = 0; i < repeats; i++)
        b->token_id = cut ? sample_cut(b, baseline_uniform(i)) : sample_whole(b, baseline_uniform(i));
}

struct timing_entry baseline_blas_entry(struct baseline *b)
{
    return (struct timing_entry){.run = run, .context = b};
}
