/*
 * Compiled once per instruction set with KERNELS_TABLE (the symbol) and KERNELS_NAME (its name) defined.
 * Plain C in loops over 64 lanes, which gcc and clang turn into that set's vectors.  Nothing here may depend
 * on a vector's width: see kernels.h for the shape of every sum.
 */
#include "core/base/bits.h"
#include "core/kernels/exact_math.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vectors.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES      KERNELS_LANES
#define GROUP      KERNELS_GROUP
#define BLOCK      KERNELS_BLOCK
#define GROUP_ROWS (GROUP / LANES)

_Static_assert(GROUP_ROWS == 4 && BLOCK % GROUP == 0 && GROUP % LANES == 0,
               "the sums below are written out for 4");

extern const struct kernels KERNELS_TABLE;

static bool supported(void)
{
#if defined(__AVX512F__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("fma");
#elif defined(__AVX2__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
    return true;
#endif
}

static inline float larger(float a, float b)
{
    return a > b ? a : b;
}

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One whole group of z: at z itself, or at pad, filled up with `fill`, where the row ends inside the group.
 */
static const float *whole_group(const float *z, size_t left, float fill, float pad[GROUP])
{
    if (left >= GROUP)
        return z;
    memcpy(pad, z, left * sizeof *z);
    for (size_t i = left; i < GROUP; i++)
        pad[i] = fill;
    return pad;
}

static float max(const float *x, size_t n)
{
    float lanes[LANES];
    for (size_t l = 0; l < LANES; l++)
        lanes[l] = -INFINITY;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = larger(x[i + l], lanes[l]);
    float m = -INFINITY;
    for (; i < n; i++)
        m = larger(x[i], m);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lanes[l] = larger(lanes[l + half], lanes[l]);
    return larger(lanes[0], m);
}

static bool has_nan(const float *z, size_t n)
{
    int found = 0;
    for (size_t i = 0; i < n; i++)
        found |= z[i] != z[i];
    return found != 0;
}

/* The end of a block: its lanes' maxima are told, and whether their sums give cause to look for a NaN. */
static bool close_lanes(const float best[LANES], const float sum[LANES], const float *z, size_t n,
                        float *restrict lanes)
{
    int suspect = 0;
    for (size_t l = 0; l < LANES; l++) {
        lanes[l] = best[l];
        suspect |= sum[l] != sum[l];
    }
    return !suspect || !has_nan(z, n);
}

/*
 * A sum is NaN if a term is, so adding up the block finds a NaN for one addition a token.  It is also NaN
 * when +inf meets -inf (a masked token beside finite ones that overflow): then the block is looked at again.
 */
static bool block_lane_max(const float *z, size_t n, float *restrict lanes)
{
    float pad[GROUP], best[LANES], sum[LANES];
    for (size_t l = 0; l < LANES; l++) {
        best[l] = -INFINITY;
        sum[l] = 0.0f;
    }
    for (size_t i = 0; i < n; i += GROUP) {
        const float *g = whole_group(z + i, n - i, -INFINITY, pad);
        for (size_t l = 0; l < LANES; l++) {
            float a = g[l], b = g[LANES + l], c = g[2 * LANES + l], d = g[3 * LANES + l];
            best[l] = larger(larger(larger(a, b), larger(c, d)), best[l]);
            sum[l] += (a + b) + (c + d);
        }
    }
    return close_lanes(best, sum, z, n, lanes);
}

#if defined(__AVX2__)
#define VECTORS (LANES / VECTOR_TOKENS) /* that hold one value a lane */
#define SUMS    2 /* more would not fit into 16 registers beside 8 maxima and 4 tokens */

/*
 * The same for a whole block; a NaN may turn up in any sum, so all lanes share two.  By intrinsics, since gcc
 * reads every token twice in the loop above, for the maximum and for the sum, and keeps the lanes in memory.
 */
static inline bool whole_block_lanes(const float *z, float *copy, float *restrict lanes)
{
    float sum[LANES] = {0};
    vector best[VECTORS], s[SUMS] = {vector_all(0.0f), vector_all(0.0f)};
    for (size_t v = 0; v < VECTORS; v++)
        best[v] = vector_all(-INFINITY);
    for (const float *g = z; g < z + BLOCK; g += GROUP) {
        for (size_t v = 0; v < VECTORS; v++) {
            const float *first = g + v * VECTOR_TOKENS;
            vector a = vector_load(first), b = vector_load(first + LANES);
            vector c = vector_load(first + 2 * LANES), d = vector_load(first + 3 * LANES);
            __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d)); /* in registers: read once */
            if (copy != NULL) {
                float *to = copy + (first - z);
                vector_store(to, a);
                vector_store(to + LANES, b);
                vector_store(to + 2 * LANES, c);
                vector_store(to + 3 * LANES, d);
            }
            best[v] = vector_max(vector_max(vector_max(a, b), vector_max(c, d)), best[v]);
            s[v % SUMS] = vector_add(s[v % SUMS], vector_add(vector_add(a, b), vector_add(c, d)));
        }
    }
    memcpy(sum, s, sizeof s);
    return close_lanes((const float *)best, sum, z, BLOCK, lanes);
}
#else
static inline bool whole_block_lanes(const float *z, float *copy, float *restrict lanes)
{
    if (copy != NULL)
        memcpy(copy, z, BLOCK * sizeof *z);
    return block_lane_max(z, BLOCK, lanes);
}
#endif

static bool lane_max(const float *z, size_t n, float *lanes)
{
    bool clean = true;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK, lanes += LANES)
        clean &= whole_block_lanes(z + i, NULL, lanes);
    if (i < n)
        clean &= block_lane_max(z + i, n - i, lanes);
    return clean;
}

static bool copy_lane_max(const float *z, size_t n, float *copy, float *lanes)
{
    bool clean = true;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK, lanes += LANES)
        clean &= whole_block_lanes(z + i, copy + i, lanes);
    if (i < n)
        clean &= block_lane_max(z + i, n - i, lanes);
    memcpy(copy + i, z + i, (n - i) * sizeof *z);
    return clean;
}

/*
 * 2^y = 2^n 2^f, n whole and |f| <= 1/2.  Adding 1.5 * 2^23 rounds y to n and leaves n in the low bits, from
 * where a shift adds it to the exponent.  2^f by the polynomial of degree 6 with p(0) = 1 that minimises the
 * largest relative error on [-1/2, 1/2] (Remez exchange): 2.0e-9, so rounding dominates.
 */
static inline float exponent(float z, struct weight_scale k)
{
    return fmaf(z, k.pre, -k.shift) * k.rate;
}

static inline float power_of_two(float y)
{
    const float ROUNDER = 0x1.8p23f;
    float shifted = y + ROUNDER;
    float f = y - (shifted - ROUNDER);
    float p = 0x1.41fbbcp-13f;
    p = fmaf(p, f, 0x1.5f3e52p-10f);
    p = fmaf(p, f, 0x1.3b2d4cp-7f);
    p = fmaf(p, f, 0x1.c6aee8p-5f);
    p = fmaf(p, f, 0x1.ebfbdcp-3f);
    p = fmaf(p, f, 0x1.62e430p-1f);
    p = fmaf(p, f, 1.0f);
    uint32_t w = bits_of_float(p) + (bits_of_float(shifted) << 23);
    /* a masked token has y = -inf, or NaN where rate is 0; both fail the comparison */
    return bits_to_float(w & -(uint32_t)(y >= -126.0f));
}

static inline float weight(float z, struct weight_scale k)
{
    return power_of_two(exponent(z, k));
}

static void weights(const float *z, size_t n, struct weight_scale scale, float *restrict w)
{
    float pad[GROUP], out[GROUP];
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        for (size_t l = 0; l < GROUP; l++)
            w[i + l] = weight(z[i + l], scale);
    if (i < n) {
        const float *g = whole_group(z + i, n - i, -INFINITY, pad);
        for (size_t l = 0; l < GROUP; l++)
            out[l] = weight(g[l], scale);
        memcpy(w + i, out, (n - i) * sizeof *w);
    }
}

/* The end of every block sum. */
static double add_lanes(const float lanes[LANES])
{
    double sum[LANES];
    for (size_t l = 0; l < LANES; l++)
        sum[l] = lanes[l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

static double block_sum_weights(const float *z, size_t n, struct weight_scale scale)
{
    float pad[GROUP], sum[LANES] = {0};
    for (size_t i = 0; i < n; i += GROUP) {
        const float *g = whole_group(z + i, n - i, -INFINITY, pad);
        for (size_t l = 0; l < LANES; l++) {
            float a = weight(g[l], scale), b = weight(g[LANES + l], scale);
            float c = weight(g[2 * LANES + l], scale), d = weight(g[3 * LANES + l], scale);
            sum[l] += (a + b) + (c + d);
        }
    }
    return add_lanes(sum);
}

static double sum_weights(const float *z, size_t n, struct weight_scale scale, double *block_sums)
{
    double total = 0.0;
    for (size_t i = 0; i < n; i += BLOCK) {
        double sum = block_sum_weights(z + i, smaller_size(BLOCK, n - i), scale);
        *block_sums++ = sum;
        total += sum;
    }
    return total;
}

/* 0 for the exponent of a weight of 0, which may be infinite, so that their product is 0. */
static inline float finite_exponent(float y)
{
    return bits_to_float(bits_of_float(y) & -(uint32_t)(y >= -126.0f));
}

/* with_log: the sum of w y is asked for, too. */
static inline void block_moments(const float *z, size_t n, struct weight_scale scale, bool with_log,
                                 struct kernels_moments *sums)
{
    float pad[GROUP], sum_w[LANES] = {0}, sum_wy[LANES] = {0}, sum_ww[LANES] = {0};
    for (size_t i = 0; i < n; i += GROUP) {
        const float *g = whole_group(z + i, n - i, -INFINITY, pad);
        for (size_t l = 0; l < LANES; l++) {
            float ya = exponent(g[l], scale), yb = exponent(g[LANES + l], scale);
            float yc = exponent(g[2 * LANES + l], scale), yd = exponent(g[3 * LANES + l], scale);
            float a = power_of_two(ya), b = power_of_two(yb), c = power_of_two(yc), d = power_of_two(yd);
            sum_w[l] += (a + b) + (c + d);
            sum_ww[l] += (a * a + b * b) + (c * c + d * d);
            if (with_log)
                sum_wy[l] += (a * finite_exponent(ya) + b * finite_exponent(yb)) +
                             (c * finite_exponent(yc) + d * finite_exponent(yd));
        }
    }
    sums->w += add_lanes(sum_w);
    sums->ww += add_lanes(sum_ww);
    if (with_log)
        sums->wy += add_lanes(sum_wy);
}

static struct kernels_moments moments(const float *z, size_t n, struct weight_scale scale)
{
    struct kernels_moments sums = {0};
    for (size_t i = 0; i < n; i += BLOCK)
        block_moments(z + i, smaller_size(BLOCK, n - i), scale, true, &sums);
    return sums;
}

static struct kernels_moments squares(const float *z, size_t n, struct weight_scale scale)
{
    struct kernels_moments sums = {0};
    for (size_t i = 0; i < n; i += BLOCK)
        block_moments(z + i, smaller_size(BLOCK, n - i), scale, false, &sums);
    return sums;
}

/* d of each token, or 0 where it is masked. */
static inline float distance_to(float z, float center)
{
    return bits_to_float(bits_of_float(z - center) & -(uint32_t)(z > -INFINITY));
}

static size_t count_finite(const float *z, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += z[i] > -INFINITY;
    return (size_t)count;
}

/* The sums of a block in which tokens may be masked, or not: then they are infinite where one is. */
static inline void block_spread(const float *z, size_t n, float center, bool masked,
                                struct kernels_spread *out)
{
    float pad[GROUP], sum[LANES] = {0}, squares_of[LANES] = {0};
    for (size_t i = 0; i < n; i += GROUP) {
        const float *g = whole_group(z + i, n - i, center, pad);
        for (size_t l = 0; l < LANES; l++) {
            float a = masked ? distance_to(g[l], center) : g[l] - center;
            float b = masked ? distance_to(g[LANES + l], center) : g[LANES + l] - center;
            float c = masked ? distance_to(g[2 * LANES + l], center) : g[2 * LANES + l] - center;
            float d = masked ? distance_to(g[3 * LANES + l], center) : g[3 * LANES + l] - center;
            sum[l] += (a + b) + (c + d);
            squares_of[l] += (a * a + b * b) + (c * c + d * d);
        }
    }
    *out = (struct kernels_spread){masked ? count_finite(z, n) : n, add_lanes(sum), add_lanes(squares_of)};
}

#if defined(__AVX2__)
/* The same for a whole block of which no token is masked, lane by lane with the sums in registers. */
static void whole_block_spread(const float *z, float center, struct kernels_spread *out)
{
    float sum[LANES], squares_of[LANES];
    vector at = vector_all(center);
    for (size_t v = 0; v < LANES; v += VECTOR_TOKENS) {
        vector s = vector_all(0.0f), q = s;
        for (const float *g = z + v; g < z + BLOCK; g += GROUP) {
            vector a = vector_sub(vector_load(g), at), b = vector_sub(vector_load(g + LANES), at);
            vector c = vector_sub(vector_load(g + 2 * LANES), at),
                   d = vector_sub(vector_load(g + 3 * LANES), at);
            s = vector_add(s, vector_add(vector_add(a, b), vector_add(c, d)));
            vector ab = vector_add(vector_mul(a, a), vector_mul(b, b));
            q = vector_add(q, vector_add(ab, vector_add(vector_mul(c, c), vector_mul(d, d))));
        }
        vector_store(sum + v, s);
        vector_store(squares_of + v, q);
    }
    *out = (struct kernels_spread){BLOCK, add_lanes(sum), add_lanes(squares_of)};
}
#else
static void whole_block_spread(const float *z, float center, struct kernels_spread *out)
{
    block_spread(z, BLOCK, center, false, out);
}
#endif

static struct kernels_spread spread(const float *z, size_t n, float center)
{
    struct kernels_spread sums = {0}, block;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t in_block = smaller_size(BLOCK, n - i);
        if (in_block == BLOCK)
            whole_block_spread(z + i, center, &block);
        else
            block_spread(z + i, in_block, center, false, &block);
        if (!(block.d > (double)-INFINITY))
            block_spread(z + i, in_block, center, true, &block);
        sums.count += block.count;
        sums.d += block.d;
        sums.dd += block.dd;
    }
    return sums;
}

/* `size` tokens, of which one word or two hold the bits, a whole number of vectors. */
#if defined(__AVX2__)
static inline void mask_row(const float *z, uint64_t bits, float *out, float *best)
{
    for (size_t v = 0; v < VECTORS; v++) {
        size_t first = v * VECTOR_TOKENS;
        vector x = vector_masked(vector_load(z + first), (unsigned)(bits >> first));
        vector_store(out + first, x);
        vector_store(best + first, vector_max(x, vector_load(best + first)));
    }
}
#else
static inline void mask_row(const float *z, uint64_t bits, float *out, float *best)
{
    for (size_t l = 0; l < LANES; l++) {
        out[l] = bits >> l & 1 ? z[l] : -INFINITY;
        best[l] = larger(out[l], best[l]);
    }
}
#endif

/* The bits of up to 64 tokens. */
static uint64_t bits_at(const uint32_t *words, size_t n)
{
    return n > 32 ? words[0] | (uint64_t)words[1] << 32 : words[0];
}

static void mask_lanes(const float *z, const uint32_t *words, size_t n, float *out, float *lanes)
{
    float best[LANES], end[LANES];
    for (size_t i = 0; i < n; i += BLOCK, lanes += LANES) {
        size_t stop = smaller_size(i + BLOCK, n), j = i;
        for (size_t l = 0; l < LANES; l++)
            best[l] = -INFINITY;
        for (; j + LANES <= stop; j += LANES)
            mask_row(z + j, bits_at(words + j / 32, LANES), out + j, best);
        if (j < stop) {
            for (size_t l = 0; l < LANES; l++)
                end[l] = j + l < stop ? z[j + l] : -INFINITY;
            mask_row(end, bits_at(words + j / 32, stop - j), end, best);
            memcpy(out + j, end, (stop - j) * sizeof *out);
        }
        memcpy(lanes, best, sizeof best);
    }
}

static size_t count_only(const float *z, size_t n, float cut)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t end = smaller_size(i + BLOCK, n);
        int32_t in_block = 0;
        for (size_t j = i; j < end; j++)
            in_block += z[j] >= cut;
        count += (size_t)in_block;
    }
    return count;
}

static size_t block_count_mass(const float *z, const float *w, size_t n, float cut, double *mass)
{
    float pad_z[GROUP], pad_w[GROUP], sum[LANES] = {0};
    int32_t count[LANES] = {0};
    for (size_t i = 0; i < n; i += GROUP) {
        const float *g = whole_group(z + i, n - i, NAN, pad_z); /* NaN is above no cut */
        const float *v = whole_group(w + i, n - i, 0.0f, pad_w);
        for (size_t l = 0; l < LANES; l++) {
            bool a = g[l] >= cut, b = g[LANES + l] >= cut;
            bool c = g[2 * LANES + l] >= cut, d = g[3 * LANES + l] >= cut;
            float x = (a ? v[l] : 0.0f) + (b ? v[LANES + l] : 0.0f);
            float y = (c ? v[2 * LANES + l] : 0.0f) + (d ? v[3 * LANES + l] : 0.0f);
            sum[l] += x + y;
            count[l] += a + b + c + d;
        }
    }
    int32_t counted = 0;
    for (size_t l = 0; l < LANES; l++)
        counted += count[l];
    *mass += add_lanes(sum);
    return (size_t)counted;
}

static size_t count_above(const float *z, const float *w, size_t n, float cut, double *mass)
{
    if (w == NULL)
        return count_only(z, n, cut);
    size_t count = 0;
    *mass = 0.0;
    for (size_t i = 0; i < n; i += BLOCK)
        count += block_count_mass(z + i, w + i, smaller_size(BLOCK, n - i), cut, mass);
    return count;
}

/*
 * The one loop that compilers do not turn into vectors: what a vector keeps moves to its front, four vectors
 * at a time, since most keep nothing.  By intrinsics, `make bench` shows it 9 times as fast with AVX-512 and
 * 3 times with AVX2 as the loop that ends it.
 */
#if defined(__AVX2__)
static size_t find_in_vectors(const float *z, size_t n, float low, float high, int *restrict ids,
                              size_t *found)
{
    size_t i = 0, count = 0;
    for (; i + 4 * VECTOR_TOKENS <= n; i += 4 * VECTOR_TOKENS) {
        unsigned kept[4], any = 0;
        for (size_t v = 0; v < 4; v++)
            any |= kept[v] = vector_between(z + i + v * VECTOR_TOKENS, low, high);
        if (any == 0)
            continue;
        for (size_t v = 0; v < 4; v++) { /* count <= i, so a whole vector ends within ids[n] */
            vector_store_ids(ids + count, kept[v], i + v * VECTOR_TOKENS);
            count += (size_t)__builtin_popcount(kept[v]);
        }
    }
    *found = count;
    return i;
}
#else
static size_t find_in_vectors(const float *z, size_t n, float low, float high, int *restrict ids,
                              size_t *found)
{
    (void)z, (void)n, (void)low, (void)high, (void)ids;
    *found = 0;
    return 0;
}
#endif

static size_t find_between(const float *z, size_t n, float low, float high, int *restrict ids)
{
    size_t found;
    for (size_t i = find_in_vectors(z, n, low, high, ids, &found); i < n; i++) {
        ids[found] = (int)i; /* overwritten unless kept: no branch to mispredict */
        found += (z[i] >= low) & (z[i] < high);
    }
    return found;
}

static double sum_exp(const float *z, size_t n, double largest, double temperature)
{
    double lanes[LANES] = {0}, rate = 1.0 / temperature;
    float pad[GROUP];
    for (size_t i = 0; i < n; i += GROUP) {
        const float *g = whole_group(z + i, n - i, -INFINITY, pad);
        for (size_t j = 0; j < GROUP; j += LANES)
            for (size_t l = 0; l < LANES; l++)
                lanes[l] += exact_exp(((double)g[j + l] - largest) * rate);
    }
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

static void widen_bf16(const uint16_t *x, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bits_to_float((uint32_t)x[i] << 16);
}

/*
 * Exponent and fraction, moved to a float's places, count 2^-112 too little, subnormal ones as well; the
 * product is exact. Infinities and NaN have an exponent of all ones in both.
 */
static void widen_f16(const uint16_t *x, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sign = (uint32_t)(x[i] & 0x8000) << 16, size = (uint32_t)(x[i] & 0x7fff) << 13;
        uint32_t finite = bits_of_float(bits_to_float(size) * 0x1p112f);
        uint32_t beyond = -(uint32_t)(size >= 0x0f800000u);
        out[i] = bits_to_float(sign | (finite & ~beyond) | ((size | 0x7f800000u) & beyond));
    }
}

static bool add(float *restrict z, const float *restrict x, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        float sum = z[i] + x[i];
        int fine = sum < INFINITY, masked = (z[i] == -INFINITY) | (x[i] == -INFINITY);
        bad |= (fine ^ 1) | ((sum == -INFINITY) & (masked ^ 1));
        z[i] = sum;
    }
    return bad == 0;
}

static bool widen_f32(const float *restrict x, size_t n, double masked, double *restrict out)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        double wide = (double)x[i];
        bad |= !(wide < (double)INFINITY);
        out[i] = wide == (double)-INFINITY ? masked : wide;
    }
    return bad == 0;
}

static bool round_f64(const double *restrict x, size_t n, float *restrict out)
{
    int overflowed = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)x[i];
        overflowed |= (fabsf(out[i]) == INFINITY) & (fabs(x[i]) < (double)INFINITY);
    }
    return overflowed == 0;
}

const struct kernels KERNELS_TABLE = {
    .name = KERNELS_NAME,
    .supported = supported,
    .max = max,
    .lane_max = lane_max,
    .copy_lane_max = copy_lane_max,
    .weights = weights,
    .sum_weights = sum_weights,
    .moments = moments,
    .squares = squares,
    .spread = spread,
    .mask_lanes = mask_lanes,
    .count_above = count_above,
    .find_between = find_between,
    .widen_f16 = widen_f16,
    .widen_bf16 = widen_bf16,
    .add = add,
    .widen_f32 = widen_f32,
    .round_f64 = round_f64,
    .sum_exp = sum_exp,
};
