#ifndef PROTO_PARAMS_CHECK_H
#define PROTO_PARAMS_CHECK_H

#include "core/base/status.h"
#include "proto/params/params_table.h"

#include <stdint.h>

/* What a parameter takes and what not, and the words for it.  Errors are STATUS_INVALID. */

/* "<name> <verdict>; it must be <what the parameter takes>".  row is the place in a list, or ERROR_NO_ROW. */
enum status params_refuse(const struct param *param, const char *code, const char *verdict, size_t row,
                          struct error *err);

/* "<name> <verdict>; it must be <what the parameter takes>": out_of_range.  row as above. */
enum status params_out_of_range(const struct param *param, const char *verdict, size_t row,
                                struct error *err);

/* "<name> is <what>; it must be <what the parameter takes>": wrong_type.  row as above. */
enum status params_wrong_type(const struct param *param, const char *what, size_t row, struct error *err);

/* Whether one number is finite and in range, and whole where it must be: or out_of_range.  row as above. */
enum status params_check_number(const struct param *param, double value, size_t row, struct error *err);

/* A word from its decimal digits: or out_of_range.  row as above. */
enum status params_read_word(const struct param *param, const char *digits, size_t length, size_t row,
                             uint64_t *out, struct error *err);

/* Whether a number is a token id; and "<name>[<row>][<i>] is <what>; it must be one". */
bool params_is_id(double value);
enum status params_refuse_id(const struct param *param, const char *code, const char *what, size_t row,
                             size_t i, struct error *err);

#endif
