#include "core/rules/rule.h"

#include <string.h>

#define DECLARE(name) extern const struct rule rule_##name;
RULE_LIST(DECLARE, LIST_NOTHING)

#define PLACE_OF(name) [RULE_##name] = &rule_##name,
const struct rule *const rules[NUM_RULES] = {RULE_LIST(PLACE_OF, LIST_NOTHING)};

const struct rule *rule_find(const char *name, size_t length)
{
    for (size_t i = 0; i < NUM_RULES; i++)
        if (strlen(rules[i]->name) == length && memcmp(rules[i]->name, name, length) == 0)
            return rules[i];
    return NULL;
}

const struct rule_param *rule_param_of(enum rule_slot slot)
{
    for (size_t i = 0; i < NUM_RULES; i++)
        for (size_t p = 0; p < rules[i]->num_params; p++)
            if (rules[i]->params[p].slot == slot)
                return &rules[i]->params[p];
    return NULL;
}

double rule_number(const struct sample_request *request, enum rule_slot slot, size_t row)
{
    const struct rule_value *value = &request->rule_values[slot];
    if (value->sent)
        return column_at(&value->number, row);
    const struct engine_column *engine = rule_engine(request);
    for (size_t i = 0; i < engine->num_defaults; i++)
        if (engine->defaults[i].slot == slot)
            return engine->defaults[i].value;
    return rule_param_of(slot)->off;
}

struct id_list rule_ids(const struct sample_request *request, enum rule_slot slot, size_t row)
{
    const struct rule_value *value = &request->rule_values[slot];
    return value->sent ? id_lists_nth(&value->ids, value->ids.per_row ? row : 0) : (struct id_list){0};
}

struct sequence_range rule_sequences(const struct sample_request *request, enum rule_slot slot, size_t row)
{
    const struct rule_value *value = &request->rule_values[slot];
    if (!value->sent)
        return (struct sequence_range){0};
    const struct id_sequences *sent = &value->sequences;
    const uint32_t *starts = sent->row_starts + (sent->per_row ? row : 0);
    return (struct sequence_range){&sent->lists, starts[0], starts[1] - starts[0]};
}
