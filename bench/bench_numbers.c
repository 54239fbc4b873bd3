/*
 * One row of 128,256 JSON numbers, read into float32 by numbers_read_array, a strtof loop, cJSON and, where
 * it was there at build time, simdjson.
 */
#include "bench/samplerd_bench.h"

#include "bench/timing.h"
#include "proto/numbers/numbers.h"
#ifdef HAVE_SIMDJSON
#include "bench/simdjson_baseline.h"
#endif

#include <cjson/cJSON.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT  128256
#define WIDEST 32 /* bytes a number takes at most, its separator included */

struct row {
    char *text; /* NUL-terminated, NUMBERS_PADDING bytes to spare */
    size_t length;
    float *expected; /* [COUNT] */
    float *out;      /* [COUNT] */
};

/* Read the row into out; returns how many numbers there were. */
struct reader {
    const char *name;
    size_t (*read)(const struct row *row);
};

static size_t read_with_numbers(const struct row *row)
{
    const char *cursor = row->text;
    struct shape shape;
    struct error err;
    if (numbers_read_array(&cursor, row->text + row->length, row->out, COUNT, &shape, "logits", &err) !=
        STATUS_OK)
        timing_fail("%s", err.message);
    return shape.dims[0];
}

static size_t read_with_strtof(const struct row *row)
{
    char *p = row->text + 1;
    for (size_t i = 0; i < COUNT; i++)
        row->out[i] = strtof(p, &p), p++;
    return COUNT;
}

static size_t read_with_cjson(const struct row *row)
{
    cJSON *array = cJSON_Parse(row->text);
    size_t n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) row->out[n++] = (float)item->valuedouble;
    cJSON_Delete(array);
    return n;
}

#ifdef HAVE_SIMDJSON
static size_t read_with_dom(const struct row *row)
{
    return simdjson_baseline_dom(row->text, row->length, row->out, COUNT);
}

static size_t read_with_ondemand(const struct row *row)
{
    return simdjson_baseline_ondemand(row->text, row->length, row->out, COUNT);
}
#endif

static const struct reader READERS[] = {
    {"numbers", read_with_numbers},  {"strtof", read_with_strtof},
    {"cjson", read_with_cjson},
#ifdef HAVE_SIMDJSON
    {"simdjson_dom", read_with_dom}, {"simdjson_ondemand", read_with_ondemand},
#endif
};
#define NUM_READERS (sizeof READERS / sizeof *READERS)

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

static void fill(struct row *row, int (*print)(char *, double))
{
    size_t n = 0;
    for (size_t i = 0; i < COUNT; i++) {
        n += (size_t)sprintf(row->text + n, i == 0 ? "[" : ", ");
        char *number = row->text + n;
        n += (size_t)print(number, draw_logit());
        row->expected[i] = (float)strtod(number, NULL);
    }
    row->text[n++] = ']';
    row->text[n] = '\0';
    row->length = n;
}

/* strtof rounds once, the others by way of a double; either is near enough to show that all was read. */
static void check(const struct reader *reader, const struct row *row)
{
    memset(row->out, 0, COUNT * sizeof *row->out);
    if (reader->read(row) != COUNT)
        timing_fail("%s does not read %d numbers", reader->name, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        float off = row->out[i] - row->expected[i];
        if (off > 1e-6f || off < -1e-6f)
            timing_fail("%s reads %.9g for %.9g", reader->name, row->out[i], row->expected[i]);
    }
}

struct task {
    const struct reader *reader;
    const struct row *row;
};

static void run(void *context, size_t repeats)
{
    const struct task *task = context;
    for (size_t i = 0; i < repeats; i++)
        task->reader->read(task->row);
}

static void measure(struct bench_options *options, const char *format, const struct row *row)
{
    struct task tasks[NUM_READERS];
    struct timing_entry entries[NUM_READERS];
    for (size_t i = 0; i < NUM_READERS; i++) {
        check(&READERS[i], row);
        tasks[i] = (struct task){&READERS[i], row};
        entries[i] = (struct timing_entry){.run = run, .context = &tasks[i]};
    }
    timing_compare(entries, NUM_READERS, 10 * options->budget_ms); /* a few large rows deserve the time */
    struct output *o = &options->output;
    for (size_t i = 0; i < NUM_READERS; i++) {
        double us = entries[i].median_us;
        output_text(o, "format", 13, format);
        output_text(o, "reader", 17, READERS[i].name);
        output_number(o, "bytes_per_number", (double)row->length / COUNT, 2);
        output_number(o, "us_per_row", us, 1);
        output_number(o, "ns_per_number", 1e3 * us / COUNT, 2);
        output_number(o, "mb_per_s", (double)row->length / us, 1);
        output_number(o, "times_numbers", us / entries[0].median_us, 2);
        output_end(o);
    }
}

void bench_numbers(struct bench_options *options)
{
    struct row row = {
        .text = timing_alloc(COUNT * WIDEST + NUMBERS_PADDING, 1),
        .expected = timing_alloc(COUNT, sizeof(float)),
        .out = timing_alloc(COUNT, sizeof(float)),
    };
#ifdef HAVE_SIMDJSON
    fprintf(stderr, "simdjson %s\n", simdjson_baseline_name());
#else
    fprintf(stderr, "simdjson is not here: skipped\n");
#endif
    fill(&row, print_shortest);
    measure(options, "json_dumps", &row);
    fill(&row, print_short);
    measure(options, "four_decimals", &row);
    free(row.text);
    free(row.expected);
    free(row.out);
}
