#include "core/rules/chain.h"

#include "core/row/rank.h"
#include "core/row/select.h"
#include "core/rules/check.h"

#include <math.h>
#include <string.h>

/* ---- planning ---- */

static void add(struct chain *chain, enum rule_id rule)
{
    chain->rules[chain->num_rules++] = (uint8_t)rule;
}

/* Masks and biases come first, but where an engine adds biases after its penalties. */
static void list_masks(const struct sample_request *request, struct chain *out)
{
    for (unsigned i = 0; i < NUM_RULES; i++)
        if (rules[i]->place == PLACE_MASK && !(i == RULE_logit_bias && rule_engine(request)->bias_last))
            add(out, (enum rule_id)i);
}

/* All rules that a row may run, in order. */
static void list_rules(const struct sample_request *request, struct chain *out)
{
    const struct engine_column *engine = rule_engine(request);
    const uint8_t *order = request->order == NULL ? engine->order : request->order;
    size_t n = request->order == NULL ? engine->num_order : request->num_order;
    bool biased = !engine->bias_last;
    out->num_rules = 0;
    list_masks(request, out);
    for (size_t i = 0; i < n; i++) {
        if (!biased && rules[order[i]]->place != PLACE_LOGITS) {
            add(out, RULE_logit_bias);
            biased = true;
        }
        add(out, (enum rule_id)order[i]);
    }
    if (!biased)
        add(out, RULE_logit_bias);
    if (request->order == NULL && engine->mirostat_order != NULL)
        add(out, RULE_mirostat);
}

/* Whether any row asks for it; the values of parameters that are one for all rows tell it for all. */
static bool is_asked_for(const struct rule *rule, const struct sample_request *request)
{
    for (size_t row = 0; row < request->batch_size; row++)
        if (rule->is_on(request, row))
            return true;
    return false;
}

enum status chain_plan(struct sample_request *request, struct error *err)
{
    struct chain all;
    list_rules(request, &all);
    if (check_rules(request, &all, err) != STATUS_OK)
        return err->status;
    request->chain.num_rules = 0;
    for (size_t i = 0; i < all.num_rules; i++)
        if (is_asked_for(rules[all.rules[i]], request))
            add(&request->chain, (enum rule_id)all.rules[i]);
    return STATUS_OK;
}

bool chain_runs(const struct chain *chain, enum rule_id rule)
{
    return memchr(chain->rules, (int)rule, chain->num_rules) != NULL;
}

bool chain_sets_tokens(const struct chain *chain)
{
    for (size_t i = 0; i < chain->num_rules; i++)
        if (rules[chain->rules[i]]->sets_tokens)
            return true;
    return false;
}

size_t chain_scratch_bytes(const struct sample_request *request)
{
    size_t n = request->vocab_size, most = 0, kept = 0;
    for (size_t i = 0; i < request->chain.num_rules; i++) {
        const struct rule *rule = rules[request->chain.rules[i]];
        size_t bytes = rule->scratch_bytes == NULL ? 0 : rule->scratch_bytes(request);
        kept += rule->prepare == NULL ? 0 : bytes;
        most = bytes > most ? bytes : most;
    }
    size_t rows = 8 * (n * sizeof(float) + ARENA_ALIGNMENT);
    return kept + most + select_scratch_bytes(n) + rank_scratch_bytes(n) + 2 * rows;
}

/* ---- running ---- */

bool chain_is_greedy(const struct sample_request *request, size_t row)
{
    const struct engine_column *engine = rule_engine(request);
    double temperature = rule_number(request, SLOT_temperature, row);
    if (engine->truncates_greedy && rule_number(request, SLOT_dynatemp_range, row) > 0)
        return false;
    return (float)temperature <= 0.0f || temperature < engine->greedy_below;
}

/* What a row runs of the chain. */
struct course {
    bool greedy, stops_at_temperature, mirostat_alone;
};

static struct course course_of(const struct sample_request *request, size_t row)
{
    const struct engine_column *engine = rule_engine(request);
    bool greedy = chain_is_greedy(request, row);
    return (struct course){
        .greedy = greedy && !engine->truncates_greedy,
        .stops_at_temperature = greedy && engine->truncates_greedy,
        .mirostat_alone = request->order == NULL && engine->mirostat_order != NULL &&
                          rule_number(request, SLOT_mirostat, row) > 0,
    };
}

static bool is_listed(enum rule_id id, const uint8_t *order, size_t n)
{
    return memchr(order, (int)id, n) != NULL;
}

static bool takes_part(enum rule_id id, struct course course, const struct engine_column *engine)
{
    enum rule_place place = rules[id]->place;
    if (place == PLACE_MASK)
        return true;
    if (course.mirostat_alone && !is_listed(id, engine->mirostat_order, engine->num_mirostat_order))
        return false;
    return !course.greedy || place == PLACE_LOGITS;
}

static enum status fully_masked(const struct rule_row *r, const struct rule *rule, struct error *err)
{
    error_set(err, STATUS_UNSAMPLABLE, "fully_masked",
              "every token of row %zu is masked; %s masked the last of them", r->index, rule->name);
    return error_at(err, rule->params[0].name, r->index);
}

static void prepare(struct rule_row *r)
{
    const struct chain *chain = &r->request->chain;
    for (size_t i = 0; i < chain->num_rules; i++) {
        const struct rule *rule = rules[chain->rules[i]];
        if (rule->prepare != NULL && rule->is_on(r->request, r->index))
            rule->prepare(r);
    }
}

enum status chain_run(struct rule_row *r, struct error *err)
{
    const struct chain *chain = &r->request->chain;
    if (chain->num_rules == 0)
        return STATUS_OK;
    struct course course = course_of(r->request, r->index);
    prepare(r);
    for (size_t i = 0; i < chain->num_rules; i++) {
        const struct rule *rule = rules[chain->rules[i]];
        if (course.stops_at_temperature && chain->rules[i] == RULE_temperature)
            break;
        if (!takes_part((enum rule_id)chain->rules[i], course, rule_engine(r->request)) ||
            !rule->is_on(r->request, r->index))
            continue;
        size_t mark = arena_mark(r->scratch);
        rule->apply(r);
        if (rule->place != PLACE_END)
            arena_release(r->scratch, mark);
        if (r->support.max == -INFINITY)
            return fully_masked(r, rule, err);
    }
    return STATUS_OK;
}
