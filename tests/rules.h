#ifndef TESTS_RULES_H
#define TESTS_RULES_H

/* The rules a second time, plainly and in float64: sort everything, then keep, then add up. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Of float32 weights against float64, as a part of a mass: a token this near to top_p may fall either way. */
#define RULES_SLACK 1e-5

/* What a distribution over one row must be.  Ranks count from the likeliest. */
struct rules {
    const float *z; /* [n] */
    size_t n;
    double temperature;
    int32_t *order;     /* [n] token of each rank: by falling logit, then by id */
    int32_t *rank;      /* [n] rank of each token */
    size_t least, most; /* tokens kept: more than least are near the edge */
    double total;       /* weight of `most` tokens */
    double *running;    /* [n] weight of those of them with this id or a lower one */
};

static const float *rules_sorted; /* what rules_compare() compares */

static inline int rules_compare(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    if (rules_sorted[a] != rules_sorted[b])
        return rules_sorted[a] > rules_sorted[b] ? -1 : 1;
    return a < b ? -1 : 1;
}

/* ln of the weight of a token; the likeliest has weight 1. */
static inline double rules_exponent(const struct rules *r, int32_t id)
{
    return ((double)r->z[id] - (double)r->z[r->order[0]]) / r->temperature;
}

static inline double rules_weight(const struct rules *r, int32_t id)
{
    return exp(rules_exponent(r, id));
}

static inline double rules_logprob(const struct rules *r, int32_t id)
{
    return rules_exponent(r, id) - log(r->total);
}

static inline void rules_rank(struct rules *r)
{
    for (size_t i = 0; i < r->n; i++)
        r->order[i] = (int32_t)i;
    rules_sorted = r->z;
    qsort(r->order, r->n, sizeof *r->order, rules_compare);
    for (size_t i = 0; i < r->n; i++)
        r->rank[r->order[i]] = (int32_t)i;
}

static inline void rules_top_k(struct rules *r, double top_k)
{
    r->least = r->most = r->n;
    if (!(top_k > 0 && top_k < (double)r->n))
        return;
    float cut = r->z[r->order[(size_t)top_k - 1]];
    while (r->z[r->order[r->most - 1]] < cut)
        r->most--;
    r->least = r->most;
}

static inline void rules_top_p(struct rules *r, double top_p)
{
    size_t kept = r->most;
    double total = 0.0, mass = 0.0;
    if (!(top_p > 0 && top_p < 1))
        return;
    for (size_t i = 0; i < kept; i++)
        total += rules_weight(r, r->order[i]);
    r->least = r->most = 1;
    for (size_t i = 0; i < kept; i++) {
        mass += rules_weight(r, r->order[i]) / total;
        if (mass <= top_p * (1 - RULES_SLACK))
            r->least = i + 1;
        if (mass <= top_p * (1 + RULES_SLACK))
            r->most = i + 1;
    }
}

/* Of a row that can be sampled; rules_fini() frees what this allocates.  Not thread-safe. */
static inline void rules_init(struct rules *r, const float *z, size_t n, double temperature, double top_k,
                              double top_p)
{
    *r = (struct rules){.z = z, .n = n, .temperature = temperature};
    r->order = malloc(n * sizeof *r->order);
    r->rank = malloc(n * sizeof *r->rank);
    r->running = malloc(n * sizeof *r->running);
    if (r->order == NULL || r->rank == NULL || r->running == NULL)
        abort();
    rules_rank(r);
    rules_top_k(r, top_k);
    rules_top_p(r, top_p);
    for (size_t id = 0; id < n; id++) {
        if ((size_t)r->rank[id] < r->most)
            r->total += rules_weight(r, (int32_t)id);
        r->running[id] = r->total;
    }
}

static inline void rules_fini(struct rules *r)
{
    free(r->order);
    free(r->rank);
    free(r->running);
}

#endif
