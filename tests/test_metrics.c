/* Counting, the exposition, and that docs/operations.md shows the table as it is. */
#include "core/request.h"
#include "server/observe/exposition.h"
#include "server/request/exchange.h"
#include "server/request/timeline.h"

#include "tests/support.h"

#include <pthread.h>

#define THREADS 12 /* more than there are stripes */
#define EACH    20000

static struct metrics *metrics;

static const char *route_at(size_t place)
{
    static const char *const routes[] = {"/sample", "/we\"i\\rd", NULL};
    return routes[place];
}

static void set_up(void)
{
    struct error err;
    ck_assert_int_eq(metrics_create(route_at, "generic", &metrics, &err), STATUS_OK);
}

static void tear_down(void)
{
    metrics_destroy(metrics);
}

/* The exposition with every reading the same; the caller frees it. */
static char *exposition(uint64_t reading)
{
    uint64_t readings[NUM_METRICS];
    char *text = NULL;
    size_t length;
    for (size_t i = 0; i < NUM_METRICS; i++)
        readings[i] = reading;
    FILE *out = open_memstream(&text, &length);
    exposition_write(metrics, readings, out);
    fclose(out);
    return text;
}

static void assert_shows(const char *line, uint64_t reading)
{
    char *text = exposition(reading), whole[512];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    ck_assert_msg(strstr(text, whole) != NULL, "there is no line %s in:\n%s", line, text);
    free(text);
}

/* ---- the table ---- */

START_TEST(names_and_help_are_complete_and_unique)
{
    for (size_t i = 0; i < NUM_METRICS; i++) {
        const struct metric_family *family = &metrics_table[i];
        ck_assert_ptr_nonnull(family->name);
        ck_assert_uint_gt(strlen(family->help), 0);
        ck_assert_ptr_null(strpbrk(family->help, "\\\n|"));
        ck_assert_int_eq(family->type == METRIC_HISTOGRAM, family->num_bounds > 0);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(family->name, metrics_table[j].name);
        for (size_t b = 1; b < family->num_bounds; b++)
            ck_assert_uint_lt(family->bounds[b - 1], family->bounds[b]);
    }
    ck_assert_uint_eq(metrics_table[METRIC_STAGE_DURATION].bounds[0], 25000); /* 25 us */
}
END_TEST

START_TEST(readme_shows_the_table)
{
    char *table = NULL, *readme = calloc(1, 1 << 20);
    size_t length;
    FILE *out = open_memstream(&table, &length), *file = fopen("docs/operations.md", "rb");
    ck_assert_msg(file != NULL, "cannot open docs/operations.md; run from the top folder");
    ck_assert_uint_gt(fread(readme, 1, (1 << 20) - 1, file), 0);
    fclose(file);
    exposition_print_table(out);
    fclose(out);
    ck_assert_msg(strstr(readme, table) != NULL, "docs/operations.md must hold this table:\n%s", table);
    free(table);
    free(readme);
}
END_TEST

/* ---- labels ---- */

START_TEST(labels_are_bounded)
{
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_METHOD, metrics_label(LABEL_METHOD, "POST")), "POST");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_METHOD, metrics_label(LABEL_METHOD, "BREW")),
                     "other");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_METHOD, metrics_label(LABEL_METHOD, "")), "other");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_REASON, metrics_label(LABEL_REASON, "?")), "other");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_CODE, metrics_code(200)), "200");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_CODE, metrics_code(503)), "503");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_CODE, metrics_code(0)), "none");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_CODE, metrics_code(599)), "other");
    ck_assert_uint_eq(metrics_num_values(metrics, LABEL_ROUTE), 3);
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_ROUTE, 2), "other");
    ck_assert_uint_eq(metrics_num_values(metrics, LABEL_STAGE), NUM_STAGES);
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_STAGE, STAGE_READ), "read");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_STAGE, STAGE_WRITE), "write");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_DTYPE, DTYPE_F32), "f32");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_DTYPE, DTYPE_F16), "f16");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_DTYPE, DTYPE_BF16), "bf16");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_MEDIA, MEDIA_RAW - MEDIA_JSON), "raw");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_MEDIA, MEDIA_NPY - MEDIA_JSON), "npy");
    ck_assert_str_eq(metrics_label_value(metrics, LABEL_MEDIA, MEDIA_SAFETENSORS - MEDIA_JSON),
                     "safetensors");
}
END_TEST

START_TEST(values_of_a_label_differ)
{
    for (unsigned label = LABEL_NONE + 1; label < NUM_LABELS; label++)
        for (size_t i = 0; i < metrics_num_values(metrics, label); i++)
            for (size_t j = 0; j < i; j++)
                ck_assert_str_ne(metrics_label_value(metrics, label, i),
                                 metrics_label_value(metrics, label, j));
}
END_TEST

START_TEST(every_combination_is_a_series_of_its_own)
{
    size_t routes = metrics_num_values(metrics, LABEL_ROUTE);
    size_t methods = metrics_num_values(metrics, LABEL_METHOD);
    size_t codes = metrics_num_values(metrics, LABEL_CODE), expected = 0;
    for (size_t route = 0; route < routes; route++)
        for (size_t method = 0; method < methods; method++)
            for (size_t code = 0; code < codes; code++)
                ck_assert_uint_eq(metrics_series(metrics, METRIC_HTTP_REQUESTS, route, method, code),
                                  expected++);
    ck_assert_uint_eq(metrics_num_series(metrics, METRIC_HTTP_REQUESTS), expected);
    ck_assert_uint_eq(metrics_num_series(metrics, METRIC_TOKENS), 1);
}
END_TEST

/* ---- buckets ---- */

static const struct {
    uint64_t rows;
    size_t bucket;
} batches[] = {{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {1024, 10}, {1025, 11}, {UINT64_MAX, 11}};

START_TEST(a_bound_is_in_its_bucket)
{
    metrics_observe(metrics, METRIC_BATCH_ROWS, 0, batches[_i].rows);
    for (size_t bucket = 0; bucket <= metrics_table[METRIC_BATCH_ROWS].num_bounds; bucket++)
        ck_assert_uint_eq(metrics_value(metrics, METRIC_BATCH_ROWS, 0, bucket), bucket == batches[_i].bucket);
    ck_assert_uint_eq(
        metrics_value(metrics, METRIC_BATCH_ROWS, 0, metrics_table[METRIC_BATCH_ROWS].num_bounds + 1),
        batches[_i].rows);
}
END_TEST

/* ---- the exposition ---- */

START_TEST(shows_histograms_cumulated_in_seconds)
{
    static const uint64_t durations[] = {25000, 25001, 1500000, 20000000000};
    for (size_t i = 0; i < 4; i++)
        metrics_observe(metrics, METRIC_STAGE_DURATION, STAGE_SAMPLE, durations[i]);
    assert_shows("samplerd_stage_duration_seconds_bucket{stage=\"sample\",le=\"0.000025\"} 1", 0);
    assert_shows("samplerd_stage_duration_seconds_bucket{stage=\"sample\",le=\"0.00005\"} 2", 0);
    assert_shows("samplerd_stage_duration_seconds_bucket{stage=\"sample\",le=\"0.0025\"} 3", 0);
    assert_shows("samplerd_stage_duration_seconds_bucket{stage=\"sample\",le=\"10\"} 3", 0);
    assert_shows("samplerd_stage_duration_seconds_bucket{stage=\"sample\",le=\"+Inf\"} 4", 0);
    assert_shows("samplerd_stage_duration_seconds_sum{stage=\"sample\"} 20.001550001", 0);
    assert_shows("samplerd_stage_duration_seconds_count{stage=\"sample\"} 4", 0);
    assert_shows("samplerd_stage_duration_seconds_count{stage=\"read\"} 0", 0);
    assert_shows("# TYPE samplerd_stage_duration_seconds histogram", 0);
}
END_TEST

START_TEST(shows_counters_and_escapes_labels)
{
    metrics_add(metrics, METRIC_TOKENS, 0, UINT64_C(9007199254740993));
    metrics_add(metrics, METRIC_HTTP_REQUESTS, metrics_series(metrics, METRIC_HTTP_REQUESTS, 1, 2, 0), 7);
    assert_shows("samplerd_tokens_total 9007199254740993", 0);
    assert_shows("samplerd_http_requests_total{route=\"/we\\\"i\\\\rd\",method=\"POST\",code=\"200\"} 7", 0);
    char *text = exposition(0);
    ck_assert_ptr_null(strstr(text, "samplerd_http_requests_total{route=\"/sample\"")); /* none came */
    free(text);
}
END_TEST

START_TEST(shows_readings_that_are_known)
{
    assert_shows("samplerd_queue_requests 3", 3);
    assert_shows("process_cpu_seconds_total 1.5", 1500000000);
    char *text = exposition(EXPOSITION_UNKNOWN);
    ck_assert_ptr_null(strstr(text, "process_"));
    ck_assert_ptr_nonnull(strstr(text, "samplerd_tokens_total 0\n"));
    free(text);
}
END_TEST

/* ---- many threads ---- */

static void *record_many(void *argument)
{
    (void)argument;
    for (uint64_t i = 0; i < EACH; i++) {
        metrics_add(metrics, METRIC_TOKENS, 0, 2);
        metrics_observe(metrics, METRIC_BATCH_ROWS, 0, 1 + i % 4);
    }
    return NULL;
}

START_TEST(nothing_is_lost_when_threads_record_at_once)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, record_many, NULL), 0);
    uint64_t before = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t now = metrics_value(metrics, METRIC_TOKENS, 0, 0);
        ck_assert_uint_ge(now, before);
        before = now;
        free(exposition(0));
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    size_t num_bounds = metrics_table[METRIC_BATCH_ROWS].num_bounds;
    ck_assert_uint_eq(metrics_value(metrics, METRIC_TOKENS, 0, 0), (uint64_t)2 * THREADS * EACH);
    ck_assert_uint_eq(metrics_value(metrics, METRIC_BATCH_ROWS, 0, 2), (uint64_t)THREADS * EACH / 2);
    ck_assert_uint_eq(metrics_value(metrics, METRIC_BATCH_ROWS, 0, num_bounds + 1),
                      (uint64_t)THREADS * EACH * 10 / 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tcase = tcase_create("metrics");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, names_and_help_are_complete_and_unique);
    tcase_add_test(tcase, readme_shows_the_table);
    tcase_add_test(tcase, labels_are_bounded);
    tcase_add_test(tcase, values_of_a_label_differ);
    tcase_add_test(tcase, every_combination_is_a_series_of_its_own);
    tcase_add_loop_test(tcase, a_bound_is_in_its_bucket, 0, sizeof batches / sizeof batches[0]);
    tcase_add_test(tcase, shows_histograms_cumulated_in_seconds);
    tcase_add_test(tcase, shows_counters_and_escapes_labels);
    tcase_add_test(tcase, shows_readings_that_are_known);
    tcase_add_test(tcase, nothing_is_lost_when_threads_record_at_once);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
