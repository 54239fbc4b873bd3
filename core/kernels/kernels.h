#ifndef CORE_KERNELS_H
#define CORE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The loops that touch every logit of a row.
 *
 * One portable source (kernels_table.c) is compiled once per instruction set; each compilation exports
 * one table, and all tables agree bit for bit, because the shape of every sum is part of its definition:
 *
 *   lane    token i of a block belongs to lane i % KERNELS_LANES
 *   group   KERNELS_GROUP tokens; a lane's 4 values in it are added as (a + b) + (c + d)
 *   block   KERNELS_BLOCK tokens; a lane adds its groups in order, in float32, then the lanes are
 *           widened to float64 and added as a binary tree: lane l + lane l + 32, then + 16, ... + 1
 *   row     its blocks are added in order, in float64
 *
 * A row's end is filled up with -INFINITY, whose weight is 0.  Kernels are thread-safe: they read and
 * write their arguments alone.
 */
#define KERNELS_LANES ((size_t)64)
#define KERNELS_GROUP ((size_t)256)
#define KERNELS_BLOCK ((size_t)2048)

static inline size_t kernels_blocks(size_t n)
{
    return (n + KERNELS_BLOCK - 1) / KERNELS_BLOCK;
}

/*
 * What turns a logit into its unnormalised probability exp((z - max) / temperature).
 *
 *   weight(z) = 2^y,  y = (z * pre - shift) * rate;  0 when y < -126, which is below 1e-38 of the largest
 *
 * pre is a power of two, 1 but for extreme temperatures, where it keeps z - max from overflowing or
 * 1 / temperature from leaving float32.
 */
struct weight_scale {
    float pre;
    float shift; /* max * pre */
    float rate;  /* log2(e) / (temperature * pre) */
};

/* max is finite, temperature > 0 in float32 too. */
struct weight_scale weight_scale_make(float max, double temperature);

/* Sums over a row, of w = weight(z) = 2^y. */
struct kernels_moments {
    double w, wy, ww;
};

/* Sums over the finite z of a row, of d = z - center. */
struct kernels_spread {
    size_t count;
    double d, dd;
};

struct kernels {
    const char *name; /* "generic", "avx2", "avx512", "neon" */
    bool (*supported)(void);

    /* Largest of x[n], n >= 1, no NaN. */
    float (*max)(const float *x, size_t n);

    /*
     * lanes[kernels_blocks(n) * KERNELS_LANES]: the largest value of each lane of each block, -INFINITY
     * where a lane is empty.  Returns false, with lanes unspecified, when z[n] holds a NaN.
     */
    bool (*lane_max)(const float *z, size_t n, float *lanes);

    /* The same, and copy[n] = z[n]. */
    bool (*copy_lane_max)(const float *z, size_t n, float *copy, float *lanes);

    /* w[n] = weight(z[n]).  Relative error <= 1.2e-7 * (1 + |y|). */
    void (*weights)(const float *z, size_t n, struct weight_scale scale, float *w);

    /* block_sums[kernels_blocks(n)] of weight(z), nothing stored; returns their sum. */
    double (*sum_weights)(const float *z, size_t n, struct weight_scale scale, double *block_sums);

    /* The same sum beside those of w y and w^2, in the shape of a row's sum each. */
    struct kernels_moments (*moments)(const float *z, size_t n, struct weight_scale scale);

    /* The same without that of w y, which is 0 then. */
    struct kernels_moments (*squares)(const float *z, size_t n, struct weight_scale scale);

    /* Sums of d and d^2, in that shape; infinite where a square leaves float32. */
    struct kernels_spread (*spread)(const float *z, size_t n, float center);

    /* out[n] = z[n], no NaN, where bit i % 32 of words[i / 32] is set, else -INFINITY; lanes as lane_max().
     */
    void (*mask_lanes)(const float *z, const uint32_t *words, size_t n, float *out, float *lanes);

    /* How many z[n] are >= cut; their w summed in *mass when w is not NULL. */
    size_t (*count_above)(const float *z, const float *w, size_t n, float cut, double *mass);

    /* ids[<= n] of the z[n] with low <= z < high, ascending; returns how many. */
    size_t (*find_between)(const float *z, size_t n, float low, float high, int *ids);

    /* out[n] = the same numbers as x[n], binary16 or bfloat16; exact, NaN stays NaN. */
    void (*widen_f16)(const uint16_t *x, size_t n, float *out);
    void (*widen_bf16)(const uint16_t *x, size_t n, float *out);

    /* z[n] += x[n], where -INFINITY masks; false when a sum is NaN or +INFINITY, or -INFINITY of two finite
     * ones. */
    bool (*add)(float *z, const float *x, size_t n);

    /* out[n] = the same numbers as x[n], `masked` for -INFINITY; false when there is a NaN or a +INFINITY. */
    bool (*widen_f32)(const float *x, size_t n, double masked, double *out);

    /* out[n] = x[n] rounded to nearest, NaN stays NaN; false when a finite one became infinite. */
    bool (*round_f64)(const double *x, size_t n, float *out);

    /* sum_i exp((z_i - max) / temperature) in float64; relative error <= 1e-14. */
    double (*sum_exp)(const float *z, size_t n, double max, double temperature);
};

/* Every table of this build, best last, NULL-terminated. */
extern const struct kernels *const kernels_tables[];

/*
 * The table to use: the one of that name, or with "auto" the best that this CPU supports and that agrees
 * with the generic one.  NULL when there is no such table, or when it is not supported or does not agree;
 * *why then says so in a static text.
 */
const struct kernels *kernels_select(const char *name, const char **why);

#endif
