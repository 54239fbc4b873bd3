#include "server/request/negotiation.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *const negotiation_media[ANSWER_FORMS] = {"application/json", "application/octet-stream"};

#define SPACE " \t"

/* Text without its outer white space. */
struct span {
    const char *start;
    size_t length;
};

/* The piece before the next `separator` of *rest, which moves behind that and is NULL after the last. */
static struct span next_piece(const char **rest, const char *end, char separator)
{
    const char *start = *rest, *stop = memchr(start, separator, (size_t)(end - start));
    *rest = stop == NULL ? NULL : stop + 1;
    if (stop == NULL)
        stop = end;
    while (start < stop && strchr(SPACE, *start) != NULL)
        start++;
    while (stop > start && strchr(SPACE, stop[-1]) != NULL)
        stop--;
    return (struct span){start, (size_t)(stop - start)};
}

static bool is(struct span span, const char *text)
{
    return span.length == strlen(text) && strncasecmp(span.start, text, span.length) == 0;
}

static int specificity_of(struct span range, const char *media)
{
    size_t kind = strcspn(media, "/") + 1;
    if (is(range, media))
        return 3;
    if (range.length == kind + 1 && strncasecmp(range.start, media, kind) == 0 && range.start[kind] == '*')
        return 2;
    return is(range, "*/*") ? 1 : 0;
}

/* "0.5" in thousandths; digits after the third count for nothing, and what is no such number is 1. */
static int read_quality(struct span value)
{
    if (value.length == 0 || value.start[0] < '0' || value.start[0] > '1')
        return 1000;
    int quality = 1000 * (value.start[0] - '0'), unit = 100;
    for (size_t i = 2; i < value.length && value.start[1] == '.' && unit > 0; i++, unit /= 10) {
        if (value.start[i] < '0' || value.start[i] > '9')
            return 1000;
        quality += unit * (value.start[i] - '0');
    }
    return quality < 1000 ? quality : 1000;
}

/* One media range: its type and, among its parameters, q. */
static void add_range(struct negotiation *accept, struct span range)
{
    const char *rest = range.start, *end = range.start + range.length;
    struct span type = next_piece(&rest, end, ';');
    int quality = 1000;
    while (rest != NULL) {
        struct span parameter = next_piece(&rest, end, ';');
        if (parameter.length >= 2 && strncasecmp(parameter.start, "q=", 2) == 0)
            quality = read_quality((struct span){parameter.start + 2, parameter.length - 2});
    }
    if (type.length > 0)
        accept->given = true;
    for (size_t i = 0; i < ANSWER_FORMS; i++) {
        int specificity = specificity_of(type, negotiation_media[i]);
        if (specificity > accept->forms[i].specificity) {
            accept->forms[i].specificity = specificity;
            accept->forms[i].quality = quality;
        }
    }
}

void negotiation_add(struct negotiation *accept, const char *value)
{
    const char *end = value + strlen(value);
    for (const char *rest = value; rest != NULL;)
        add_range(accept, next_piece(&rest, end, ','));
}

bool negotiation_choose(const struct negotiation *accept, enum answer_form *out)
{
    enum answer_form best = ANSWER_JSON;
    for (size_t i = 1; i < ANSWER_FORMS; i++) {
        int more = accept->forms[i].quality - accept->forms[best].quality;
        if (more > 0 || (more == 0 && accept->forms[i].specificity > accept->forms[best].specificity))
            best = (enum answer_form)i;
    }
    *out = best;
    return !accept->given || accept->forms[best].quality > 0;
}
