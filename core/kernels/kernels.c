#include "core/kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

extern const struct kernels kernels_generic;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2, kernels_avx512;
const struct kernels *const kernels_tables[] = {&kernels_generic, &kernels_avx2, &kernels_avx512, NULL};
#elif defined(__aarch64__)
extern const struct kernels kernels_neon;
const struct kernels *const kernels_tables[] = {&kernels_generic, &kernels_neon, NULL};
#else
const struct kernels *const kernels_tables[] = {&kernels_generic, NULL};
#endif

struct weight_scale weight_scale_make(float max, double temperature)
{
    const double LOG2_E = 1.4426950408889634;
    float pre = 1.0f;
    if (temperature > 0x1p100)
        pre = 0x1p-2f; /* z - max may reach 2 FLT_MAX, and 1 / temperature be subnormal */
    else if (temperature < 0x1p-64 && fabsf(max) < 0x1p60f)
        pre = 0x1p64f; /* 1 / temperature may pass FLT_MAX */
    double rate = LOG2_E / (temperature * pre);
    return (struct weight_scale){pre, max * pre, rate < FLT_MAX ? (float)rate : FLT_MAX};
}

#define PROBE 600 /* tokens: two groups and a part of one */

/* Logits with ties, masked tokens and a wide range, the same on every machine. */
static void fill_probe(float z[PROBE])
{
    uint32_t state = 1;
    for (size_t i = 0; i < PROBE; i++) {
        state = state * 1664525u + 1013904223u;
        z[i] = state >> 28 == 0 ? -INFINITY : (float)(int32_t)(state >> 8 & 0xfffff) * 0x1p-14f - 40.0f;
    }
}

static bool agrees_with_generic(const struct kernels *k)
{
    const struct kernels *g = &kernels_generic;
    float z[PROBE], lanes[2][KERNELS_LANES], w[2][PROBE];
    double sums[2];
    fill_probe(z);
    float max = g->max(z, PROBE);
    struct weight_scale scale = weight_scale_make(max, 0.8);
    if (k->max(z, PROBE) != max || !g->lane_max(z, PROBE, lanes[0]) || !k->lane_max(z, PROBE, lanes[1]))
        return false;
    g->weights(z, PROBE, scale, w[0]);
    k->weights(z, PROBE, scale, w[1]);
    if (g->sum_weights(z, PROBE, scale, &sums[0]) != k->sum_weights(z, PROBE, scale, &sums[1]))
        return false;
    double exact = g->sum_exp(z, PROBE, max, 0.8);
    return memcmp(lanes[0], lanes[1], sizeof lanes[0]) == 0 && memcmp(w[0], w[1], sizeof w[0]) == 0 &&
           k->sum_exp(z, PROBE, max, 0.8) == exact;
}

static const char *fault_of(const struct kernels *k)
{
    if (!k->supported())
        return "this CPU does not support them";
    if (!agrees_with_generic(k))
        return "they do not agree with the generic ones on this machine";
    return NULL;
}

const struct kernels *kernels_select(const char *name, const char **why)
{
    const struct kernels *best = NULL;
    bool any = strcmp(name, "auto") == 0;
    *why = "this build has none of that name";
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        if (!any && strcmp((*t)->name, name) != 0)
            continue;
        const char *fault = fault_of(*t);
        if (fault == NULL)
            best = *t;
        else if (!any)
            *why = fault;
    }
    return best;
}
