/* Every table against the generic one, bit for bit; and the generic one against float64. */
#include "core/kernels/kernels.h"

#include "tests/support.h"

#include <float.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST     128256
#define GOLDEN_BITS UINT64_C(0xfd6ee48a64c4aedd)

/* Memory whose last byte is the last before a page that may not be touched. */
static char *guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    char *base = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_int_eq(mprotect(base + pages * page, page, PROT_NONE), 0);
    return base + pages * page - bytes;
}

static char *end_of_guarded; /* of LONGEST + 16 floats: inputs end here */

/* n floats that end `back` floats before the guard page: every alignment a float can have. */
static float *input(size_t n, size_t back)
{
    return (float *)(void *)end_of_guarded - n - back;
}

enum shape { SHAPE_NORMAL, SHAPE_MASKED, SHAPE_TIES, SHAPE_TINY, SHAPE_HUGE, NUM_SHAPES };

static float next_of_shape(enum shape shape, uint64_t *state)
{
    static const float tiny[] = {0.0f, -0.0f, 1e-45f, -1e-45f, 1e-39f, -1e-39f, FLT_MIN, -FLT_MIN};
    float x = next_logit(state, 3.0);
    switch (shape) {
    case SHAPE_MASKED:
        return next_word(state) % 3 == 0 ? -INFINITY : x;
    case SHAPE_TIES:
        return (float)(int)x;
    case SHAPE_TINY:
        return tiny[next_word(state) % 8];
    case SHAPE_HUGE:
        return x * (next_word(state) % 2 ? 1e37f : 1.0f);
    default:
        return x;
    }
}

static void fill(float *z, size_t n, enum shape shape, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        z[i] = next_of_shape(shape, &seed);
    z[next_word(&seed) % n] = 1.0f; /* at least one token is not masked */
}

/* What one table makes of one row. */
struct outcome {
    float max, *lanes, *w;
    int *ids;
    double sums[LONGEST / KERNELS_BLOCK + 1], total, mass, exact;
    size_t count, found, between, largest;
    struct kernels_moments moments;
    struct kernels_spread spread;
    float *bits, *masked_lanes;
    bool clean;
};

static struct outcome outcomes[2];

static void run(const struct kernels *k, const float *z, size_t n, double temperature, struct outcome *o)
{
    o->max = k->max(z, n);
    o->clean = k->lane_max(z, n, o->lanes);
    struct weight_scale scale = weight_scale_make(o->max, temperature);
    k->weights(z, n, scale, o->w);
    o->total = k->sum_weights(z, n, scale, o->sums);
    float cut = z[n / 2];
    o->count = k->count_above(z, o->w, n, cut, &o->mass);
    ck_assert_uint_eq(k->count_above(z, NULL, n, cut, NULL), o->count);
    o->found = k->find_between(z, n, cut, INFINITY, o->ids);
    o->between = k->find_between(z, n, cut, cut + 0.5f, o->ids + o->found);
    o->largest = k->find_between(z, n, o->max, INFINITY, o->ids + o->found + o->between);
    o->exact = k->sum_exp(z, n, o->max, temperature);
    o->moments = k->moments(z, n, scale);
    struct kernels_moments squares = k->squares(z, n, scale);
    ck_assert(o->moments.w == o->total && squares.w == o->total && squares.ww == o->moments.ww);
    o->spread = k->spread(z, n, z[n / 3] > -INFINITY ? z[n / 3] : 0.0f);
    static uint32_t words[LONGEST / 32 + 1];
    for (size_t i = 0; i < n / 32 + 1; i++)
        words[i] = (uint32_t)(i + 1) * 0x9e3779b1u;
    ck_assert(k->copy_lane_max(z, n, o->bits, o->masked_lanes));
    ck_assert_mem_eq(o->bits, z, n * sizeof *z);
    ck_assert_mem_eq(o->masked_lanes, o->lanes, kernels_blocks(n) * KERNELS_LANES * sizeof(float));
    k->mask_lanes(z, words, n, o->bits, o->masked_lanes);
    float *lanes = malloc(kernels_blocks(n) * KERNELS_LANES * sizeof *lanes);
    ck_assert(k->lane_max(o->bits, n, lanes));
    for (size_t i = 0; i < kernels_blocks(n) * KERNELS_LANES; i++)
        ck_assert(o->masked_lanes[i] == lanes[i]);
    free(lanes);
    for (size_t i = 0; i < n; i++)
        ck_assert(o->bits[i] == (words[i / 32] >> i % 32 & 1 ? z[i] : -INFINITY));
}

static void check_equal(const struct outcome *a, const struct outcome *b, size_t n, const char *name)
{
    size_t blocks = kernels_blocks(n);
    ck_assert_msg(memcmp(&a->max, &b->max, sizeof a->max) == 0 || a->max == b->max, "%s: max of %zu", name,
                  n);
    ck_assert_msg(a->clean && b->clean, "%s: NaN seen in %zu", name, n);
    for (size_t i = 0; i < blocks * KERNELS_LANES; i++)
        ck_assert_msg(a->lanes[i] == b->lanes[i], "%s: lane %zu of %zu", name, i, n);
    ck_assert_msg(memcmp(a->w, b->w, n * sizeof *a->w) == 0, "%s: weights of %zu", name, n);
    ck_assert_msg(memcmp(a->sums, b->sums, blocks * sizeof a->sums[0]) == 0, "%s: sums of %zu", name, n);
    ck_assert_msg(a->total == b->total && a->mass == b->mass && a->exact == b->exact, "%s: totals of %zu",
                  name, n);
    ck_assert_msg(memcmp(&a->moments, &b->moments, sizeof a->moments) == 0, "%s: moments of %zu", name, n);
    ck_assert_msg(memcmp(&a->spread, &b->spread, sizeof a->spread) == 0, "%s: spread of %zu", name, n);
    ck_assert_msg(a->count == b->count && a->found == b->found && a->found == a->count, "%s: counts of %zu",
                  name, n);
    size_t ids = a->found + a->between + a->largest;
    ck_assert_msg(a->between == b->between && a->largest == b->largest &&
                      memcmp(a->ids, b->ids, ids * sizeof *a->ids) == 0,
                  "%s: ids of %zu", name, n);
}

static void compare_tables(const float *z, size_t n, double temperature)
{
    run(kernels_tables[0], z, n, temperature, &outcomes[0]);
    for (const struct kernels *const *t = kernels_tables + 1; *t != NULL; t++) {
        if (!(*t)->supported())
            continue;
        run(*t, z, n, temperature, &outcomes[1]);
        check_equal(&outcomes[0], &outcomes[1], n, (*t)->name);
    }
}

static void setup(void)
{
    end_of_guarded = guarded((LONGEST + 16) * sizeof(float)) + (LONGEST + 16) * sizeof(float);
    for (int i = 0; i < 2; i++) {
        outcomes[i].lanes = malloc(kernels_blocks(LONGEST) * KERNELS_LANES * sizeof(float));
        outcomes[i].bits = malloc(LONGEST * sizeof(float));
        outcomes[i].masked_lanes = malloc(kernels_blocks(LONGEST) * KERNELS_LANES * sizeof(float));
        outcomes[i].w = malloc(LONGEST * sizeof(float));
        outcomes[i].ids = malloc(3 * LONGEST * sizeof(int));
    }
}

START_TEST(tables_agree_at_each_length)
{
    for (size_t n = 1; n <= 300; n++) {
        float *z = input(n, 0);
        fill(z, n, (enum shape)(n % NUM_SHAPES), n);
        compare_tables(z, n, 0.8);
    }
}
END_TEST

START_TEST(tables_agree_at_each_alignment)
{
    for (size_t back = 0; back < 16; back++) {
        for (int shape = 0; shape < NUM_SHAPES; shape++) {
            size_t n = 2048 + 300 + back;
            float *z = input(n, back);
            fill(z, n, (enum shape)shape, back);
            compare_tables(z, n, shape == SHAPE_HUGE ? 1e36 : 0.7);
        }
    }
}
END_TEST

START_TEST(tables_agree_on_a_long_row)
{
    for (int shape = 0; shape < NUM_SHAPES; shape++) {
        float *z = input(LONGEST, (size_t)shape);
        fill(z, LONGEST, (enum shape)shape, 1000 + (uint64_t)shape);
        compare_tables(z, LONGEST, 1.3);
    }
}
END_TEST

START_TEST(tables_agree_at_extreme_temperatures)
{
    static const double temperatures[] = {1.5e-45, 1e-38, 1e-30, 1e-20, 1e-6, 1e6, 1e30, 1e38, 3.4e38, 1e300};
    for (size_t t = 0; t < sizeof temperatures / sizeof temperatures[0]; t++) {
        for (int shape = 0; shape < NUM_SHAPES; shape++) {
            float *z = input(777, 1);
            fill(z, 777, (enum shape)shape, t);
            compare_tables(z, 777, temperatures[t]);
        }
    }
}
END_TEST

static uint64_t fnv1a(uint64_t hash, const void *data, size_t bytes)
{
    for (const unsigned char *p = data; bytes > 0; bytes--)
        hash = (hash ^ *p++) * UINT64_C(0x100000001b3);
    return hash;
}

/* The bits themselves, so that no compiler, flag or CPU can change them unseen. */
START_TEST(bits_are_these)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int shape = 0; shape < NUM_SHAPES; shape++) {
        float *z = input(5000, 0);
        fill(z, 5000, (enum shape)shape, 77);
        struct outcome *o = &outcomes[0];
        run(kernels_tables[0], z, 5000, 0.8, o);
        hash = fnv1a(hash, o->w, 5000 * sizeof *o->w);
        hash = fnv1a(hash, o->sums, kernels_blocks(5000) * sizeof o->sums[0]);
        hash = fnv1a(hash, &o->total, sizeof o->total);
        hash = fnv1a(hash, &o->exact, sizeof o->exact);
        hash = fnv1a(hash, &o->mass, sizeof o->mass);
    }
    ck_assert_msg(hash == GOLDEN_BITS, "the bits are now %#llx", (unsigned long long)hash);
}
END_TEST

/* weight() against float64, at every temperature class. */
START_TEST(weights_are_right)
{
    static const double temperatures[] = {1.5e-45, 1e-38, 1e-20, 1e-3, 0.7, 1.0, 5.0, 1e20, 1e38};
    const struct kernels *k = kernels_tables[0];
    for (size_t t = 0; t < sizeof temperatures / sizeof temperatures[0]; t++) {
        double temperature = temperatures[t];
        float z[500], w[500];
        uint64_t state = t;
        for (size_t i = 0; i < 500; i++)
            z[i] = (float)(-90.0 * (double)i / 499.0 * (temperature < 1e37 ? temperature : 1e36));
        z[499] = -INFINITY;
        (void)next_word(&state);
        k->weights(z, 500, weight_scale_make(0.0f, temperature), w);
        for (size_t i = 0; i < 500; i++) {
            double x = (double)z[i] / temperature, exact = exp(x);
            if (exact < 0x1p-125)
                ck_assert_double_lt(w[i], 0x1p-124);
            else
                ck_assert_msg(fabs(w[i] / exact - 1) <= 1.2e-7 * (1 - 1.4427 * x),
                              "T=%g z=%g: %.9g, not %.9g", temperature, z[i], w[i], exact);
        }
        ck_assert_float_eq(w[0], 1.0f);
        ck_assert_float_eq(w[499], 0.0f);
    }
}
END_TEST

START_TEST(sums_are_right)
{
    const struct kernels *k = kernels_tables[0];
    float *z = input(LONGEST, 0);
    fill(z, LONGEST, SHAPE_MASKED, 5);
    run(k, z, LONGEST, 0.9, &outcomes[0]);
    double exact = 0, blocks = 0;
    for (size_t i = 0; i < LONGEST; i++)
        exact += exp(((double)z[i] - outcomes[0].max) / 0.9);
    for (size_t b = 0; b < kernels_blocks(LONGEST); b++)
        blocks += outcomes[0].sums[b];
    ck_assert_double_eq(blocks, outcomes[0].total);
    ck_assert_msg(fabs(outcomes[0].total / exact - 1) < 1e-6, "%.9g, not %.9g", outcomes[0].total, exact);
    ck_assert_msg(fabs(outcomes[0].exact / exact - 1) < 1e-13, "%.17g, not %.17g", outcomes[0].exact, exact);
}
END_TEST

START_TEST(nan_is_seen_anywhere)
{
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        if (!(*t)->supported())
            continue;
        for (size_t n = 1; n <= 2500; n = n < 300 ? n + 1 : n + 733) {
            float *z = input(n, 0);
            fill(z, n, SHAPE_MASKED, n);
            for (size_t i = 0; i<n; i += n> 300 ? 7 : 1) {
                float before = z[i];
                z[i] = i % 2 ? NAN : -NAN;
                ck_assert_msg(!(*t)->lane_max(z, n, outcomes[0].lanes), "%s: NaN at %zu of %zu", (*t)->name,
                              i, n);
                z[i] = before;
            }
            ck_assert((*t)->lane_max(z, n, outcomes[0].lanes));
        }
    }
}
END_TEST

/* Finite logits whose sum overflows beside masked ones: the NaN in that sum is no NaN in the row. */
START_TEST(overflowing_sum_is_no_nan)
{
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        if (!(*t)->supported())
            continue;
        float *z = input(2048, 0);
        for (size_t i = 0; i < 2048; i++)
            z[i] = i / 64 % 2 ? -INFINITY : FLT_MAX;
        ck_assert((*t)->lane_max(z, 2048, outcomes[0].lanes));
        ck_assert_float_eq((*t)->max(z, 2048), FLT_MAX);
    }
}
END_TEST

/* A binary16 by its definition. */
static float f16_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
        size = fraction == 0 ? INFINITY : NAN;
    return (float)(bits >> 15 ? -size : size);
}

START_TEST(halves_widen_exactly)
{
    static uint16_t all[65536];
    static float wide[65536];
    for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        if (!(*t)->supported())
            continue;
        (*t)->widen_f16(all, 65536, wide);
        for (size_t i = 0; i < 65536; i++) {
            float expected = f16_value((uint16_t)i);
            ck_assert_msg(isnan(expected) ? isnan(wide[i])
                                          : wide[i] == expected && !signbit(wide[i]) == !signbit(expected),
                          "%s: f16 %04zx is %.9g, not %.9g", (*t)->name, i, wide[i], expected);
        }
        (*t)->widen_bf16(all, 65536, wide);
        for (size_t i = 0; i < 65536; i++) {
            uint32_t bits;
            memcpy(&bits, &wide[i], 4);
            ck_assert_uint_eq(bits, i << 16);
        }
    }
}
END_TEST

/* Every table's sums of a float32 row, as float32 and by way of float64, are those of plain arithmetic. */
START_TEST(sums_of_rows_are_exact)
{
    static float z[2500], x[2500], sums[2500], rounded[2500];
    static double wide[2500];
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        if (!(*t)->supported())
            continue;
        for (size_t n = 1; n <= 2500; n = n < 80 ? n + 1 : n + 605) {
            fill(z, n, SHAPE_MASKED, n);
            fill(x, n, n % 2 ? SHAPE_HUGE : SHAPE_MASKED, n + 1);
            memcpy(sums, z, n * sizeof *z);
            ck_assert((*t)->add(sums, x, n));
            ck_assert((*t)->widen_f32(x, n, -7.0, wide));
            for (size_t i = 0; i < n; i++) {
                ck_assert_msg(sums[i] == z[i] + x[i], "%s: sum %zu of %zu", (*t)->name, i, n);
                ck_assert_double_eq(wide[i], x[i] == -INFINITY ? -7.0 : (double)x[i]);
                wide[i] = (double)z[i] + (double)x[i];
            }
            ck_assert((*t)->round_f64(wide, n, rounded));
            ck_assert_mem_eq(rounded, sums, n * sizeof *sums);
        }
    }
}
END_TEST

/* What an addend and a sum may not be is told wherever it stands. */
START_TEST(bad_sums_of_rows_are_told)
{
    static const struct {
        float z, x;
        bool adds, widens, rounds;
    } cases[] = {
        {1.0f, NAN, false, false, true},           {1.0f, INFINITY, false, false, true},
        {-INFINITY, INFINITY, false, false, true}, {FLT_MAX, FLT_MAX, false, true, false},
        {-FLT_MAX, -FLT_MAX, false, true, false},  {-FLT_MAX, -INFINITY, true, true, true},
        {-INFINITY, -FLT_MAX, true, true, true},   {FLT_MAX, -FLT_MAX, true, true, true},
    };
    float z[70] = {0}, x[70] = {0}, out[70];
    double wide[70] = {0};
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        for (size_t c = 0; (*t)->supported() && c < sizeof cases / sizeof cases[0]; c++) {
            for (size_t i = 0; i < 70; i++) {
                x[i] = cases[c].x;
                memcpy(out, z, sizeof z);
                out[i] = cases[c].z;
                ck_assert_int_eq((*t)->add(out, x, 70), cases[c].adds);
                ck_assert_int_eq((*t)->widen_f32(x, 70, 0.0, wide), cases[c].widens);
                memset(wide, 0, sizeof wide);
                wide[i] = (double)cases[c].z + (double)cases[c].x;
                ck_assert_int_eq((*t)->round_f64(wide, 70, out), cases[c].rounds);
                x[i] = 0.0f;
                wide[i] = 0.0;
            }
        }
    }
}
END_TEST

START_TEST(selection_by_name)
{
    const char *why;
    ck_assert_ptr_nonnull(kernels_select("auto", &why));
    ck_assert_str_eq(kernels_select("generic", &why)->name, "generic");
    ck_assert_ptr_null(kernels_select("sse9", &why));
    ck_assert_str_eq(why, "this build has none of that name");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *equality = tcase_create("tables"), *values = tcase_create("values");
    tcase_set_timeout(equality, 300);
    tcase_set_timeout(values, 300);
    tcase_add_checked_fixture(equality, setup, NULL);
    tcase_add_checked_fixture(values, setup, NULL);
    tcase_add_test(equality, tables_agree_at_each_length);
    tcase_add_test(equality, tables_agree_at_each_alignment);
    tcase_add_test(equality, tables_agree_on_a_long_row);
    tcase_add_test(equality, tables_agree_at_extreme_temperatures);
    tcase_add_test(values, bits_are_these);
    tcase_add_test(values, weights_are_right);
    tcase_add_test(values, sums_are_right);
    tcase_add_test(values, nan_is_seen_anywhere);
    tcase_add_test(values, overflowing_sum_is_no_nan);
    tcase_add_test(values, halves_widen_exactly);
    tcase_add_test(values, sums_of_rows_are_exact);
    tcase_add_test(values, bad_sums_of_rows_are_told);
    tcase_add_test(values, selection_by_name);
    suite_add_tcase(suite, equality);
    suite_add_tcase(suite, values);
    return run_suite(suite);
}
