#include "core/row/distribution.h"

#include "core/kernels/exact_math.h"

#include <assert.h>

#define SORT_AT_ONCE 1024

size_t distribution_scratch_bytes(size_t n)
{
    return rank_scratch_bytes(n) + 4 * n * sizeof(float) + 8 * ARENA_ALIGNMENT +
           (kernels_blocks(n) + 1) * KERNELS_LANES * sizeof(float);
}

void distribution_init(struct distribution *report, struct support *support, double temperature,
                       const struct kernels *kernels)
{
    report->support = support;
    report->rate = 1.0 / temperature;
    report->total = kernels->sum_exp(support->z, support->n, support->max, temperature);
    report->log_total = exact_log(report->total);
}

double distribution_logprob(const struct distribution *report, float z)
{
    return ((double)z - report->support->max) * report->rate - report->log_total;
}

/* Positions, ascending, of at least the `most` largest logits of the support, or of all when there are few.
 */
static size_t likely_positions(struct support *s, size_t most, const struct kernels *kernels,
                               struct arena *scratch, int32_t *positions)
{
    if (s->n > SORT_AT_ONCE && most < s->n) {
        const float *lanes = support_lanes(s, kernels);
        return rank_top(kernels, s->z, lanes, s->n, most, positions, scratch);
    }
    for (size_t i = 0; i < s->n; i++)
        positions[i] = (int32_t)i;
    return s->n;
}

size_t distribution_candidates(const struct distribution *report, size_t most, const struct kernels *kernels,
                               struct arena *scratch, int32_t *ids, double *probs, double *logprobs)
{
    struct support *s = report->support;
    if (most == 0)
        return 0;
    int32_t *positions = arena_alloc(scratch, s->n, sizeof *positions);
    assert(positions != NULL);
    size_t n = likely_positions(s, most, kernels, scratch, positions);
    float *z = arena_alloc(scratch, n, sizeof *z);
    struct ranked *order = arena_alloc(scratch, n, sizeof *order);
    assert(z != NULL && order != NULL);
    for (size_t i = 0; i < n; i++)
        z[i] = s->z[positions[i]];
    rank_sort(z, n, order, scratch);
    size_t count = 0;
    for (; count < most && count < n; count++) {
        int32_t at = order[count].position;
        double prob = exact_exp(((double)z[at] - s->max) * report->rate) / report->total;
        if (!(prob > 0.0))
            break;
        ids[count] = support_id(s, (size_t)positions[at]);
        probs[count] = prob;
        logprobs[count] = distribution_logprob(report, z[at]);
    }
    return count;
}
