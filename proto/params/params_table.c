#include "proto/params/params_table.h"

#include "core/base/spelling.h"
#include "proto/params/params.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const char *const modes[] = {"processed", "raw", NULL};
const char *const params_dtypes[] = {"f32", "f16", "bf16", "f64", NULL};

#define ANYWHERE PARAM_IN_ANY
#define IN_BODY  (PARAM_IN_JSON | PARAM_IN_TENSORS)
#define LARGEST_WEIGHT                                                                                       \
    0x1.fffffefffffffp127 /* what still rounds to FLT_MAX: 3.4028235e38, as it is written */
#define FIELD(name) offsetof(struct params, request.name)

/* name, type, forms, per row, whole, min, max, default, words, help, field */
const struct param params_table[] = {
    {"logits", PARAM_LOGITS, IN_BODY, false, false, 0, 0, "required", NULL,
     "[B][V] numbers, null masks a token; or one flat row [V]; or [M][B][V] with mix; or packed",
     FIELD(logits)},
    {"temperature", PARAM_REAL, ANYWHERE, true, false, -DBL_MAX, DBL_MAX, "0", NULL,
     "divides the logits; 0 and below are greedy", FIELD(temperature)},
    {"top_k", PARAM_REAL, ANYWHERE, true, true, -DBL_MAX, DBL_MAX, "0", NULL,
     "keep the logits >= the k-th largest, ties included; 0 and below keep all", FIELD(top_k)},
    {"top_p", PARAM_REAL, ANYWHERE, true, false, 0, 1, "1", NULL,
     "keep the likeliest tokens while their sum stays <= top_p; 0 and 1 keep all", FIELD(top_p)},
    {"seed", PARAM_WORD, ANYWHERE, true, true, 0, 0x1p64, "fresh", NULL,
     "names the draws; the answer returns the one used", FIELD(seed)},
    {"offset", PARAM_WORD, ANYWHERE, true, true, 0, 0x1p64, "0", NULL,
     "position in the sequence: same seed, next token", FIELD(offset)},
    {"n", PARAM_COUNT, ANYWHERE, false, true, 1, 1024, "1", NULL, "independent draws per row", FIELD(n)},
    {"top_candidates", PARAM_COUNT, ANYWHERE, false, true, 0, 1024, "0", NULL,
     "how many candidates to return, by probability, lower id first on a tie", FIELD(top_candidates)},
    {"logprobs", PARAM_FLAG, ANYWHERE, false, false, 0, 1, "false", NULL, "add natural-log probabilities",
     FIELD(logprobs)},
    {"logprobs_mode", PARAM_CHOICE, ANYWHERE, false, false, 0, 0, "processed", modes,
     "probabilities of the distribution drawn from, or raw: of softmax(z) before any rule",
     FIELD(logprobs_mode)},
    {"mix", PARAM_WEIGHTS, ANYWHERE, false, false, -LARGEST_WEIGHT, LARGEST_WEIGHT, "none", NULL,
     "[M] weights: z = sum of mix[m] * logits[m]", FIELD(mix)},
    {"bias", PARAM_ARRAY, IN_BODY, false, false, 0, 0, "none", NULL,
     "[V] or [B][V] numbers to add to the logits, null masks a token", FIELD(bias)},
    {"candidate_ids", PARAM_IDS, IN_BODY, false, true, 0, INT32_MAX, "none", NULL,
     "[B][K] the tokens that the logits [B][K] are of, each once a row; the answer has these ids",
     FIELD(candidate_ids)},
    {"id", PARAM_TEXT, ANYWHERE, false, false, 0, 256, "none", NULL, "echoed in the answer", FIELD(id)},
    {"vocab_size", PARAM_COUNT, PARAM_IN_RAW, false, true, 1, INT32_MAX, "required", NULL,
     "of a raw body: tokens per row", offsetof(struct params, vocab_size)},
    {"dtype", PARAM_CHOICE, PARAM_IN_RAW, false, false, 0, 0, "f32", params_dtypes,
     "of a raw body: what its numbers are", FIELD(dtype)},
    {"rows", PARAM_COUNT, PARAM_IN_RAW, false, true, 1, INT32_MAX, "none", NULL,
     "of a raw body: how many it must have, as a check of vocab_size and dtype",
     offsetof(struct params, rows)},
};

const size_t params_count = sizeof params_table / sizeof params_table[0];

_Static_assert(sizeof params_table / sizeof params_table[0] <= PARAMS_MAX,
               "struct params has room for fewer");
_Static_assert(sizeof(enum logprobs_mode) == sizeof(unsigned) && sizeof(enum dtype) == sizeof(unsigned),
               "a choice is stored as unsigned");

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
    else if (fabs(param->max) >= FLT_MAX)
        snprintf(text, size, "%s", kind);
    else if (param->whole)
        snprintf(text, size, "a whole number from %.10g to %.10g", param->min, param->max);
    else
        snprintf(text, size, "from %.10g to %.10g", param->min, param->max);
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
        snprintf(text, size, "true or false");
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
        const char *where = param->forms == ANYWHERE  ? ""
                            : param->forms == IN_BODY ? ", not in a query"
                                                      : ", raw only";
        fprintf(out, "| `%s` | %s%s%s | %s | %s |\n", param->name, range, param->per_row ? ", *per row*" : "",
                where, param->initial, param->help);
    }
}

bool params_takes_list(const struct param *param)
{
    return param->per_row || param->type == PARAM_WEIGHTS || param->type == PARAM_LOGITS ||
           param->type == PARAM_ARRAY || param->type == PARAM_IDS;
}

bool params_is_optional(const struct param *param)
{
    return strcmp(param->initial, "required") != 0;
}
