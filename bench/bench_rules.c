/*
 * Rules on one row of 128,256 tokens, on the measuring thread: what each costs beside reading the row and
 * beside the row of temperature alone, and what those over a history cost by its length.
 */
#include "bench/samplerd_bench.h"

#include "bench/rows.h"
#include "bench/timing.h"
#include "core/rules/chain.h"
#include "core/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB_SIZE ((size_t)128256)
#define MOST_IDS   ((size_t)1 << 20)

/* What a bar is of. */
enum measure {
    PASSES,      /* the whole row, in read passes */
    TIMES,       /* the whole row, in times of that of temperature alone */
    MORE_PASSES, /* what it takes more than that, in read passes */
    MORE_US,     /* the same in microseconds */
    WHOLE_US     /* the whole row in microseconds */
};
static const char *const measures[] = {"passes", "times", "more_passes", "more_us", "us"};

struct rule_case {
    const char *name;
    enum measure measure;
    double bar;
    struct {
        enum rule_slot slot;
        double value;
    } numbers[4];
    size_t history, banned, biases; /* ids, at random */
    bool bitmask;
    enum engine engine;
    enum rows_kind rows;
};

#define SET(name, x)                                                                                         \
    {                                                                                                        \
        SLOT_##name, x                                                                                       \
    }

static const struct rule_case rule_cases[] = {
    {"temperature", PASSES, 13, {{0}}, .rows = ROWS_JSON},
    {"min_p", PASSES, 4, {SET(min_p, 0.05)}, .rows = ROWS_JSON},
    {"top_n_sigma", PASSES, 4, {SET(top_n_sigma, 1)}, .rows = ROWS_JSON},
    {"epsilon_cutoff", TIMES, 1.3, {SET(epsilon_cutoff, 3e-4)}, .rows = ROWS_JSON},
    {"top_a", TIMES, 1.3, {SET(top_a, 0.2)}, .rows = ROWS_JSON},
    {"p_less", TIMES, 1.3, {SET(p_less, 1)}, .rows = ROWS_JSON},
    {"eta_cutoff", TIMES, 3, {SET(eta_cutoff, 3e-4)}, .rows = ROWS_JSON},
    {"typical_p", TIMES, 3, {SET(typical_p, 0.9)}, .rows = ROWS_JSON},
    {"eta_cutoff", PASSES, 400, {SET(eta_cutoff, 3e-4)}, .rows = ROWS_NEAR_FLAT},
    {"typical_p", PASSES, 400, {SET(typical_p, 0.9)}, .rows = ROWS_NEAR_FLAT},
    {"typical_p", PASSES, 400, {SET(typical_p, 0.9)}, .rows = ROWS_FLAT},
    {"token_bitmask", MORE_PASSES, 3, {{0}}, .bitmask = true, .rows = ROWS_JSON},
    {"banned_1000", TIMES, 1.6, {{0}}, .banned = 1000, .rows = ROWS_JSON},
    {"biases_1000", TIMES, 1.6, {{0}}, .biases = 1000, .rows = ROWS_JSON},
    {"repetition_4096", TIMES, 1.6, {SET(repetition_penalty, 1.1)}, .history = 4096, .rows = ROWS_JSON},
    {"penalties_4096",
     TIMES,
     1.6,
     {SET(repetition_penalty, 1.1), SET(frequency_penalty, 0.1), SET(presence_penalty, 0.1)},
     .history = 4096,
     .rows = ROWS_JSON},
    {"dry_32768", MORE_US, 400, {SET(dry_multiplier, 0.8)}, .history = 32768, .rows = ROWS_JSON},
    {"ngram_32768", MORE_US, 400, {SET(no_repeat_ngram_size, 3)}, .history = 32768, .rows = ROWS_JSON},
    {"llama.cpp_default",
     WHOLE_US,
     20,
     {SET(repetition_penalty, 1.1)},
     .history = 64,
     .engine = ENGINE_LLAMA_CPP,
     .rows = ROWS_JSON},
};

/* What a request points at. */
struct values {
    double numbers[5];
    int32_t *ids; /* [MOST_IDS] */
    float *biases;
    uint32_t starts[2], *words;
    uint64_t seed, offset;
};

struct load {
    struct sampler sampler;
    struct sample_request request;
    struct sample_result result;
    struct values values;
};

static void set_number(struct load *load, size_t i, enum rule_slot slot, double value)
{
    load->values.numbers[i] = value;
    load->request.rule_values[slot] = (struct rule_value)RULE_NUMBER(&load->values.numbers[i]);
}

static void set_ids(struct load *load, enum rule_slot slot, size_t n)
{
    load->values.starts[1] = (uint32_t)n;
    struct id_lists lists = {.ids = load->values.ids, .starts = load->values.starts};
    if (slot == SLOT_logit_bias)
        lists.biases = load->values.biases;
    load->request.rule_values[slot] = (struct rule_value){.sent = true, .ids = lists};
}

/* As a text repeats itself: a third of the ids stand where they stood a while ago. */
static void fill_ids(struct values *v, bool distinct)
{
    uint32_t state = 7;
    for (size_t i = 0; i < MOST_IDS; i++) {
        state = state * 1664525u + 1013904223u;
        v->ids[i] = distinct                             ? (int32_t)(i * 127 % VOCAB_SIZE)
                    : i >= 300 && (state >> 16) % 3 == 0 ? v->ids[i - 300]
                                                         : (int32_t)(state % VOCAB_SIZE);
        v->biases[i] = 0.5f;
    }
}

static void load_init(struct load *load, const struct kernels *kernels, const struct rule_case *c,
                      float *logits)
{
    struct error err;
    *load = (struct load){.values = {.ids = timing_alloc(MOST_IDS, sizeof(int32_t)),
                                     .biases = timing_alloc(MOST_IDS, sizeof(float)),
                                     .words = timing_alloc(VOCAB_SIZE / 32 + 1, sizeof(uint32_t)),
                                     .seed = 7}};
    struct values *v = &load->values;
    fill_ids(v, c->banned + c->biases > 0);
    memset(v->words, 0xb7, (VOCAB_SIZE / 32 + 1) * sizeof *v->words);
    load->request = (struct sample_request){.logits = logits,
                                            .num_stacks = 1,
                                            .batch_size = 1,
                                            .vocab_size = VOCAB_SIZE,
                                            .n = 1,
                                            .engine = c->engine,
                                            .seed = {&v->seed, false},
                                            .offset = {&v->offset, false}};
    for (size_t i = 0; i < 4 && c->numbers[i].value != 0; i++)
        set_number(load, i, c->numbers[i].slot, c->numbers[i].value);
    if (c->engine == ENGINE_REFERENCE)
        set_number(load, 4, SLOT_temperature, 0.8);
    if (c->history > 0)
        set_ids(load, SLOT_history, c->history);
    if (c->banned > 0)
        set_ids(load, SLOT_banned_token_ids, c->banned);
    if (c->biases > 0)
        set_ids(load, SLOT_logit_bias, c->biases);
    if (c->bitmask)
        load->request.rule_values[SLOT_token_bitmask] =
            (struct rule_value){.sent = true, .bitmask = {v->words, (VOCAB_SIZE + 31) / 32, false}};
    if (sampler_init(&load->sampler, kernels, &err) != STATUS_OK ||
        chain_plan(&load->request, &err) != STATUS_OK ||
        sampler_reserve(&load->sampler, &load->request, &err) != STATUS_OK ||
        sampler_result_init(&load->result, &load->request, &err) != STATUS_OK)
        timing_fail("%s", err.message);
}

static void load_fini(struct load *load)
{
    sampler_result_fini(&load->result);
    sampler_fini(&load->sampler);
    free(load->values.ids);
    free(load->values.biases);
    free(load->values.words);
}

static void run(void *context, size_t repeats)
{
    struct load *load = context;
    struct error err;
    for (size_t i = 0; i < repeats; i++) {
        load->values.offset++;
        if (sampler_run_row(&load->sampler, &load->request, 0, &load->result, &err) != STATUS_OK)
            timing_fail("%s", err.message);
    }
}

struct reading {
    const float *logits;
    unsigned bits;
};

static void read_row(void *context, size_t repeats)
{
    struct reading *reading = context;
    for (size_t i = 0; i < repeats; i++)
        reading->bits ^= rows_read(reading->logits, VOCAB_SIZE);
}

static double measured(enum measure measure, double us, double read_us, double temperature_us)
{
    switch (measure) {
    case PASSES:
        return us / read_us;
    case TIMES:
        return us / temperature_us;
    case MORE_PASSES:
        return (us - temperature_us) / read_us;
    case MORE_US:
        return us - temperature_us;
    default:
        return us;
    }
}

static void measure(struct bench_options *options, const struct kernels *kernels, const struct rule_case *c)
{
    enum { READ, TEMPERATURE, OURS };
    float *logits = rows_make(c->rows, 1, VOCAB_SIZE);
    struct load ours, temperature;
    struct reading reading = {logits, 0};
    load_init(&ours, kernels, c, logits);
    load_init(&temperature, kernels, &rule_cases[0], logits);
    struct timing_entry entries[] = {[READ] = {.run = read_row, .context = &reading},
                                     [TEMPERATURE] = {.run = run, .context = &temperature},
                                     [OURS] = {.run = run, .context = &ours}};
    timing_compare(entries, 3, options->budget_ms);
    double us = entries[OURS].median_us;
    double value = measured(c->measure, us, entries[READ].median_us, entries[TEMPERATURE].median_us);
    struct output *o = &options->output;
    output_text(o, "rule", 17, c->name);
    output_text(o, "rows", 9, rows_name(c->rows));
    output_text(o, "kernels", 7, kernels->name);
    output_number(o, "us_per_row", us, 2);
    output_number(o, "read_pass_us", entries[READ].median_us, 2);
    output_number(o, "temperature_us", entries[TEMPERATURE].median_us, 2);
    output_text(o, "measure", 11, measures[c->measure]);
    output_number(o, "measured", value, 2);
    output_number(o, "limit", c->bar, 1);
    output_bool(o, "holds", value <= c->bar);
    output_end(o);
    load_fini(&ours);
    load_fini(&temperature);
    free(logits);
}

/* Rules over a history of 1,024 to a million ids: linear. */
static void measure_growth(struct bench_options *options)
{
    static const struct rule_case rules_of_history[] = {
        {"dry", MORE_US, NAN, {SET(dry_multiplier, 0.8)}, .rows = ROWS_JSON},
        {"no_repeat_ngram", MORE_US, NAN, {SET(no_repeat_ngram_size, 3)}, .rows = ROWS_JSON},
        {"repetition_penalty", MORE_US, NAN, {SET(repetition_penalty, 1.1)}, .rows = ROWS_JSON},
    };
    for (size_t i = 0; i < sizeof rules_of_history / sizeof rules_of_history[0]; i++) {
        for (size_t n = 1024; n <= MOST_IDS; n *= 4) {
            struct rule_case c = rules_of_history[i];
            char name[32];
            snprintf(name, sizeof name, "%s_%zu", c.name, n);
            c.name = name;
            c.history = n;
            measure(options, options->kernels, &c);
        }
    }
}

void bench_rules(struct bench_options *options)
{
    const char *why;
    for (const struct kernels *const *t = kernels_tables; *t != NULL; t++) {
        bool chosen = *t == options->kernels || (options->all_tables && strcmp((*t)->name, "generic") != 0);
        if (!chosen || kernels_select((*t)->name, &why) == NULL)
            continue;
        for (size_t i = 0; i < sizeof rule_cases / sizeof rule_cases[0]; i++)
            if (options->only_case == NULL || strcmp(options->only_case, rule_cases[i].name) == 0)
                measure(options, *t, &rule_cases[i]);
    }
    if (options->only_case == NULL)
        measure_growth(options);
}
