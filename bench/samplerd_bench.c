/*
 * What sampling and reading cost in this process, without a server: samplerd-bench core | rules | growth |
 * numbers. Run from the top folder; real rows are read from tests/data.
 */
#include "bench/samplerd_bench.h"

#include "bench/timing.h"
#include "core/row/mix.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: samplerd-bench core | rules | growth | numbers [options]\n"
    "  core      every case on real, flat and one-hot rows, beside BLAS and sorting\n"
    "  rules     every rule on a real row, beside reading it and temperature alone\n"
    "  growth    time per row against vocabulary, batch and workers\n"
    "  numbers   the reader of JSON numbers beside strtof, cJSON and simdjson\n"
    "  --json           one JSON object a line, not a table\n"
    "  --kernels NAME   auto, generic, avx2, avx512 or neon (default auto: the best, and of core single\n"
    "                   rows with the others, too)\n"
    "  --budget-ms N    how long to compare each group of timings (default 100)\n"
    "  --case NAME                     of core and rules: measure it alone\n"
    "  --rows NAME, --vocab-size N     of core: measure these alone\n";

static const struct command {
    const char *name;
    void (*run)(struct bench_options *options);
} COMMANDS[] = {
    {"core", bench_core}, {"rules", bench_rules}, {"growth", bench_growth}, {"numbers", bench_numbers}};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (strcmp(COMMANDS[i].name, name) == 0)
            return &COMMANDS[i];
    return NULL;
}

static void usage(FILE *file, int status)
{
    fputs(USAGE, file);
    exit(status);
}

static const struct kernels *kernels_named(const char *name)
{
    const char *why = NULL;
    const struct kernels *kernels = kernels_select(name, &why);
    if (kernels == NULL)
        timing_fail("--kernels %s: %s", name, why != NULL ? why : "there is no such table");
    return kernels;
}

static double number(const char *name, const char *text, double most)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !(x >= 0 && x <= most))
        timing_fail("%s is %s; it must be from 0 to %.0f", name, text, most);
    return x;
}

static void read_options(int argc, char **argv, struct bench_options *options)
{
    static const struct option LONG[] = {{"json", no_argument, NULL, 'j'},
                                         {"kernels", required_argument, NULL, 'k'},
                                         {"budget-ms", required_argument, NULL, 'b'},
                                         {"case", required_argument, NULL, 'c'},
                                         {"rows", required_argument, NULL, 'r'},
                                         {"vocab-size", required_argument, NULL, 'v'},
                                         {"help", no_argument, NULL, 'h'},
                                         {NULL, 0, NULL, 0}};
    const char *kernels = "auto";
    for (int c; (c = getopt_long(argc, argv, "h", LONG, NULL)) != -1;) {
        if (c == 'j')
            options->output.json = true;
        else if (c == 'k')
            kernels = optarg;
        else if (c == 'b')
            options->budget_ms = number("--budget-ms", optarg, 60000);
        else if (c == 'c')
            options->only_case = optarg;
        else if (c == 'r')
            options->only_rows = optarg;
        else if (c == 'v')
            options->only_vocab_size = (size_t)number("--vocab-size", optarg, 1u << 20);
        else
            usage(c == 'h' ? stdout : stderr, c == 'h' ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    options->kernels = kernels_named(kernels);
    options->all_tables = strcmp(kernels, "auto") == 0;
}

int main(int argc, char **argv)
{
    struct bench_options options = {.budget_ms = 100};
    read_options(argc, argv, &options);
    const struct command *command = optind == argc - 1 ? find_command(argv[optind]) : NULL;
    if (command == NULL)
        usage(stderr, EXIT_FAILURE);
    mix_setup();
    timing_others();
    command->run(&options);
    fprintf(stderr, "other processes kept %.2f CPUs busy meanwhile\n", timing_others());
    return EXIT_SUCCESS;
}
