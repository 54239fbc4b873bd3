#include "server/config/nearest.h"

#include "core/base/spelling.h"

#include <stdio.h>
#include <string.h>

void nearest_init(struct nearest *n, const char *name)
{
    *n = (struct nearest){.name = name, .distance = strlen(name) / 4 + 2}; /* further away is no typo */
}

void nearest_consider(struct nearest *n, const char *known)
{
    size_t distance = spelling_distance(n->name, strlen(n->name), known, strlen(known));
    if (distance >= n->distance)
        return;
    n->distance = distance;
    snprintf(n->found, sizeof n->found, "%s", known);
}

void nearest_consider_options(struct nearest *n,
                              void (*write)(const struct option *option, char text[OPTION_VALUE_BYTES]))
{
    for (size_t i = 0; i < option_count; i++) {
        char known[OPTION_VALUE_BYTES];
        write(&option_table[i], known);
        nearest_consider(n, known);
    }
}

const char *nearest_hint(const struct nearest *n, char text[OPTION_VALUE_BYTES])
{
    text[0] = '\0';
    if (n->found[0] != '\0')
        snprintf(text, OPTION_VALUE_BYTES, "; did you mean %.60s?", n->found);
    return text;
}
