#include "bench/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In JSON `value` as it stands; in a table at the right of its column, or with a negative width at the left.
 */
static void add(struct output *o, const char *name, const char *value, int width)
{
    size_t n = o->length, h = o->heading_length;
    if (o->json) {
        o->length +=
            (size_t)snprintf(o->line + n, sizeof o->line - n, "%s\"%s\":%s", n == 0 ? "" : ",", name, value);
        return;
    }
    int least = (int)strlen(name);
    if (abs(width) < least)
        width = width < 0 ? -least : least;
    o->heading_length += (size_t)snprintf(o->heading + h, sizeof o->heading - h, "%*s  ", width, name);
    o->length += (size_t)snprintf(o->line + n, sizeof o->line - n, "%*s  ", width, value);
}

void output_text(struct output *o, const char *name, int width, const char *value)
{
    char text[128];
    snprintf(text, sizeof text, o->json && value != NULL ? "\"%s\"" : "%s",
             value != NULL ? value
             : o->json     ? "null"
                           : "-");
    add(o, name, text, -width);
}

void output_count(struct output *o, const char *name, size_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", value);
    add(o, name, text, 6);
}

void output_number(struct output *o, const char *name, double value, int decimals)
{
    char text[64];
    if (isnan(value))
        snprintf(text, sizeof text, o->json ? "null" : "-");
    else
        snprintf(text, sizeof text, "%.*f", decimals, value);
    add(o, name, text, 10);
}

void output_bool(struct output *o, const char *name, bool value)
{
    add(o, name, o->json ? (value ? "true" : "false") : (value ? "yes" : "NO"), -3);
}

void output_end(struct output *o)
{
    if (o->json) {
        printf("{%s}\n", o->line);
    } else {
        if (strcmp(o->heading, o->last_heading) != 0)
            printf("%s\n", o->heading);
        memcpy(o->last_heading, o->heading, sizeof o->heading);
        printf("%s\n", o->line);
    }
    fflush(stdout);
    o->length = o->heading_length = 0;
}
