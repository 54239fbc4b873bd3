#include "core/row/rng.h"

#include "tests/support.h"

static void read_words(const char *text, uint32_t *words)
{
    for (char *end; *text != '\0'; text = *end == ' ' ? end + 1 : end)
        *words++ = (uint32_t)strtoul(text, &end, 16);
}

START_TEST(known_answers)
{
    cJSON *root = read_json("draws.json");
    const cJSON *known;
    int answers = 0;
    cJSON_ArrayForEach(known, cJSON_GetObjectItem(root, "philox4x32_10"))
    {
        uint32_t counter[4], key[2], expected[4], got[4];
        read_words(cJSON_GetArrayItem(known, 0)->valuestring, counter);
        read_words(cJSON_GetArrayItem(known, 1)->valuestring, key);
        read_words(cJSON_GetArrayItem(known, 2)->valuestring, expected);
        rng_philox4x32(counter, key, got);
        ck_assert_mem_eq(got, expected, sizeof got);
        answers++;
    }
    ck_assert_int_eq(answers, 3);
    cJSON_Delete(root);
}
END_TEST

START_TEST(every_part_of_the_address_counts)
{
    struct rng_address base = {.seed = 7, .offset = 3, .stream = 2, .draw = 1};
    struct rng_address other[] = {base, base, base, base, base, base};
    other[0].seed = 8;
    other[1].seed = 7 + (UINT64_C(1) << 32);
    other[2].offset = 4;
    other[3].offset = 3 + (UINT64_C(1) << 32);
    other[4].stream = 3;
    other[5].draw = 2;
    for (size_t i = 0; i < 6; i++)
        ck_assert(rng_uniform(&base) != rng_uniform(&other[i]));
    ck_assert(rng_uniform(&base) == rng_uniform(&base));
}
END_TEST

START_TEST(uniform_stays_below_one)
{
    double sum = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        double u = rng_uniform(&(struct rng_address){.seed = 1, .draw = i});
        ck_assert(u >= 0.0 && u < 1.0);
        sum += u;
    }
    /* the mean of 2e5 uniforms has a deviation of 6.5e-4 */
    ck_assert(fabs(sum / 200000 - 0.5) < 0.004);
}
END_TEST

START_TEST(fresh_seeds_differ_and_fit)
{
    uint64_t a, b;
    struct error err;
    ck_assert_int_eq(rng_fresh_seed(&a, &err), STATUS_OK);
    ck_assert_int_eq(rng_fresh_seed(&b, &err), STATUS_OK);
    ck_assert(a != b && a < UINT64_C(1) << 53 && b < UINT64_C(1) << 53);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rng");
    TCase *tcase = tcase_create("philox");
    tcase_add_test(tcase, known_answers);
    tcase_add_test(tcase, every_part_of_the_address_counts);
    tcase_add_test(tcase, uniform_stays_below_one);
    tcase_add_test(tcase, fresh_seeds_differ_and_fit);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
