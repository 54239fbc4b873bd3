#include "server/observe/exposition.h"

#include <inttypes.h>

static const char *const type_names[] = {"counter", "gauge", "histogram"};

#define NO_BUCKET ((size_t)-1)

/* Decimal and exact: 25000 ns are 0.000025 s. */
static void write_number(FILE *out, uint64_t value, enum metric_unit unit)
{
    uint64_t scale = unit == METRIC_NANOSECONDS ? 1000000000u : 1, fraction = value % scale;
    int digits = 9;
    for (; fraction > 0 && fraction % 10 == 0; digits--)
        fraction /= 10;
    fprintf(out, "%" PRIu64, value / scale);
    if (fraction > 0)
        fprintf(out, ".%0*" PRIu64, digits, fraction);
}

static void write_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *s = text; *s != '\0'; s++) {
        if (*s == '\\' || *s == '"')
            fputc('\\', out);
        fputc(*s, out);
    }
    fputc('"', out);
}

/* The last label of a histogram's bucket: the values up to here are counted in it. */
static void write_bound(const struct metric_family *family, size_t bucket, FILE *out)
{
    fputs("le=\"", out);
    if (bucket == family->num_bounds)
        fputs("+Inf", out);
    else
        write_number(out, family->bounds[bucket], family->unit);
    fputc('"', out);
}

/* name_suffix{label="value",...} and a space */
static void write_series(const struct metrics *m, enum metric metric, size_t series, const char *suffix,
                         size_t bucket, FILE *out)
{
    const struct metric_family *family = &metrics_table[metric];
    size_t stride = metrics_num_series(m, metric);
    char before = '{';
    fprintf(out, "%s%s", family->name, suffix);
    for (size_t l = 0; l < METRICS_MAX_LABELS && family->labels[l] != LABEL_NONE; l++, before = ',') {
        enum metric_label label = family->labels[l];
        stride /= metrics_num_values(m, label);
        fprintf(out, "%c%s=", before, metrics_label_name(label));
        write_quoted(out, metrics_label_value(m, label, series / stride));
        series %= stride;
    }
    if (bucket != NO_BUCKET) {
        fputc(before, out);
        write_bound(family, bucket, out);
        before = ',';
    }
    fputs(before == ',' ? "} " : " ", out);
}

static void write_line(const struct metrics *m, enum metric metric, size_t series, const char *suffix,
                       size_t bucket, uint64_t value, enum metric_unit unit, FILE *out)
{
    write_series(m, metric, series, suffix, bucket, out);
    write_number(out, value, unit);
    fputc('\n', out);
}

static void write_counter(const struct metrics *m, enum metric metric, size_t series, FILE *out)
{
    const struct metric_family *family = &metrics_table[metric];
    uint64_t value = metrics_value(m, metric, series, 0);
    if (value > 0 || !family->sparse)
        write_line(m, metric, series, "", NO_BUCKET, value, family->unit, out);
}

/* _count is the last bucket, read once, so that the two agree while others record. */
static void write_histogram(const struct metrics *m, enum metric metric, size_t series, FILE *out)
{
    const struct metric_family *family = &metrics_table[metric];
    uint64_t sum = metrics_value(m, metric, series, family->num_bounds + 1), count = 0;
    if (family->sparse) {
        for (size_t bucket = 0; bucket <= family->num_bounds; bucket++)
            count += metrics_value(m, metric, series, bucket);
        if (count == 0)
            return;
        count = 0;
    }
    for (size_t bucket = 0; bucket <= family->num_bounds; bucket++) {
        count += metrics_value(m, metric, series, bucket);
        write_line(m, metric, series, "_bucket", bucket, count, METRIC_PLAIN, out);
    }
    write_line(m, metric, series, "_sum", NO_BUCKET, sum, family->unit, out);
    write_line(m, metric, series, "_count", NO_BUCKET, count, METRIC_PLAIN, out);
}

static void write_family(const struct metrics *m, enum metric metric, uint64_t reading, FILE *out)
{
    const struct metric_family *family = &metrics_table[metric];
    if (metric >= METRICS_FIRST_READ && reading == EXPOSITION_UNKNOWN)
        return;
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name,
            type_names[family->type]);
    if (metric >= METRICS_FIRST_READ) {
        write_line(m, metric, 0, "", NO_BUCKET, reading, family->unit, out);
        return;
    }
    for (size_t series = 0; series < metrics_num_series(m, metric); series++) {
        if (family->type == METRIC_HISTOGRAM)
            write_histogram(m, metric, series, out);
        else
            write_counter(m, metric, series, out);
    }
}

void exposition_write(const struct metrics *m, const uint64_t readings[NUM_METRICS], FILE *out)
{
    for (unsigned metric = 0; metric < NUM_METRICS; metric++)
        write_family(m, (enum metric)metric, readings[metric], out);
}

void exposition_print_table(FILE *out)
{
    fputs("| metric | type | labels | meaning |\n|---|---|---|---|\n", out);
    for (unsigned metric = 0; metric < NUM_METRICS; metric++) {
        const struct metric_family *family = &metrics_table[metric];
        fprintf(out, "| `%s` | %s | ", family->name, type_names[family->type]);
        for (size_t l = 0; l < METRICS_MAX_LABELS && family->labels[l] != LABEL_NONE; l++)
            fprintf(out, "%s%s", l > 0 ? ", " : "", metrics_label_name(family->labels[l]));
        fprintf(out, " | %s |\n", family->help);
    }
}
