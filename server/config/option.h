#ifndef SERVER_OPTION_H
#define SERVER_OPTION_H

#include "core/base/status.h"

#include <stdint.h>
#include <stdio.h>

struct config;

enum option_kind {
    OPTION_UINT,    /* unsigned */
    OPTION_SIZE,    /* size_t bytes; "64M", "64Mi", "64MB" and "64MiB" are 64 << 20 */
    OPTION_ENUM,    /* unsigned: index into words */
    OPTION_MODE,    /* unsigned: a file's mode, octal */
    OPTION_ADDRESS, /* char[max + 1] that address_parse() accepts */
    OPTION_PATH,    /* char[max + 1] */
    OPTION_ORIGINS  /* char[max + 1] that origins_check() accepts */
};

/* One key of the configuration, wherever it is written: INI file, environment, command line. */
struct option {
    const char *section;
    const char *key; /* also the field of struct config; SAMPLERD_KEY and --key follow from it */
    enum option_kind kind;
    size_t offset;            /* of the field */
    const char *initial;      /* the default, as a user would write it */
    uint64_t min, max;        /* of an address, a path or origins: the length in bytes; 0 lets it be empty */
    const char *unit;         /* of a number, or what the other three look like */
    const char *const *words; /* of an enum, NULL last */
    const char *help;         /* what it sets and what its special values mean */
};

/* The words of a key that is off (0) or on (1); as a flag it may stand without a value, for on. */
extern const char *const option_switch_words[];

/* Which of them a text means, which may be "false", "no", "0", "true", "yes" or "1" too, in any case; or
 * NULL. */
const char *option_switch_word(const char *text);

/* Every option, in the order of the INI file: those of one section stand together. */
extern const struct option option_table[];
extern const size_t option_count;

/* The option whose key, with its '_' written as separator ('_' or '-'), is name[length]; or NULL. */
const struct option *option_find(const char *name, size_t length, char separator);

/*
 * Set one field from its text.
 *
 *   where  how the user named it, for the message: "--workers", "samplerd.ini:3: workers"
 *
 * Errors: STATUS_INVALID with the name, the value and the range; config is then unchanged.
 */
enum status option_set(const struct option *option, struct config *config, const char *where,
                       const char *text, struct error *err);

#define OPTION_VALUE_BYTES 256

/* The value in force, in the form option_set() reads. */
void option_value(const struct option *option, const struct config *config, char text[OPTION_VALUE_BYTES]);

/* What a value may be: "from 0 to 64 threads", "text or json". */
void option_range(const struct option *option, char text[OPTION_VALUE_BYTES]);

/* The key as the INI file has it: "max_body_bytes". */
void option_key(const struct option *option, char text[OPTION_VALUE_BYTES]);

/* The flag: "--max-body-bytes". */
void option_flag(const struct option *option, char text[OPTION_VALUE_BYTES]);

/* The environment variable: "SAMPLERD_MAX_BODY_BYTES". */
void option_variable(const struct option *option, char text[OPTION_VALUE_BYTES]);

#endif
