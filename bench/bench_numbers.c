/*
 * Read one row of 128,256 JSON numbers three ways: numbers_read_array, a strtof loop, cJSON_Parse.
 * Prints nanoseconds per number and megabytes (10^6) per second, medians of ROUNDS runs.
 */
#include "proto/numbers.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT  128256
#define ROUNDS 15
#define WIDEST 32 /* bytes a number takes at most, its separator included */

struct row {
    char *text; /* NUL-terminated, NUMBERS_PADDING bytes to spare */
    size_t length;
    float *out; /* [COUNT] */
    float last; /* what the last number is */
};

static double read_with_numbers(const struct row *row)
{
    const char *cursor = row->text;
    struct shape shape;
    struct error err;
    if (numbers_read_array(&cursor, row->text + row->length, row->out, COUNT, &shape, "logits", &err) !=
        STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return row->out[shape.dims[0] - 1];
}

static double read_with_strtof(const struct row *row)
{
    char *p = row->text + 1;
    for (size_t i = 0; i < COUNT; i++)
        row->out[i] = strtof(p, &p), p++;
    return row->out[COUNT - 1];
}

static double read_with_cjson(const struct row *row)
{
    cJSON *array = cJSON_Parse(row->text);
    double last = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) last = item->valuedouble;
    cJSON_Delete(array);
    return last;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ns(double (*read)(const struct row *), const struct row *row)
{
    double runs[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) { /* the first warms up */
        double start = now_ns();
        if ((float)read(row) != row->last) {
            fprintf(stderr, "the last number is wrong\n");
            exit(1);
        }
        if (i >= 0)
            runs[i] = now_ns() - start;
    }
    qsort(runs, ROUNDS, sizeof *runs, compare);
    return runs[ROUNDS / 2] / COUNT;
}

/* Roughly normal, mean -1 and deviation 3, as logits are; a float. */
static double draw_logit(void)
{
    static uint64_t state = 88172645463325252u;
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(state >> 40) / (1 << 24) - 0.5;
    }
    return (float)(3 * sum - 1);
}

/* As Python's json.dumps prints it: the fewest digits that read back as the same double. */
static int print_shortest(char *text, double x)
{
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(text, WIDEST, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    return n;
}

static int print_short(char *text, double x)
{
    return snprintf(text, WIDEST, "%.4f", x);
}

static void run(const char *name, int (*print)(char *, double), struct row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < COUNT; i++) {
        n += (size_t)sprintf(row->text + n, i == 0 ? "[" : ", ");
        char *number = row->text + n;
        n += (size_t)print(number, draw_logit());
        row->last = (float)strtod(number, NULL);
    }
    row->text[n++] = ']';
    row->text[n] = '\0';
    row->length = n;
    double ours = median_ns(read_with_numbers, row);
    double strtof_ns = median_ns(read_with_strtof, row), cjson_ns = median_ns(read_with_cjson, row);
    double bytes = (double)n / COUNT;
    printf("%s: %.2f bytes a number\n", name, bytes);
    printf("  %-8s %7.2f ns  %7.1f MB/s\n", "numbers", ours, 1e3 * bytes / ours);
    printf("  %-8s %7.2f ns  %7.1f MB/s  %5.1f times numbers\n", "strtof", strtof_ns, 1e3 * bytes / strtof_ns,
           strtof_ns / ours);
    printf("  %-8s %7.2f ns  %7.1f MB/s  %5.1f times numbers\n", "cJSON", cjson_ns, 1e3 * bytes / cjson_ns,
           cjson_ns / ours);
}

int main(void)
{
    struct row row = {.text = malloc(COUNT * WIDEST + NUMBERS_PADDING), .out = malloc(COUNT * sizeof(float))};
    if (row.text == NULL || row.out == NULL)
        return 1;
    run("shortest double", print_shortest, &row);
    run("four decimals", print_short, &row);
    free(row.text);
    free(row.out);
    return 0;
}
