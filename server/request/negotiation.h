#ifndef SERVER_NEGOTIATION_H
#define SERVER_NEGOTIATION_H

#include <stdbool.h>

/* What an answer can be. */
enum answer_form {
    ANSWER_JSON, /* application/json */
    ANSWER_IDS   /* application/octet-stream: token ids and nothing else */
};

#define ANSWER_FORMS 2

/* The answer's media types, in the order of enum answer_form. */
extern const char *const negotiation_media[ANSWER_FORMS];

/* What a client accepts: the Accept headers of RFC 9110, 12.5.1. */
struct negotiation {
    bool given; /* any media range was */
    struct {
        int quality;     /* thousandths */
        int specificity; /* of the range that says so: 3 this very type, 2 its kind, 1 all, 0 none */
    } forms[ANSWER_FORMS];
};

/* Take up the value of one Accept header; *accept starts as zero. */
void negotiation_add(struct negotiation *accept, const char *value);

/*
 * The form that the client likes best: of the highest quality, of two the one it named more exactly, else
 * JSON. A client that names none takes JSON.  Returns false when it accepts neither.
 */
bool negotiation_choose(const struct negotiation *accept, enum answer_form *out);

#endif
