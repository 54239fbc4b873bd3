#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

/* What several tests share: a main() for one suite, golden files, rows of logits. */

#include "core/kernels/kernels.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run one suite and exit with its verdict. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A whole file of tests/data; the caller frees it.  *length may be NULL. */
static inline char *read_data(const char *name, size_t *length)
{
    char path[256];
    snprintf(path, sizeof path, "tests/data/%s", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s; run from the top folder", path);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size + 1);
    ck_assert_uint_eq(fread(text, 1, size, file), size);
    fclose(file);
    text[size] = '\0';
    if (length != NULL)
        *length = size;
    return text;
}

/* A JSON file of tests/data; the caller deletes it. */
static inline cJSON *read_json(const char *name)
{
    char *text = read_data(name, NULL);
    cJSON *root = cJSON_Parse(text);
    ck_assert_msg(root != NULL, "%s is not JSON", name);
    free(text);
    return root;
}

static inline double json_number(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItem(object, name)->valuedouble;
}

/* A row of golden logits, null as -INFINITY; the caller frees it. */
static inline float *json_row(const cJSON *array, size_t *n)
{
    *n = (size_t)cJSON_GetArraySize(array);
    float *row = malloc(*n * sizeof *row);
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) row[i++] = cJSON_IsNull(item) ? -INFINITY : (float)item->valuedouble;
    return row;
}

/* A row of real logits, widened to float32; the caller frees it. */
static inline float *real_row(const char *name, size_t *n)
{
    size_t length;
    char *bytes = read_data(name, &length);
    if (strstr(name, ".f32") != NULL) {
        *n = length / 4;
        return (float *)(void *)bytes;
    }
    *n = length / 2;
    float *row = malloc(*n * sizeof *row);
    for (size_t i = 0; i < *n; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, 2);
        uint32_t word = (uint32_t)half << 16;
        memcpy(&row[i], &word, 4);
    }
    free(bytes);
    return row;
}

/* splitmix64: test data that is the same everywhere */
static inline uint64_t next_word(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline double next_uniform(uint64_t *state)
{
    return (double)(next_word(state) >> 11) * 0x1p-53;
}

/* Roughly normal, mean 0, deviation `deviation`. */
static inline float next_logit(uint64_t *state, double deviation)
{
    double sum = -6.0;
    for (int i = 0; i < 12; i++)
        sum += next_uniform(state);
    return (float)(sum * deviation);
}

#endif
