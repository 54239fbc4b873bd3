/* The rules against every golden result: mixed cases, six engines' own, real rows, greedy rows, steps. */
#include "core/rules/chain.h"

#include "core/rules/draws/adaptive_p.h"
#include "core/rules/draws/mirostat.h"
#include "core/rules/draws/skew.h"
#include "core/sampler.h"
#include "tests/support.h"

static const struct kernels *table;
static struct arena memory; /* of one request */

/* ---- parameters from JSON, one row ---- */

static void *lend(size_t count, size_t size)
{
    void *lent = arena_alloc(&memory, count + 1, size);
    ck_assert_ptr_nonnull(lent);
    return lent;
}

static struct column numbers_of(const cJSON *item)
{
    size_t n = cJSON_IsArray(item) ? (size_t)cJSON_GetArraySize(item) : 1;
    double *values = lend(n, sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = cJSON_IsArray(item)  ? cJSON_GetArrayItem(item, (int)i)->valuedouble
                    : cJSON_IsBool(item) ? cJSON_IsTrue(item)
                                         : item->valuedouble;
    return (struct column){values, false};
}

/* [3, 4] or {"3": 0.5, "4": null} */
static struct id_lists ids_of(const cJSON *list)
{
    size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
    int32_t *ids = lend(n, sizeof *ids);
    float *biases = lend(n, sizeof *biases);
    uint32_t *starts = lend(2, sizeof *starts);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        ids[i] = item->string == NULL ? item->valueint : atoi(item->string);
        biases[i++] = cJSON_IsNull(item) ? -INFINITY : (float)item->valuedouble;
    }
    starts[0] = 0;
    starts[1] = (uint32_t)n;
    return (struct id_lists){.ids = ids, .starts = starts, .biases = biases};
}

/* [[3, 4], [5]], where an id stands for a list of one. */
static struct id_sequences sequences_of(const cJSON *list)
{
    size_t n = (size_t)cJSON_GetArraySize(list), count = 0, i = 0;
    int32_t *ids = lend(4096, sizeof *ids);
    uint32_t *starts = lend(n + 1, sizeof *starts), *row_starts = lend(2, sizeof *row_starts);
    const cJSON *sequence, *item;
    cJSON_ArrayForEach(sequence, list)
    {
        starts[i++] = (uint32_t)count;
        if (!cJSON_IsArray(sequence))
            ids[count++] = sequence->valueint;
        else
            cJSON_ArrayForEach(item, sequence) ids[count++] = item->valueint;
    }
    starts[n] = (uint32_t)count;
    row_starts[0] = 0;
    row_starts[1] = (uint32_t)n;
    return (struct id_sequences){.lists = {.ids = ids, .starts = starts}, .row_starts = row_starts};
}

static struct bitmask bitmask_of(const cJSON *list)
{
    size_t n = (size_t)cJSON_GetArraySize(list);
    uint32_t *words = lend(n, sizeof *words);
    for (size_t i = 0; i < n; i++)
        words[i] = (uint32_t)(int64_t)cJSON_GetArrayItem(list, (int)i)->valuedouble;
    return (struct bitmask){.words = words, .words_per_row = n};
}

static const struct rule_param *param_named(const char *name)
{
    for (unsigned slot = 0; slot < NUM_SLOTS; slot++)
        if (strcmp(rule_param_of((enum rule_slot)slot)->name, name) == 0)
            return rule_param_of((enum rule_slot)slot);
    return NULL;
}

static void set(struct sample_request *request, const struct rule_param *param, const cJSON *item)
{
    struct rule_value *value = &request->rule_values[param->slot];
    value->sent = true;
    switch (param->kind) {
    case KIND_IDS:
    case KIND_BIASES:
        value->ids = ids_of(item);
        break;
    case KIND_SEQUENCES:
        value->sequences = sequences_of(item);
        break;
    case KIND_BITMASK:
        value->bitmask = bitmask_of(item);
        break;
    default:
        value->number = numbers_of(item);
    }
}

static void set_order(struct sample_request *request, const cJSON *names)
{
    uint8_t *order = lend(NUM_RULES, 1);
    const cJSON *name;
    cJSON_ArrayForEach(name, names)
    {
        for (unsigned i = 0; i < NUM_RULES; i++)
            if (strcmp(rules[i]->name, name->valuestring) == 0)
                order[request->num_order++] = (uint8_t)i;
    }
    request->order = order;
}

static void set_all(struct sample_request *request, const cJSON *c)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, c)
    {
        const struct rule_param *param = param_named(item->string);
        if (cJSON_IsNull(item))
            continue;
        if (param != NULL)
            set(request, param, item);
        else if (strcmp(item->string, "order") == 0)
            set_order(request, item);
        else if (strcmp(item->string, "top_k_ties") == 0)
            request->top_k_ties =
                strcmp(item->valuestring, "keep") == 0 ? TOP_K_TIES_KEEP : TOP_K_TIES_LOWER_ID;
        else if (strcmp(item->string, "top_p_crossing") == 0)
            request->top_p_crossing =
                strcmp(item->valuestring, "keep") == 0 ? TOP_P_CROSSING_KEEP : TOP_P_CROSSING_DROP;
        else if (strcmp(item->string, "engine") == 0)
            for (unsigned e = 0; e < NUM_ENGINES; e++)
                request->engine =
                    strcmp(engine_names[e], item->valuestring) == 0 ? (enum engine)e : request->engine;
    }
}

/* ---- a row through the chain ---- */

struct fixture {
    struct sampler sampler;
    struct sample_request request;
    struct sample_result result;
    struct error err;
    uint64_t seed, offset;
};

static enum status run(struct fixture *f, const cJSON *c, const float *z, size_t n)
{
    arena_reset(&memory);
    *f = (struct fixture){.seed = 7};
    f->request = (struct sample_request){.logits = z,
                                         .num_stacks = 1,
                                         .batch_size = 1,
                                         .vocab_size = n,
                                         .n = 1,
                                         .seed = {&f->seed, false},
                                         .offset = {&f->offset, false},
                                         .top_candidates = 1024};
    set_all(&f->request, c);
    set_all(&f->request, cJSON_GetObjectItem(c, "params"));
    ck_assert_int_eq(sampler_init(&f->sampler, table, &f->err), STATUS_OK);
    if (chain_plan(&f->request, &f->err) != STATUS_OK)
        return f->err.status;
    ck_assert_int_eq(sampler_result_init(&f->result, &f->request, &f->err), STATUS_OK);
    ck_assert_int_eq(sampler_reserve(&f->sampler, &f->request, &f->err), STATUS_OK);
    return sampler_run_row(&f->sampler, &f->request, 0, &f->result, &f->err);
}

static void finish(struct fixture *f)
{
    sampler_result_fini(&f->result);
    sampler_fini(&f->sampler);
}

static double expected_of(const cJSON *c, int32_t id)
{
    const cJSON *ids = cJSON_GetObjectItem(c, "kept_token_ids"), *probs = cJSON_GetObjectItem(c, "probs");
    for (int i = 0; i < cJSON_GetArraySize(ids); i++)
        if (cJSON_GetArrayItem(ids, i)->valueint == id)
            return probs == NULL ? NAN : cJSON_GetArrayItem(probs, i)->valuedouble;
    return 0.0;
}

/* 2e-4 relative and 1e-7 absolute; tokens below 1e-12 stay or go. */
static void check_kept(struct fixture *f, const cJSON *c, const char *file, int number)
{
    const cJSON *ids = cJSON_GetObjectItem(c, "kept_token_ids");
    uint32_t kept = f->result.num_candidates[0], seen = 0;
    for (uint32_t i = 0; i < kept; i++) {
        double p = f->result.top_probs[i], expected = expected_of(c, f->result.top_token_ids[i]);
        seen += expected != 0.0;
        ck_assert_msg(isnan(expected) || fabs(p - expected) <= 1e-7 + 2e-4 * expected,
                      "%s case %d: token %d has %.9g, not %.9g; %s", file, number, f->result.top_token_ids[i],
                      p, expected, cJSON_PrintUnformatted(cJSON_GetObjectItem(c, "params")));
    }
    const cJSON *probs = cJSON_GetObjectItem(c, "probs");
    for (int i = 0; i < cJSON_GetArraySize(ids); i++)
        if (probs == NULL || cJSON_GetArrayItem(probs, i)->valuedouble >= 1e-12)
            seen--;
    ck_assert_msg((int32_t)seen >= 0 && (probs != NULL || seen == 0), "%s case %d: %d more kept, of %u; %s",
                  file, number, (int)seen, kept, cJSON_PrintUnformatted(cJSON_GetObjectItem(c, "params")));
}

static float *row_of(const cJSON *c, size_t *n)
{
    const cJSON *file = cJSON_GetObjectItem(c, "file");
    return file != NULL ? real_row(file->valuestring, n) : json_row(cJSON_GetObjectItem(c, "logits"), n);
}

static void check_case(const cJSON *c, const char *file, int number)
{
    struct fixture f;
    size_t n;
    float *z = row_of(c, &n);
    const cJSON *greedy = cJSON_GetObjectItem(c, "greedy_token_id");
    enum status status = run(&f, c, z, n);
    if (greedy == NULL && cJSON_GetArraySize(cJSON_GetObjectItem(c, "kept_token_ids")) == 0) {
        ck_assert_msg(status == STATUS_UNSAMPLABLE, "%s case %d: %s", file, number,
                      status == STATUS_OK ? "is sampled" : f.err.message);
    } else {
        ck_assert_msg(status == STATUS_OK, "%s case %d: %s", file, number, f.err.message);
        if (greedy != NULL)
            ck_assert_msg(f.result.token_ids[0] == greedy->valueint, "%s case %d: %d, not %d", file, number,
                          f.result.token_ids[0], greedy->valueint);
        else
            check_kept(&f, c, file, number);
    }
    finish(&f);
    free(z);
}

/* ---- files ---- */

static const struct {
    const char *name;
    int cases;
} files[] = {
    {"rules.json", 260},
    {"engines/llamacpp.json", 280},
    {"engines/transformers.json", 212},
    {"engines/vllm.json", 145},
    {"engines/sglang.json", 92},
    {"engines/aphrodite.json", 71},
    {"engines/exllamav2.json", 31},
    {"engines/real/llamacpp.json", 22},
    {"engines/real/transformers.json", 20},
    {"engines/real/vllm.json", 15},
    {"engines/real/sglang.json", 13},
    {"engines/greedy/llamacpp.json", 14},
    {"engines/greedy/transformers.json", 8},
    {"engines/greedy/vllm.json", 8},
    {"engines/greedy/sglang.json", 6},
};

START_TEST(golden_cases)
{
    cJSON *root = read_json(files[_i].name);
    const cJSON *c;
    int number = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases")) check_case(c, files[_i].name, number++);
    ck_assert_int_eq(number, files[_i].cases);
    cJSON_Delete(root);
}
END_TEST

/* A step with its parameters and the state before it, as a case of its own. */
static cJSON *case_of_step(const cJSON *c, const cJSON *step, const char *state)
{
    cJSON *one = cJSON_Duplicate(step, true),
          *params = cJSON_Duplicate(cJSON_GetObjectItem(c, "params"), true);
    cJSON_AddItemToObject(params, state, cJSON_Duplicate(cJSON_GetObjectItem(step, "before"), true));
    cJSON_AddItemToObject(one, "params", params);
    cJSON_AddStringToObject(one, "engine", cJSON_GetObjectItem(c, "engine")->valuestring);
    return one;
}

/* The state after the token that the engine drew. */
static void check_after(const cJSON *one, const char *file, int number)
{
    struct fixture f;
    size_t n;
    float *z = json_row(cJSON_GetObjectItem(one, "logits"), &n);
    ck_assert_int_eq(run(&f, one, z, n), STATUS_OK);
    const cJSON *after = cJSON_GetObjectItem(one, "after");
    int32_t drawn = (int32_t)json_number(one, "drawn_token_id");
    double total = 0, state[2];
    for (size_t i = 0; i < n; i++)
        total += exp(z[i] - (double)z[drawn]);
    if (cJSON_IsArray(after)) {
        adaptive_p_next(&f.request, 0, 1 / total, state);
        for (int i = 0; i < 2; i++)
            ck_assert_msg(fabs(state[i] / cJSON_GetArrayItem(after, i)->valuedouble - 1) < 1e-5, "%s %d: %g",
                          file, number, state[i]);
    } else {
        double mu = mirostat_next(&f.request, 0, log(expected_of(one, drawn)));
        ck_assert_msg(fabs(mu - after->valuedouble) < 2e-5, "%s %d: mu %.9g, not %.9g", file, number, mu,
                      after->valuedouble);
        double own = f.result.mirostat_mu[0], p = expected_of(one, f.result.token_ids[0]);
        ck_assert(fabs(own - mirostat_next(&f.request, 0, log(p))) < 2e-5);
    }
    finish(&f);
    free(z);
}

START_TEST(golden_steps)
{
    const char *file = "engines/steps/llamacpp.json";
    cJSON *root = read_json(file);
    const cJSON *c, *step;
    int number = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases"))
    {
        bool adapts = cJSON_HasObjectItem(cJSON_GetObjectItem(c, "params"), "adaptive_target");
        cJSON_ArrayForEach(step, cJSON_GetObjectItem(c, "steps"))
        {
            cJSON *one = case_of_step(c, step, adapts ? "adaptive_state" : "mirostat_mu");
            check_case(one, file, number);
            check_after(one, file, number++);
            cJSON_Delete(one);
        }
    }
    ck_assert_int_eq(number, 36);
    cJSON_Delete(root);
}
END_TEST

/* Draws at the u of the golden ones. */
START_TEST(golden_skew)
{
    cJSON *root = read_json("engines/skew/skew.json");
    const cJSON *c, *u;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases"))
    {
        struct fixture f;
        size_t n, i = 0;
        float *z = json_row(cJSON_GetObjectItem(c, "logits"), &n);
        ck_assert_int_eq(run(&f, c, z, n), STATUS_OK);
        struct support_room room = support_room_lend(n, &memory);
        struct rule_row r = {.request = &f.request,
                             .kernels = table,
                             .scratch = &f.sampler.scratch,
                             .support = {.z = z, .n = n, .max = table->max(z, n), .room = &room},
                             .temperature = 1};
        arena_reset(r.scratch);
        ck_assert_int_eq(chain_run(&r, &f.err), STATUS_OK);
        struct skewed skewed = skew_sort(&r);
        cJSON_ArrayForEach(u, cJSON_GetObjectItem(c, "u"))
        {
            int expected = cJSON_GetArrayItem(cJSON_GetObjectItem(c, "drawn_token_id"), (int)i++)->valueint;
            ck_assert_int_eq(support_id(&r.support, skew_draw(&skewed, u->valuedouble)), expected);
        }
        ck_assert_uint_gt(i, 0);
        finish(&f);
        free(z);
    }
    cJSON_Delete(root);
}
END_TEST

/* ---- statistics, with states that go from step to step ---- */

/* A request of one row whose rules are numbers. */
struct walk {
    struct fixture f;
    double values[8];
    size_t num_values;
    double state[2];
};

static void walk_init(struct walk *w, const float *z, size_t n)
{
    *w = (struct walk){.f.seed = 11};
    struct fixture *f = &w->f;
    f->request = (struct sample_request){.logits = z,
                                         .num_stacks = 1,
                                         .batch_size = 1,
                                         .vocab_size = n,
                                         .n = 1,
                                         .seed = {&f->seed, false},
                                         .offset = {&f->offset, false}};
    ck_assert_int_eq(sampler_init(&f->sampler, table, &f->err), STATUS_OK);
}

static void walk_set(struct walk *w, enum rule_slot slot, double value)
{
    double *kept = &w->values[w->num_values++];
    *kept = value;
    w->f.request.rule_values[slot] = (struct rule_value)RULE_NUMBER(kept);
}

static void walk_begin(struct walk *w)
{
    struct fixture *f = &w->f;
    ck_assert_msg(chain_plan(&f->request, &f->err) == STATUS_OK, "%s", f->err.message);
    ck_assert_int_eq(sampler_result_init(&f->result, &f->request, &f->err), STATUS_OK);
    ck_assert_int_eq(sampler_reserve(&f->sampler, &f->request, &f->err), STATUS_OK);
}

static void walk_step(struct walk *w)
{
    w->f.offset++;
    ck_assert_int_eq(sampler_run_row(&w->f.sampler, &w->f.request, 0, &w->f.result, &w->f.err), STATUS_OK);
}

/* With a probability that is right this far off happens once in 10^8 tests. */
static bool is_likely(double count, double n, double p)
{
    return fabs(count - n * p) <= 5.8 * sqrt(n * p * (1 - p)) + 1e-9;
}

START_TEST(xtc_coins)
{
    static const float z[] = {2, 1.5F, 1, -9};
    static const double probabilities[] = {0, 0.3, 1};
    const int steps = 20000;
    for (size_t i = 0; i < 3; i++) {
        struct walk w;
        int dropped = 0;
        walk_init(&w, z, 4);
        w.f.request.top_candidates = 4;
        walk_set(&w, SLOT_temperature, 1);
        walk_set(&w, SLOT_xtc_probability, probabilities[i]);
        walk_begin(&w);
        for (int step = 0; step < steps; step++) {
            walk_step(&w);
            uint32_t kept = w.f.result.num_candidates[0];
            ck_assert(kept == 4 || kept == 2);
            dropped += kept == 2;
        }
        ck_assert_msg(is_likely(dropped, steps, probabilities[i]), "%d dropped of %d at %g", dropped, steps,
                      probabilities[i]);
        finish(&w.f);
    }
}
END_TEST

/* The first r ranks are drawn where u < (their share)^exp(s). */
START_TEST(skew_draws)
{
    enum { N = 6, STEPS = 60000 };
    static const float z[N] = {0.5F, 2, -1, 1, 0, -0.5F}, falling[N] = {2, 1, 0.5F, 0, -0.5F, -1};
    static const double skews[] = {-0.7, 0.4, 1.5};
    for (size_t i = 0; i < 3; i++) {
        struct walk w;
        int drawn[N] = {0};
        double total = 0, mass = 0, below = 0;
        walk_init(&w, z, N);
        walk_set(&w, SLOT_temperature, 1);
        walk_set(&w, SLOT_skew, skews[i]);
        walk_begin(&w);
        for (int step = 0; step < STEPS; step++) {
            walk_step(&w);
            drawn[w.f.result.token_ids[0]]++;
        }
        for (int r = 0; r < N; r++)
            total += exp(falling[r]);
        for (int r = 0; r < N; r++) {
            int id = 0;
            while (z[id] != falling[r])
                id++;
            mass += exp(falling[r]) / total;
            double share = pow(mass, exp(skews[i]));
            ck_assert_msg(is_likely(drawn[id], STEPS, share - below),
                          "skew %g: rank %d drawn %d times, not %g", skews[i], r, drawn[id],
                          STEPS * (share - below));
            below = share;
        }
        finish(&w.f);
    }
}
END_TEST

static void fill_normal(float *z, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        z[i] = next_logit(state, 2.0);
}

/* Over 10,000 steps what is drawn is as surprising as tau asks for. */
START_TEST(mirostat_holds_its_tau)
{
    enum { V = 400, STEPS = 10000 };
    float z[V];
    for (int version = 1; version <= 2; version++) {
        struct walk w;
        uint64_t state = 3;
        double bits = 0;
        walk_init(&w, z, V);
        w.f.request.logprobs = true;
        walk_set(&w, SLOT_temperature, 1);
        walk_set(&w, SLOT_mirostat, version);
        walk_set(&w, SLOT_mirostat_tau, 3);
        walk_set(&w, SLOT_mirostat_mu, 6);
        walk_begin(&w);
        for (int step = 0; step < STEPS; step++) {
            fill_normal(z, V, &state);
            walk_step(&w);
            bits -= w.f.result.logprobs[0] / log(2.0);
            w.values[3] = w.f.result.mirostat_mu[0];
        }
        ck_assert_msg(fabs(bits / STEPS - 3) < 0.05, "mirostat %d: %g bits on average, not 3", version,
                      bits / STEPS);
        finish(&w.f);
    }
}
END_TEST

/* What was drawn had, before adaptive_p, the target on average. */
START_TEST(adaptive_p_holds_its_target)
{
    enum { V = 6, STEPS = 10000 }; /* few, so that some are as likely as the target */
    static const double targets[] = {0.5, 0.55, 0.6};
    float z[V];
    for (size_t i = 0; i < 3; i++) {
        struct walk w;
        uint64_t state = 5;
        double mean = 0;
        walk_init(&w, z, V);
        walk_set(&w, SLOT_temperature, 1);
        walk_set(&w, SLOT_adaptive_target, targets[i]);
        w.state[0] = targets[i] * 10;
        w.state[1] = 10;
        w.f.request.rule_values[SLOT_adaptive_state] = (struct rule_value)RULE_NUMBER(w.state);
        walk_begin(&w);
        for (int step = 0; step < STEPS; step++) {
            fill_normal(z, V, &state);
            walk_step(&w);
            mean += (w.f.result.adaptive_state[0] - 0.9 * w.state[0]) / STEPS;
            memcpy(w.state, w.f.result.adaptive_state, sizeof w.state);
        }
        ck_assert_msg(fabs(mean - targets[i]) < 0.02, "%g on average, not %g", mean, targets[i]);
        finish(&w.f);
    }
}
END_TEST

static void setup(void)
{
    struct error err;
    const char *why;
    table = kernels_select("auto", &why);
    ck_assert_int_eq(arena_init(&memory, 1 << 20, &err), STATUS_OK);
}

static void teardown(void)
{
    arena_fini(&memory);
}

int main(void)
{
    Suite *suite = suite_create("chain");
    TCase *golden = tcase_create("golden");
    tcase_add_checked_fixture(golden, setup, teardown);
    tcase_set_timeout(golden, 120);
    tcase_add_loop_test(golden, golden_cases, 0, (int)(sizeof files / sizeof files[0]));
    tcase_add_test(golden, golden_steps);
    tcase_add_test(golden, golden_skew);
    TCase *statistics = tcase_create("statistics");
    tcase_add_checked_fixture(statistics, setup, teardown);
    tcase_set_timeout(statistics, 120);
    tcase_add_test(statistics, xtc_coins);
    tcase_add_test(statistics, skew_draws);
    tcase_add_test(statistics, mirostat_holds_its_tau);
    tcase_add_test(statistics, adaptive_p_holds_its_target);
    suite_add_tcase(suite, golden);
    suite_add_tcase(suite, statistics);
    return run_suite(suite);
}
