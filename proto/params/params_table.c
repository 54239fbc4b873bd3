#include "proto/params/params_table.h"

#include "core/base/spelling.h"
#include "core/rules/rule.h"
#include "proto/params/params.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const char *const modes[] = {"processed", "raw", NULL};
static const char *const ties[] = {"engine", "keep", "lower_id", NULL};
static const char *const crossings[] = {"engine", "drop", "keep", NULL};
const char *const params_dtypes[] = {"f32", "f16", "bf16", "f64", NULL};

#define ANYWHERE PARAM_IN_ANY
#define IN_BODY  (PARAM_IN_JSON | PARAM_IN_TENSORS)
#define LARGEST_WEIGHT                                                                                       \
    0x1.fffffefffffffp127 /* what still rounds to FLT_MAX: 3.4028235e38, as it is written */
#define FIELD(name) offsetof(struct params, request.name)

/* name, type, forms, per row, whole, above min, min, max, default, words, help, field */
static const struct param request_params[] = {
    {"logits", PARAM_LOGITS, IN_BODY, false, false, false, 0, 0, "required", NULL,
     "[B][V] numbers, null masks a token; or one flat row [V]; or [M][B][V] with mix; or packed",
     FIELD(logits)},
    {"seed", PARAM_WORD, ANYWHERE, true, true, false, 0, 0x1p64, "fresh", NULL,
     "names the draws; the answer returns the one used", FIELD(seed)},
    {"offset", PARAM_WORD, ANYWHERE, true, true, false, 0, 0x1p64, "0", NULL,
     "position in the sequence: same seed, next token", FIELD(offset)},
    {"n", PARAM_COUNT, ANYWHERE, false, true, false, 1, 1024, "1", NULL, "independent draws per row",
     FIELD(n)},
    {"top_candidates", PARAM_COUNT, ANYWHERE, false, true, false, 0, 1024, "0", NULL,
     "how many candidates to return, by probability, lower id first on a tie", FIELD(top_candidates)},
    {"logprobs", PARAM_FLAG, ANYWHERE, false, false, false, 0, 1, "false", NULL,
     "add natural-log probabilities", FIELD(logprobs)},
    {"logprobs_mode", PARAM_CHOICE, ANYWHERE, false, false, false, 0, 0, "processed", modes,
     "probabilities of the distribution drawn from, or raw: of softmax(z) before any rule",
     FIELD(logprobs_mode)},
    {"mix", PARAM_WEIGHTS, ANYWHERE, false, false, false, -LARGEST_WEIGHT, LARGEST_WEIGHT, "none", NULL,
     "[M] weights: z = sum of mix[m] * logits[m]", FIELD(mix)},
    {"bias", PARAM_ARRAY, IN_BODY, false, false, false, 0, 0, "none", NULL,
     "[V] or [B][V] numbers to add to the logits, null masks a token", FIELD(bias)},
    {"candidate_ids", PARAM_IDS, IN_BODY, false, true, false, 0, INT32_MAX, "none", NULL,
     "[B][K] the tokens that the logits [B][K] are of, each once a row; the answer has these ids",
     FIELD(candidate_ids)},
    {"id", PARAM_TEXT, ANYWHERE, false, false, false, 0, 256, "none", NULL, "echoed in the answer",
     FIELD(id)},
    {"vocab_size", PARAM_COUNT, PARAM_IN_RAW, false, true, false, 1, INT32_MAX, "required", NULL,
     "of a raw body: tokens per row", offsetof(struct params, vocab_size)},
    {"dtype", PARAM_CHOICE, PARAM_IN_RAW, false, false, false, 0, 0, "f32", params_dtypes,
     "of a raw body: what its numbers are", FIELD(dtype)},
    {"rows", PARAM_COUNT, PARAM_IN_RAW, false, true, false, 1, INT32_MAX, "none", NULL,
     "of a raw body: how many it must have, as a check of vocab_size and dtype",
     offsetof(struct params, rows)},
    {"engine", PARAM_CHOICE, ANYWHERE, false, false, false, 0, 0, "reference", engine_names,
     "whose conventions hold: order, defaults, ties (docs/rules.md)", FIELD(engine)},
    {"order", PARAM_ORDER, ANYWHERE, false, false, false, 0, 0, "the engine's", NULL,
     "names of rules, in the order in which they run", FIELD(order)},
    {"top_k_ties", PARAM_CHOICE, ANYWHERE, false, false, false, 0, 0, "engine", ties,
     "of logits that tie at top_k all stay (keep), or those of the lowest ids (lower_id)", FIELD(top_k_ties)},
    {"top_p_crossing", PARAM_CHOICE, ANYWHERE, false, false, false, 0, 0, "engine", crossings,
     "the token that crosses top_p goes (drop), or stays (keep)", FIELD(top_p_crossing)},
    {"logit_bias_ids", PARAM_BIAS_IDS, PARAM_IN_TENSORS, true, true, false, 0, INT32_MAX, "none", NULL,
     "of named tensors: the ids of logit_bias [B][K], -1 pads", FIELD(rule_values[SLOT_logit_bias])},
    {"logit_bias_values", PARAM_BIAS_VALUES, PARAM_IN_TENSORS, true, false, false, 0, 0, "none", NULL,
     "of named tensors: its numbers [B][K], -infinity masks", FIELD(rule_values[SLOT_logit_bias])},
};

static const enum param_type types_of_kinds[] = {
    [KIND_REAL] = PARAM_REAL,           [KIND_WHOLE] = PARAM_REAL,      [KIND_SWITCH] = PARAM_SWITCH,
    [KIND_PAIR] = PARAM_PAIR,           [KIND_IDS] = PARAM_ID_LISTS,    [KIND_BIASES] = PARAM_BIASES,
    [KIND_SEQUENCES] = PARAM_SEQUENCES, [KIND_BITMASK] = PARAM_BITMASK,
};

/* Numbers and lists of ids fit into a query; biases are two tensors. */
static unsigned forms_of(enum rule_kind kind)
{
    return kind == KIND_BIASES                              ? PARAM_IN_JSON
           : kind == KIND_SEQUENCES || kind == KIND_BITMASK ? IN_BODY
                                                            : ANYWHERE;
}

static struct param param_of(const struct rule_param *p)
{
    bool is_number =
        p->kind == KIND_REAL || p->kind == KIND_WHOLE || p->kind == KIND_SWITCH || p->kind == KIND_PAIR;
    return (struct param){
        .name = p->name,
        .type = types_of_kinds[p->kind],
        .forms = forms_of(p->kind),
        .per_row = true,
        .whole = p->kind == KIND_WHOLE || !is_number,
        .above_min = p->above_min,
        .min = p->min,
        .max = p->max,
        .initial = p->initial,
        .help = p->help,
        .offset = FIELD(rule_values) + p->slot * sizeof(struct rule_value),
    };
}

struct param params_table[PARAMS_MAX];
size_t params_count;

_Static_assert(sizeof request_params / sizeof request_params[0] + NUM_SLOTS <= PARAMS_MAX,
               "params_table has room for fewer");
_Static_assert(sizeof(enum logprobs_mode) == sizeof(unsigned) && sizeof(enum dtype) == sizeof(unsigned) &&
                   sizeof(enum engine) == sizeof(unsigned) && sizeof(enum top_k_ties) == sizeof(unsigned) &&
                   sizeof(enum top_p_crossing) == sizeof(unsigned),
               "a choice is stored as unsigned");

static void add_rule_param(enum rule_slot slot)
{
    params_table[params_count++] = param_of(rule_param_of(slot));
}

/* What everybody uses stands first, where documents show it: temperature, top_k and top_p behind logits. */
__attribute__((constructor)) static void build_table(void)
{
    static const enum rule_slot known[] = {SLOT_temperature, SLOT_top_k, SLOT_top_p};
    size_t count = sizeof request_params / sizeof request_params[0];
    params_table[params_count++] = request_params[0];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        add_rule_param(known[i]);
    memcpy(params_table + params_count, request_params + 1, (count - 1) * sizeof request_params[0]);
    params_count += count - 1;
    for (unsigned slot = 0; slot < NUM_SLOTS; slot++)
        if (slot != SLOT_temperature && slot != SLOT_top_k && slot != SLOT_top_p)
            add_rule_param((enum rule_slot)slot);
}

bool params_is_of_rule(const struct param *param)
{
    return param->offset >= FIELD(rule_values) &&
           param->offset < FIELD(rule_values) + NUM_SLOTS * sizeof(struct rule_value);
}

/* Names that llama.cpp, vLLM, transformers, SGLang and their front ends have for what is the same here. */
static const struct {
    const char *theirs, *ours;
} aliases[] = {
    {"temp", "temperature"},
    {"typ_p", "typical_p"},
    {"typical", "typical_p"},
    {"nsigma", "top_n_sigma"},
    {"top_nsigma", "top_n_sigma"},
    {"repeat_penalty", "repetition_penalty"},
    {"penalty_repeat", "repetition_penalty"},
    {"rep_pen", "repetition_penalty"},
    {"repeat_last_n", "penalty_last_n"},
    {"rep_pen_range", "penalty_last_n"},
    {"repetition_penalty_range", "penalty_last_n"},
    {"penalty_freq", "frequency_penalty"},
    {"penalty_present", "presence_penalty"},
    {"dry_penalty_last_n", "dry_last_n"},
    {"dry_range", "dry_last_n"},
    {"min_new_tokens", "min_tokens"},
    {"suppress_tokens", "banned_token_ids"},
    {"custom_token_bans", "banned_token_ids"},
    {"bad_words_ids", "bad_words"},
    {"eos_token_id", "stop_token_ids"},
    {"eos_token_ids", "stop_token_ids"},
    {"tfs_z", "tfs"},
    {"dynatemp_exp", "dynatemp_exponent"},
    {"mirostat_mode", "mirostat"},
    {"mirostat_ent", "mirostat_tau"},
    {"mirostat_lr", "mirostat_eta"},
    {"xtc_prob", "xtc_probability"},
    {"adaptive_p_target", "adaptive_target"},
    {"adaptive_p_decay", "adaptive_decay"},
    {"samplers", "order"},
    {"sampler_order", "order"},
    {"sampler_priority", "order"},
    {"input_ids", "history"},
    {"prompt_token_ids", "history"},
    {"output_token_ids", "history"},
    {"n_probs", "top_candidates"},
    {"top_logprobs", "top_candidates"},
    {"top_logprobs_num", "top_candidates"},
    {"num_return_sequences", "n"},
    {"sampling_seed", "seed"},
};

const char *params_alias(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strlen(aliases[i].theirs) == length && memcmp(aliases[i].theirs, name, length) == 0)
            return aliases[i].ours;
    return NULL;
}

const struct param *params_find(unsigned forms, const char *name, size_t length)
{
    for (const struct param *param = params_table; param < params_table + params_count; param++)
        if ((param->forms & forms) && strlen(param->name) == length && memcmp(param->name, name, length) == 0)
            return param;
    return NULL;
}

const struct param *params_nearest(unsigned forms, const char *name, size_t length, size_t most)
{
    const struct param *best = NULL;
    for (const struct param *param = params_table;
         length <= SPELLING_NAME_BYTES && param < params_table + params_count; param++) {
        if (!(param->forms & forms))
            continue;
        size_t distance = spelling_distance(name, length, param->name, strlen(param->name));
        if (distance <= most && distance < length && (best == NULL || distance < most)) {
            best = param;
            most = distance;
        }
    }
    return best;
}

static void put_range(const struct param *param, char *text, size_t size)
{
    const char *kind = param->whole ? "a whole number" : "a finite number";
    if (param->max == 0x1p64)
        snprintf(text, size, "a whole number from 0 to 2^64 - 1, above 2^53 as a decimal string");
    else if (fabs(param->max) < FLT_MAX)
        snprintf(text, size, "%sfrom %.10g to %.10g", param->whole ? "a whole number " : "", param->min,
                 param->max);
    else if (param->above_min)
        snprintf(text, size, "%s above %.10g", kind, param->min);
    else if (fabs(param->min) < FLT_MAX)
        snprintf(text, size, "%s, %.10g or more", kind, param->min);
    else
        snprintf(text, size, "%s", kind);
}

static void put_words(const struct param *param, char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; param->words[i] != NULL && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s\"%s\"", i == 0 ? "" : " or ", param->words[i]);
}

void params_range(const struct param *param, char *text, size_t size)
{
    switch (param->type) {
    case PARAM_FLAG:
    case PARAM_SWITCH:
        snprintf(text, size, "true or false");
        break;
    case PARAM_PAIR:
        snprintf(text, size, "a list of two finite numbers");
        break;
    case PARAM_ID_LISTS:
    case PARAM_BIAS_IDS:
        snprintf(text, size, "a list of token ids");
        break;
    case PARAM_BIASES:
        snprintf(text, size, "an object of numbers, or null, by token id");
        break;
    case PARAM_BIAS_VALUES:
        snprintf(text, size, "a list of numbers");
        break;
    case PARAM_SEQUENCES:
        snprintf(text, size, "a list of lists of token ids, or of ids");
        break;
    case PARAM_BITMASK:
        snprintf(text, size, "packed words of 32 bits");
        break;
    case PARAM_ORDER:
        snprintf(text, size, "a list of names of rules");
        break;
    case PARAM_CHOICE:
        put_words(param, text, size);
        break;
    case PARAM_TEXT:
        snprintf(text, size, "a string of at most %.0f bytes without a zero byte", param->max);
        break;
    case PARAM_WEIGHTS:
        snprintf(text, size, "a list of finite numbers, one for each stack of logits");
        break;
    case PARAM_LOGITS:
    case PARAM_ARRAY:
        snprintf(text, size, "an array of numbers");
        break;
    case PARAM_IDS:
        snprintf(text, size, "an array of whole numbers from %.10g to %.10g", param->min, param->max);
        break;
    default:
        put_range(param, text, size);
    }
}

void params_print(FILE *out)
{
    fprintf(out, "| field | takes | default | meaning |\n|---|---|---|---|\n");
    for (const struct param *param = params_table; param < params_table + params_count; param++) {
        char range[128];
        params_range(param, range, sizeof range);
        const char *where = param->forms == ANYWHERE           ? ""
                            : param->forms == IN_BODY          ? ", not in a query"
                            : param->forms == PARAM_IN_JSON    ? ", JSON only"
                            : param->forms == PARAM_IN_TENSORS ? ", tensors only"
                                                               : ", raw only";
        fprintf(out, "| `%s` | %s%s%s | %s | %s |\n", param->name, range, param->per_row ? ", *per row*" : "",
                where, param->initial, param->help);
    }
}

static void print_engines(FILE *out, const struct rule *rule)
{
    const char *comma = "";
    for (unsigned e = 0; e < NUM_ENGINES && rule->place != PLACE_MASK; e++) {
        const struct engine_column *engine = &engine_columns[e];
        bool has = false;
        for (size_t i = 0; i < engine->num_order; i++)
            has |= rules[engine->order[i]] == rule;
        for (size_t i = 0; i < engine->num_mirostat_order; i++)
            has |= rules[engine->mirostat_order[i]] == rule;
        if (!has)
            continue;
        fprintf(out, "%s%s", comma, engine_names[e]);
        comma = ", ";
    }
    fputs(rule->place == PLACE_MASK ? "all" : "", out);
}

void params_print_rules(FILE *out)
{
    fprintf(out, "| rule | parameters | engines | source |\n|---|---|---|---|\n");
    for (size_t i = 0; i < NUM_RULES; i++) {
        const struct rule *rule = rules[i];
        if (rule->place == PLACE_NOWHERE)
            continue;
        fprintf(out, "| [%s](#%s) | ", rule->name, rule->name);
        for (size_t p = 0; p < rule->num_params; p++)
            fprintf(out, "%s`%s`", p == 0 ? "" : ", ", rule->params[p].name);
        fputs(" | ", out);
        print_engines(out, rule);
        fprintf(out, " | %s |\n", rule->source == NULL ? "" : rule->source);
    }
}

bool params_takes_list(const struct param *param)
{
    return param->per_row || param->type == PARAM_WEIGHTS || param->type == PARAM_LOGITS ||
           param->type == PARAM_ARRAY || param->type == PARAM_IDS || param->type == PARAM_ORDER;
}

bool params_is_optional(const struct param *param)
{
    return strcmp(param->initial, "required") != 0;
}
