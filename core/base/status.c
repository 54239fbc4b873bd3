#include "core/base/status.h"

#include <stdarg.h>
#include <stdio.h>

enum status error_set(struct error *err, enum status status, const char *code, const char *format, ...)
{
    err->status = status;
    err->param = NULL;
    err->code = code;
    err->row = ERROR_NO_ROW;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

enum status error_at(struct error *err, const char *param, size_t row)
{
    err->param = param;
    err->row = row;
    return err->status;
}
