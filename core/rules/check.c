#include "core/rules/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places in messages ---- */

#define PLACE_BYTES 96

/* "history", or "history[3]" where there is a list for each row. */
static const char *place_of(const struct rule_param *param, bool per_row, size_t row, char text[PLACE_BYTES])
{
    if (per_row)
        snprintf(text, PLACE_BYTES, "%s[%zu]", param->name, row);
    else
        snprintf(text, PLACE_BYTES, "%s", param->name);
    return text;
}

static enum status at_row(struct error *err, const struct rule_param *param, bool per_row, size_t row)
{
    return error_at(err, param->name, per_row ? row : ERROR_NO_ROW);
}

/* ---- token ids ---- */

/* One list of a parameter, as messages name it. */
struct list_place {
    const struct rule_param *param;
    bool per_row;
    size_t row;
    const char *text; /* "history[3]" */
};

static enum status refuse_id(const struct sample_request *request, const struct list_place *where, size_t i,
                             int32_t id, struct error *err)
{
    if (request->candidate_ids != NULL)
        error_set(err, STATUS_INVALID, "out_of_range", "%s[%zu] is %d; a token id is 0 or more", where->text,
                  i, (int)id);
    else
        error_set(err, STATUS_INVALID, "out_of_range",
                  "%s[%zu] is %d; it must be a token id from 0 to %zu, the last of a row of logits",
                  where->text, i, (int)id, request->vocab_size - 1);
    return at_row(err, where->param, where->per_row, where->row);
}

/* Ids are of tokens that the row scores; beside candidates they may be of any. */
static enum status check_ids(const struct sample_request *request, const struct list_place *where,
                             struct id_list list, struct error *err)
{
    size_t limit = request->candidate_ids == NULL ? request->vocab_size : (size_t)INT32_MAX + 1;
    for (size_t i = 0; i < list.n; i++)
        if (list.ids[i] < 0 || (size_t)list.ids[i] >= limit)
            return refuse_id(request, where, i, list.ids[i], err);
    return STATUS_OK;
}

static int compare_ids(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

static enum status check_distinct(const struct list_place *where, struct id_list list, struct error *err)
{
    int32_t *sorted = malloc(list.n * sizeof *sorted + 1);
    if (sorted == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate %zu ids", list.n);
    for (size_t i = 0; i < list.n; i++)
        sorted[i] = list.ids[i];
    qsort(sorted, list.n, sizeof *sorted, compare_ids);
    for (size_t i = 1; i < list.n; i++) {
        if (sorted[i] == sorted[i - 1]) {
            error_set(err, STATUS_INVALID, "duplicate_id", "%s has %d twice; each id has one bias",
                      where->text, (int)sorted[i]);
            at_row(err, where->param, where->per_row, where->row);
            free(sorted);
            return STATUS_INVALID;
        }
    }
    free(sorted);
    return STATUS_OK;
}

static enum status check_biases(const struct list_place *where, struct id_list list, struct error *err)
{
    for (size_t i = 0; i < list.n; i++) {
        if (list.biases[i] < INFINITY)
            continue;
        error_set(err, STATUS_INVALID, "out_of_range", "%s has %s for the id %d; a bias is finite, or null",
                  where->text, isnan(list.biases[i]) ? "NaN" : "+infinity", (int)list.ids[i]);
        return at_row(err, where->param, where->per_row, where->row);
    }
    return check_distinct(where, list, err);
}

static enum status refuse_empty(const struct list_place *where, const char *what, struct error *err)
{
    error_set(err, STATUS_INVALID, "out_of_range", "%s is an empty list; %s", where->text, what);
    return at_row(err, where->param, where->per_row, where->row);
}

static enum status check_lists(const struct sample_request *request, const struct rule_param *param,
                               struct error *err)
{
    const struct id_lists *sent = &request->rule_values[param->slot].ids;
    for (size_t row = 0; row < (sent->per_row ? request->batch_size : 1); row++) {
        char text[PLACE_BYTES];
        struct list_place where = {param, sent->per_row, row, place_of(param, sent->per_row, row, text)};
        struct id_list list = id_lists_nth(sent, row);
        if (param->slot == SLOT_allowed_token_ids && list.n == 0)
            return refuse_empty(&where, "it would mask every token", err);
        if (check_ids(request, &where, list, err) != STATUS_OK ||
            (param->kind == KIND_BIASES && check_biases(&where, list, err) != STATUS_OK))
            return err->status;
    }
    return STATUS_OK;
}

/* What is looked for in history may be any ids; what is masked, the last one of a bad word, is of the row. */
static enum status check_sequence(const struct sample_request *request, const struct list_place *where,
                                  struct id_list list, struct error *err)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.ids[i] < 0)
            return refuse_id(request, where, i, list.ids[i], err);
    int32_t last = list.ids[list.n - 1];
    if (where->param->slot != SLOT_bad_words || request->candidate_ids != NULL ||
        (size_t)last < request->vocab_size)
        return STATUS_OK;
    return refuse_id(request, where, list.n - 1, last, err);
}

static enum status check_sequences(const struct sample_request *request, const struct rule_param *param,
                                   struct error *err)
{
    bool per_row = request->rule_values[param->slot].sequences.per_row;
    for (size_t row = 0; row < (per_row ? request->batch_size : 1); row++) {
        struct sequence_range range = rule_sequences(request, param->slot, row);
        for (size_t i = 0; i < range.n; i++) {
            char outer[PLACE_BYTES], text[PLACE_BYTES + 24];
            snprintf(text, sizeof text, "%s[%zu]", place_of(param, per_row, row, outer), i);
            struct list_place where = {param, per_row, row, text};
            struct id_list list = id_lists_nth(range.lists, range.first + i);
            if (list.n == 0)
                return refuse_empty(&where, "it must have an id", err);
            if (check_sequence(request, &where, list, err) != STATUS_OK)
                return err->status;
        }
    }
    return STATUS_OK;
}

static enum status check_bitmask(const struct sample_request *request, const struct rule_param *param,
                                 struct error *err)
{
    size_t words = request->rule_values[param->slot].bitmask.words_per_row;
    size_t needed = (request->vocab_size + 31) / 32;
    if (request->candidate_ids != NULL || words == needed)
        return STATUS_OK;
    error_set(err, STATUS_INVALID, "wrong_length",
              "%s has rows of %zu words; for rows of %zu logits it must be %zu, a bit a token", param->name,
              words, request->vocab_size, needed);
    return error_at(err, param->name, ERROR_NO_ROW);
}

static enum status check_value(const struct sample_request *request, const struct rule_param *param,
                               struct error *err)
{
    switch (param->kind) {
    case KIND_IDS:
    case KIND_BIASES:
        return check_lists(request, param, err);
    case KIND_SEQUENCES:
        return check_sequences(request, param, err);
    case KIND_BITMASK:
        return check_bitmask(request, param, err);
    default:
        return STATUS_OK;
    }
}

static enum status check_values(const struct sample_request *request, struct error *err)
{
    for (size_t i = 0; i < NUM_RULES; i++)
        for (size_t p = 0; p < rules[i]->num_params; p++)
            if (rule_sent(request, rules[i]->params[p].slot) &&
                check_value(request, &rules[i]->params[p], err) != STATUS_OK)
                return err->status;
    return STATUS_OK;
}

/* ---- the order ---- */

static enum status refuse_order(struct error *err)
{
    return error_at(err, "order", ERROR_NO_ROW);
}

static enum status check_order(const struct sample_request *request, struct error *err)
{
    bool seen[NUM_RULES] = {false};
    const struct rule *end = NULL;
    for (size_t i = 0; request->order != NULL && i < request->num_order; i++) {
        const struct rule *rule = rules[request->order[i]];
        if (seen[request->order[i]]) {
            error_set(err, STATUS_INVALID, "conflicting_parameters", "order has %s twice", rule->name);
            return refuse_order(err);
        }
        if (end != NULL && rule->place != PLACE_END) {
            error_set(err, STATUS_INVALID, "conflicting_parameters",
                      "order has %s before %s; mirostat, adaptive_p and skew may only stand at the end",
                      end->name, rule->name);
            return refuse_order(err);
        }
        seen[request->order[i]] = true;
        end = rule->place == PLACE_END ? rule : end;
    }
    return STATUS_OK;
}

/* ---- rules that are set ---- */

static bool any_sent(const struct sample_request *request, const struct rule *rule)
{
    for (size_t p = 0; p < rule->num_params; p++)
        if (rule_sent(request, rule->params[p].slot))
            return true;
    return false;
}

/* Whether what was sent turns a rule on for this row; a greedy row's temperature turns nothing on. */
static bool is_set(const struct sample_request *request, const struct rule *rule, size_t row)
{
    bool is_temperature = rule->params[0].slot == SLOT_temperature;
    return rule->is_on(request, row) &&
           !(is_temperature && rule_number(request, SLOT_temperature, row) <= 0 &&
             rule_number(request, SLOT_dynatemp_range, row) == 0);
}

/* The first row for which a rule is set; ERROR_NO_ROW for none. */
static size_t first_set(const struct sample_request *request, const struct rule *rule)
{
    if (!any_sent(request, rule))
        return ERROR_NO_ROW;
    for (size_t row = 0; row < request->batch_size; row++)
        if (is_set(request, rule, row))
            return row;
    return ERROR_NO_ROW;
}

static enum status refuse_rule(const struct sample_request *request, const struct rule *rule, size_t row,
                               const char *why, struct error *err)
{
    const struct rule_param *param = &rule->params[0];
    error_set(err, STATUS_INVALID, "conflicting_parameters", "%s is set for row %zu, but %s", rule->name, row,
              why);
    return at_row(err, param, request->batch_size > 1, row);
}

static bool is_in(const struct chain *chain, size_t rule)
{
    return memchr(chain->rules, (int)rule, chain->num_rules) != NULL;
}

/* Every rule that is set runs. */
static enum status check_left_out(const struct sample_request *request, const struct chain *chain,
                                  struct error *err)
{
    for (size_t i = 0; i < NUM_RULES; i++) {
        if (rules[i]->place == PLACE_NOWHERE || is_in(chain, i))
            continue;
        size_t row = first_set(request, rules[i]);
        char why[96];
        if (row == ERROR_NO_ROW)
            continue;
        if (request->order != NULL)
            snprintf(why, sizeof why, "order leaves it out");
        else
            snprintf(why, sizeof why, "the engine %s has no such rule", engine_names[request->engine]);
        return refuse_rule(request, rules[i], row, why, err);
    }
    return STATUS_OK;
}

/* What penalises repetition has something to look at. */
static enum status check_history(const struct sample_request *request, struct error *err)
{
    for (size_t i = 0; i < NUM_RULES && !rule_sent(request, SLOT_history); i++) {
        size_t row = rules[i]->place == PLACE_LOGITS ? first_set(request, rules[i]) : ERROR_NO_ROW;
        if (row == ERROR_NO_ROW)
            continue;
        error_set(err, STATUS_INVALID, "missing_parameter",
                  "%s is set, but there is no history for it; send the ids so far", rules[i]->name);
        return error_at(err, "history", ERROR_NO_ROW);
    }
    return STATUS_OK;
}

/* A share of 0 that the engine does not know. */
static enum status check_zero(const struct sample_request *request, enum rule_slot slot, enum at_zero at_zero,
                              struct error *err)
{
    const struct rule_param *param = rule_param_of(slot);
    for (size_t row = 0; at_zero == ZERO_IS_REFUSED && row < request->batch_size; row++) {
        if (!rule_sent(request, slot) || rule_number(request, slot, row) != 0)
            continue;
        error_set(err, STATUS_INVALID, "out_of_range", "%s is 0, which the engine %s refuses; 1 keeps all",
                  param->name, engine_names[request->engine]);
        return at_row(err, param, request->rule_values[slot].number.per_row, row);
    }
    return STATUS_OK;
}

/* A state that the drawn token changes wants one draw. */
static enum status check_draws(const struct sample_request *request, struct error *err)
{
    static const enum rule_id stateful[] = {RULE_mirostat, RULE_adaptive_p};
    for (size_t i = 0; i < sizeof stateful / sizeof stateful[0]; i++) {
        if (request->n == 1 || first_set(request, rules[stateful[i]]) == ERROR_NO_ROW)
            continue;
        error_set(err, STATUS_INVALID, "conflicting_parameters",
                  "n is %u; with %s, which goes on from the token that is drawn, it must be 1",
                  (unsigned)request->n, rules[stateful[i]]->name);
        return error_at(err, "n", ERROR_NO_ROW);
    }
    return STATUS_OK;
}

static enum status check_state(const struct sample_request *request, struct error *err)
{
    const struct rule_value *sent = &request->rule_values[SLOT_adaptive_state];
    size_t rows = !sent->sent ? 0 : sent->number.per_row ? request->batch_size : 1;
    for (size_t row = 0; row < rows; row++) {
        if (sent->number.values[2 * row + 1] > 0)
            continue;
        error_set(err, STATUS_INVALID, "out_of_range",
                  "the second number of adaptive_state is %.15g for row %zu; it counts, and must be above 0",
                  sent->number.values[2 * row + 1], row);
        return at_row(err, rule_param_of(SLOT_adaptive_state), sent->number.per_row, row);
    }
    return STATUS_OK;
}

enum status check_rules(const struct sample_request *request, const struct chain *chain, struct error *err)
{
    const struct engine_column *engine = rule_engine(request);
    if (check_values(request, err) != STATUS_OK || check_order(request, err) != STATUS_OK ||
        check_left_out(request, chain, err) != STATUS_OK || check_history(request, err) != STATUS_OK ||
        check_zero(request, SLOT_top_p, engine->top_p_zero, err) != STATUS_OK ||
        check_zero(request, SLOT_typical_p, engine->typical_p_zero, err) != STATUS_OK ||
        check_draws(request, err) != STATUS_OK)
        return err->status;
    return check_state(request, err);
}
