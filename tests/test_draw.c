/* Draws follow the weights, at every u. */
#include "core/row/draw.h"

#include "core/row/rng.h"
#include "tests/support.h"

static const struct kernels *table;
static struct arena scratch;

static void setup(void)
{
    const char *why;
    struct error err;
    table = kernels_select("auto", &why);
    ck_assert_int_eq(arena_init(&scratch, 1u << 20, &err), STATUS_OK);
}

static void teardown(void)
{
    arena_fini(&scratch);
}

static struct draw draw_of(struct support *s, const float *z, size_t n, double temperature)
{
    struct draw draw;
    arena_reset(&scratch);
    *s = (struct support){.z = z, .n = n, .max = table->max(z, n)};
    draw_init(&draw, s, weight_scale_make(s->max, temperature), table, &scratch);
    return draw;
}

static const double LARGEST_U = 1.0 - 0x1p-53;

START_TEST(ends_of_the_unit_interval)
{
    float z[] = {-INFINITY, -200.0f, 0.0f, 1.0f, -INFINITY, -1.0f, -300.0f, -INFINITY};
    struct support s;
    struct draw draw = draw_of(&s, z, 8, 1.0);
    ck_assert_uint_eq(draw_at(&draw, table, 0.0), 2); /* the first of non-zero weight */
    ck_assert_uint_eq(draw_at(&draw, table, LARGEST_U), 5);
}
END_TEST

START_TEST(equal_logits_split_the_interval_evenly)
{
    size_t n = 151936;
    float *z = calloc(n, sizeof *z);
    struct support s;
    struct draw draw = draw_of(&s, z, n, 1.0);
    ck_assert_int_le(abs((int)draw_at(&draw, table, 0.999) - 151784), 1);
    ck_assert_uint_eq(draw_at(&draw, table, 0.0), 0);
    ck_assert_uint_eq(draw_at(&draw, table, LARGEST_U), n - 1);
    for (int i = 0; i < 1000; i++) {
        double u = (i + 0.5) / 1000;
        ck_assert_uint_eq(draw_at(&draw, table, u), (size_t)(u * (double)n));
    }
    free(z);
}
END_TEST

/* Against a float64 running sum; a draw within 1e-6 of a border may fall on the other side. */
START_TEST(follows_the_running_sum)
{
    static const size_t lengths[] = {1, 3, 255, 256, 2047, 2048, 2049, 10000};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        size_t n = lengths[l];
        uint64_t state = n;
        float *z = malloc(n * sizeof *z);
        for (size_t i = 0; i < n; i++)
            z[i] = next_word(&state) % 5 == 0 ? -INFINITY : next_logit(&state, 2.0);
        z[n / 2] = 1.0f;
        struct support s;
        struct draw draw = draw_of(&s, z, n, 0.9);
        double *running = malloc(n * sizeof *running), sum = 0;
        for (size_t i = 0; i < n; i++)
            running[i] = sum += exp(((double)z[i] - s.max) / 0.9);
        for (int i = 0; i < 2000; i++) {
            double u = next_uniform(&state);
            size_t at = draw_at(&draw, table, u);
            ck_assert(z[at] > -INFINITY);
            ck_assert(running[at] / sum > u - 1e-6);
            ck_assert(at == 0 || running[at - 1] / sum <= u + 1e-6);
        }
        free(running);
        free(z);
    }
}
END_TEST

/* Pearson's statistic of 1e6 draws against exact probabilities; cells expecting under 10 are pooled. */
static void check_distribution(const float *z, size_t n, double temperature)
{
    const int draws = 1000000;
    struct support s;
    struct draw draw = draw_of(&s, z, n, temperature);
    size_t *seen = calloc(n, sizeof *seen);
    for (int i = 0; i < draws; i++) {
        struct rng_address address = {.seed = 99, .offset = (uint64_t)i / 1024, .draw = (uint32_t)i % 1024};
        seen[draw_at(&draw, table, rng_uniform(&address))]++;
    }
    double total = 0, statistic = 0, rest_expected = 0, rest_seen = 0;
    for (size_t i = 0; i < n; i++)
        total += exp(((double)z[i] - s.max) / temperature);
    size_t cells = 0;
    for (size_t i = 0; i < n; i++) {
        double expected = draws * exp(((double)z[i] - s.max) / temperature) / total;
        if (expected == 0)
            ck_assert_uint_eq(seen[i], 0);
        if (expected < 10) {
            rest_expected += expected;
            rest_seen += (double)seen[i];
            continue;
        }
        statistic += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
        cells++;
    }
    if (rest_expected >= 10) {
        statistic += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
        cells++;
    }
    /* Wilson and Hilferty: (x / k)^(1/3) is normal, mean 1 - 2/(9k), variance 2/(9k); five deviations */
    double k = (double)cells - 1;
    if (k >= 1) {
        double deviation = (cbrt(statistic / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));
        ck_assert_msg(deviation < 5, "chi-square %.1f of %zu cells: %.1f deviations", statistic, cells,
                      deviation);
    }
    free(seen);
}

START_TEST(distribution_is_softmax)
{
    uint64_t state = 4;
    float one[] = {2.0f}, two[] = {0.0f, 1.0f}, masked[] = {-INFINITY, 0.0f, -INFINITY, 0.5f, -200.0f};
    check_distribution(one, 1, 1.0);
    check_distribution(two, 2, 1.0);
    check_distribution(masked, 5, 0.7);
    float equal[100] = {0}, normal[3000], peaked[5000];
    for (size_t i = 0; i < 3000; i++)
        normal[i] = next_logit(&state, 1.0);
    for (size_t i = 0; i < 5000; i++)
        peaked[i] = i == 4321 ? 12.0f : next_logit(&state, 1.5);
    check_distribution(equal, 100, 1.0);
    check_distribution(normal, 3000, 1.0);
    check_distribution(normal, 3000, 3.0);
    check_distribution(peaked, 5000, 1.0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("draw");
    TCase *tcase = tcase_create("draw");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, ends_of_the_unit_interval);
    tcase_add_test(tcase, equal_logits_split_the_interval_evenly);
    tcase_add_test(tcase, follows_the_running_sum);
    tcase_add_test(tcase, distribution_is_softmax);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
