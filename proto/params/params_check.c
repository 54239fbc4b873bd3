#include "proto/params/params_check.h"

#include "proto/json/json_scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_BYTES 64

/* "top_p", or "top_p[2]" */
static const char *place(const struct param *param, size_t row, char text[PLACE_BYTES])
{
    if (row == ERROR_NO_ROW)
        snprintf(text, PLACE_BYTES, "%s", param->name);
    else
        snprintf(text, PLACE_BYTES, "%s[%zu]", param->name, row);
    return text;
}

/* "<place> <verdict>; it must be <range>" */
enum status params_refuse(const struct param *param, const char *code, const char *verdict, size_t row,
                          struct error *err)
{
    char where[PLACE_BYTES], range[128];
    params_range(param, range, sizeof range);
    bool is_weight = param->type == PARAM_WEIGHTS && row != ERROR_NO_ROW;
    const char *list = param->per_row && row == ERROR_NO_ROW && strcmp(code, "wrong_type") == 0
                           ? ", or a list of one for each row"
                           : "";
    bool is_fresh = row == ERROR_NO_ROW && strcmp(param->initial, "fresh") == 0;
    error_set(err, STATUS_INVALID, code, "%s %s; it must be %s%s%s", place(param, row, where), verdict,
              is_weight ? "a number that a float32 can hold" : range, list,
              is_fresh ? "; leave it out for a fresh one" : "");
    bool by_row = param->per_row || param->type == PARAM_IDS;
    return error_at(err, param->name, by_row ? row : ERROR_NO_ROW);
}

enum status params_out_of_range(const struct param *param, const char *verdict, size_t row, struct error *err)
{
    return params_refuse(param, "out_of_range", verdict, row, err);
}

enum status params_wrong_type(const struct param *param, const char *what, size_t row, struct error *err)
{
    char verdict[80];
    snprintf(verdict, sizeof verdict, "is %s", what);
    return params_refuse(param, "wrong_type", verdict, row, err);
}

enum status params_check_number(const struct param *param, double value, size_t row, struct error *err)
{
    bool fits = isfinite(value) && value >= param->min && value <= param->max &&
                !(param->above_min && value == param->min);
    if (fits && (!param->whole || value == floor(value)))
        return STATUS_OK;
    /* 15 digits, or the 17 that tell any two doubles apart: 1.0000000000000002 is not 1 */
    char verdict[64];
    snprintf(verdict, sizeof verdict, isfinite(value) ? "is %.15g" : "is not finite", value);
    if (isfinite(value) && strtod(verdict + strlen("is "), NULL) != value)
        snprintf(verdict, sizeof verdict, "is %.17g", value);
    return params_refuse(param, "out_of_range", verdict, row, err);
}

bool params_is_id(double value)
{
    return value >= 0 && value <= INT32_MAX && value == floor(value);
}

enum status params_refuse_id(const struct param *param, const char *code, const char *what, size_t row,
                             size_t i, struct error *err)
{
    char outer[PLACE_BYTES];
    error_set(err, STATUS_INVALID, code, "%s[%zu] is %s; it must be a whole number from %.10g to %.10g",
              place(param, row, outer), i, what, param->min, param->max);
    return error_at(err, param->name, row);
}

enum status params_read_word(const struct param *param, const char *digits, size_t length, size_t row,
                             uint64_t *out, struct error *err)
{
    uint64_t word = 0;
    bool valid = length > 0 && (length == 1 || digits[0] != '0');
    for (size_t i = 0; valid && i < length; i++)
        valid = digits[i] >= '0' && digits[i] <= '9' && !__builtin_mul_overflow(word, 10, &word) &&
                !__builtin_add_overflow(word, (uint64_t)(digits[i] - '0'), &word);
    *out = word;
    if (valid)
        return STATUS_OK;
    char verdict[64];
    size_t kept = json_utf8_prefix(digits, length, 40);
    snprintf(verdict, sizeof verdict, "is \"%.*s%s\"", (int)kept, digits, kept < length ? "..." : "");
    return params_refuse(param, "out_of_range", verdict, row, err);
}
