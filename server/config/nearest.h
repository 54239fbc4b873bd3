#ifndef SERVER_NEAREST_H
#define SERVER_NEAREST_H

#include "server/config/option.h"

/*
 * The known name that an unknown one was most likely meant to be: the least spelling_distance(), if that is
 * small enough for a typo.  The first of those that are equally near.
 */
struct nearest {
    const char *name;               /* the unknown one, on loan */
    size_t distance;                /* of found; at first, the least one that is no typo any more */
    char found[OPTION_VALUE_BYTES]; /* "": none is near */
};

void nearest_init(struct nearest *nearest, const char *name);

/* Consider one known name. */
void nearest_consider(struct nearest *nearest, const char *known);

/* Consider every option, by the name that write gives it: option_key(), option_flag() or option_variable().
 */
void nearest_consider_options(struct nearest *nearest,
                              void (*write)(const struct option *option, char text[OPTION_VALUE_BYTES]));

/* "; did you mean --workers?", or "" if none is near. */
const char *nearest_hint(const struct nearest *nearest, char text[OPTION_VALUE_BYTES]);

#endif
