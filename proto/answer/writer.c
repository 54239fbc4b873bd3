#include "proto/answer/writer.h"

#include "proto/json/json_scan.h"
#include "proto/numbers/number_write.h"

#include <stdio.h>
#include <string.h>

void writer_put(struct writer *w, const char *text)
{
    size_t length = strlen(text);
    memcpy(w->p, text, length);
    w->p += length;
}

void writer_word(struct writer *w, uint64_t word)
{
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + word % 10);
        word /= 10;
    } while (word > 0);
    memcpy(w->p, digits + n, sizeof digits - n);
    w->p += sizeof digits - n;
}

void writer_string(struct writer *w, const char *text, size_t length)
{
    writer_put(w, "\"");
    for (const char *end = text + length; text < end;) {
        size_t bytes = json_utf8_length(text, end);
        if (bytes == 0)
            writer_put(w, "\xef\xbf\xbd");
        else if (*text == '"' || *text == '\\')
            w->p += sprintf(w->p, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            w->p += sprintf(w->p, "\\u%04x", (unsigned)*text);
        else
            memcpy(w->p, text, bytes), w->p += bytes;
        text += bytes == 0 ? 1 : bytes;
    }
    writer_put(w, "\"");
}

void writer_ids(struct writer *w, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            *w->p++ = ',';
        writer_word(w, (uint64_t)ids[i]);
    }
}

void writer_reals(struct writer *w, const double *reals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            *w->p++ = ',';
        w->p += number_write(w->p, reals[i]);
    }
}
