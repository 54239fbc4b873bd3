#include "core/row/mix.h"

#include "tests/support.h"

#include <float.h>

#define VOCAB 5000
#define ROWS  3

static const struct kernels *table;
static struct arena scratch;
static struct error err;
static float lanes[(VOCAB / KERNELS_BLOCK + 1) * KERNELS_LANES];

static void setup(void)
{
    const char *why;
    table = kernels_select("auto", &why);
    mix_setup();
    ck_assert_int_eq(arena_init(&scratch, 1u << 20, &err), STATUS_OK);
}

static void teardown(void)
{
    arena_fini(&scratch);
}

static float *random_stacks(size_t stacks, uint64_t seed)
{
    float *z = malloc(stacks * ROWS * VOCAB * sizeof *z);
    for (size_t i = 0; i < stacks * ROWS * VOCAB; i++)
        z[i] = next_word(&seed) % 50 == 0 ? -INFINITY : next_logit(&seed, 4.0);
    return z;
}

static struct sample_request request_of(const float *logits, size_t stacks, const float *mix)
{
    return (struct sample_request){
        .logits = logits, .num_stacks = stacks, .batch_size = ROWS, .vocab_size = VOCAB, .mix = mix};
}

static enum status mix(const struct sample_request *request, size_t row, float *out)
{
    struct mixed_row mixed = {out, lanes, false};
    enum status status = mix_row(request, row, table, &scratch, &mixed, &err);
    if (status != STATUS_OK)
        return status;
    float expected[sizeof lanes / sizeof lanes[0]];
    ck_assert_int_eq(table->lane_max(out, VOCAB, expected), mixed.clean);
    ck_assert_mem_eq(lanes, expected, kernels_blocks(VOCAB) * KERNELS_LANES * sizeof *lanes);
    return STATUS_OK;
}

/* Every product is exact in float64; the sums are rounded in the order of the stacks, and to float32 at the
 * end. */
START_TEST(mixes_in_float64_to_the_last_bit)
{
    static const float weights[][4] = {
        {1.5f, -0.5f}, {0.25f, 0.25f, 0.5f}, {1.0f}, {3.0f, 0.0f, -2.0f, 0.1f}, {1.7f, -0.7f}};
    static const size_t stacks[] = {2, 3, 1, 4, 2};
    for (size_t c = 0; c < 10; c++) {
        size_t num_stacks = stacks[c / 2];
        float *z = random_stacks(num_stacks, c), *bias = random_stacks(1, c + 100), out[VOCAB];
        struct sample_request request = request_of(z, num_stacks, weights[c / 2]);
        request.bias = c % 2 == 0 ? NULL : bias;
        request.bias_rows = c % 2;
        for (size_t row = 0; row < ROWS; row++) {
            ck_assert_int_eq(mix(&request, row, out), STATUS_OK);
            for (size_t v = 0; v < VOCAB; v++) {
                double sum = 0;
                bool masked = c % 2 == 1 && isinf(bias[v]);
                for (size_t m = 0; m < num_stacks; m++) {
                    double x = z[(m * ROWS + row) * VOCAB + v], w = weights[c / 2][m];
                    masked |= isinf(x) && w != 0;
                    sum += isinf(x) ? 0 : w * x;
                }
                sum += c % 2 == 0 || isinf(bias[v]) ? 0 : bias[v];
                float expected = masked ? -INFINITY : (float)sum;
                ck_assert_msg(out[v] == expected, "case %zu: token %zu is %.9g, not %.9g", c, v, out[v],
                              expected);
            }
        }
        free(z);
        free(bias);
    }
}
END_TEST

/* Partial sums may leave float32, in any order of the stacks; the sum itself may not, to either side. */
START_TEST(only_the_sum_must_be_a_float32)
{
    const float weights[] = {-2.0f, 3.0f}, swapped[] = {3.0f, -2.0f};
    float *z = random_stacks(2, 5), out[VOCAB];
    struct sample_request request = request_of(z, 2, weights);
    for (size_t m = 0; m < 2; m++)
        z[m * ROWS * VOCAB + 7] = -FLT_MAX;
    for (size_t i = 0; i < 2; i++) {
        request.mix = i == 0 ? weights : swapped;
        ck_assert_int_eq(mix(&request, 0, out), STATUS_OK);
        ck_assert(out[7] == -FLT_MAX);
    }
    const float doubled[] = {1.0f, 1.0f};
    request.mix = doubled;
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(mix(&request, 0, out), STATUS_UNSAMPLABLE);
        ck_assert_str_eq(err.param, "mix");
        ck_assert_uint_eq(err.row, 0);
        ck_assert_ptr_nonnull(strstr(err.message, i == 0 ? "-6.8" : "is 6.8"));
        ck_assert_ptr_nonnull(strstr(err.message, "at token 7,"));
        for (size_t m = 0; m < 2; m++)
            z[m * ROWS * VOCAB + 7] = FLT_MAX;
    }
    request.num_stacks = 1;
    request.mix = NULL;
    request.bias = z;
    request.bias_rows = ROWS;
    ck_assert_int_eq(mix(&request, 0, out), STATUS_UNSAMPLABLE);
    ck_assert_str_eq(err.param, "bias");
    ck_assert_int_eq(mix(&request, 1, out), STATUS_OK);
    free(z);
}
END_TEST

START_TEST(a_masked_token_stays_masked)
{
    const float weights[] = {3.0f, -0.5f, 1.0f};
    float *z = random_stacks(3, 5), out[VOCAB];
    struct sample_request request = request_of(z, 3, weights);
    z[0] = z[2 * ROWS * VOCAB] = 3e38f; /* whose sum is no float32 */
    z[ROWS * VOCAB] = -INFINITY;
    ck_assert_int_eq(mix(&request, 0, out), STATUS_OK);
    ck_assert(out[0] == -INFINITY);
    free(z);
}
END_TEST

START_TEST(a_row_does_not_depend_on_its_batch)
{
    const float weights[] = {1.7f, -0.7f};
    float *z = random_stacks(2, 9), *alone = malloc(2 * VOCAB * sizeof *alone), in_batch[VOCAB],
          by_itself[VOCAB];
    struct sample_request batch = request_of(z, 2, weights), single = request_of(alone, 2, weights);
    single.batch_size = 1;
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t m = 0; m < 2; m++)
            memcpy(alone + m * VOCAB, z + (m * ROWS + row) * VOCAB, VOCAB * sizeof *z);
        ck_assert_int_eq(mix(&batch, row, in_batch), STATUS_OK);
        ck_assert_int_eq(mix(&single, 0, by_itself), STATUS_OK);
        ck_assert_mem_eq(in_batch, by_itself, sizeof in_batch);
    }
    free(z);
    free(alone);
}
END_TEST

START_TEST(bias_adds_and_masks)
{
    float *z = random_stacks(1, 3), *bias = random_stacks(1, 4), out[VOCAB];
    struct sample_request request = request_of(z, 1, NULL);
    request.bias = bias;
    for (request.bias_rows = 1; request.bias_rows <= ROWS; request.bias_rows += ROWS - 1) {
        for (size_t row = 0; row < ROWS; row++) {
            ck_assert_int_eq(mix(&request, row, out), STATUS_OK);
            const float *b = bias + (request.bias_rows == 1 ? 0 : row * VOCAB);
            for (size_t v = 0; v < VOCAB; v++)
                ck_assert(out[v] == z[row * VOCAB + v] + b[v]);
        }
    }
    free(z);
    free(bias);
}
END_TEST

START_TEST(bad_values_in_any_stack_are_found)
{
    static const float bad[] = {NAN, INFINITY};
    static const size_t places[] = {0, 2047, 2048, VOCAB - 1};
    const float weights[] = {1.0f, 0.0f};
    float *z = random_stacks(2, 6), out[VOCAB];
    struct sample_request request = request_of(z, 2, weights);
    for (size_t m = 0; m < 2; m++) {
        for (size_t i = 0; i < 8; i++) {
            float *at = z + (m * ROWS + 1) * VOCAB + places[i / 2], before = *at;
            *at = bad[i % 2];
            ck_assert_int_eq(mix(&request, 1, out), STATUS_UNSAMPLABLE);
            ck_assert_uint_eq(err.row, 1);
            ck_assert_int_eq(mix(&request, 0, out), STATUS_OK);
            *at = before;
        }
    }
    free(z);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mix");
    TCase *tcase = tcase_create("mix");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, mixes_in_float64_to_the_last_bit);
    tcase_add_test(tcase, only_the_sum_must_be_a_float32);
    tcase_add_test(tcase, a_masked_token_stays_masked);
    tcase_add_test(tcase, a_row_does_not_depend_on_its_batch);
    tcase_add_test(tcase, bias_adds_and_masks);
    tcase_add_test(tcase, bad_values_in_any_stack_are_found);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
