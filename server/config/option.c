#include "server/config/option.h"

#include "server/config/config.h"
#include "server/config/origins.h"
#include "server/net/address.h"
#include "server/observe/log.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define KIB 1024ull
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

#define FIELD(section, field, kind) section, #field, kind, offsetof(struct config, field)
#define OPT_UINT(section, field, initial, min, max, unit, help)                                              \
    {                                                                                                        \
        FIELD(section, field, OPTION_UINT), initial, min, max, unit, NULL, help                              \
    }
#define OPT_SIZE(section, field, initial, min, max, help)                                                    \
    {                                                                                                        \
        FIELD(section, field, OPTION_SIZE), initial, min, max, "bytes", NULL, help                           \
    }
#define OPT_ENUM(section, field, initial, words, help)                                                       \
    {                                                                                                        \
        FIELD(section, field, OPTION_ENUM), initial, 0, 0, NULL, words, help                                 \
    }
#define OPT_MODE(section, field, initial, help)                                                              \
    {                                                                                                        \
        FIELD(section, field, OPTION_MODE), initial, 0, 0777, "octal, as chmod takes it", NULL, help         \
    }
#define LONGEST(field) (sizeof((struct config *)NULL)->field - 1)
#define OPT_ADDRESS(section, field, initial, least, unit, help)                                              \
    {                                                                                                        \
        FIELD(section, field, OPTION_ADDRESS), initial, least, LONGEST(field), unit, NULL, help              \
    }
#define OPT_PATH(section, field, help)                                                                       \
    {                                                                                                        \
        FIELD(section, field, OPTION_PATH), "", 0, LONGEST(field), "a path of at most 160 bytes, or empty",  \
            NULL, help                                                                                       \
    }
#define OPT_ORIGINS(section, field, help)                                                                    \
    {                                                                                                        \
        FIELD(section, field, OPTION_ORIGINS), "", 0, LONGEST(field),                                        \
            "scheme://host[:port], several with commas or spaces, 180 bytes in all; or *, or empty", NULL,   \
            help                                                                                             \
    }
_Static_assert(CONFIG_ORIGINS_BYTES == 181, "OPT_ORIGINS's text says so");
_Static_assert(CONFIG_PATH_BYTES == 161, "OPT_PATH's text says so");

const char *const config_kernels_names[] = {"auto", "generic", "avx2", "avx512", "neon", NULL};
const char *const config_log_requests_names[] = {"off", "errors", "all", NULL};
const char *const option_switch_words[] = {"off", "on", NULL};

/* clang-format off */
const struct option option_table[] = {
    OPT_ADDRESS("server", listen, "127.0.0.1:8090", 1, ADDRESS_FORMS,
             "where to accept connections; port 0 takes any free port"),
    OPT_MODE("server", unix_socket_mode, "0660",
             "who may connect when listen or admin_listen is a unix socket: the mode of its file"),
    OPT_ADDRESS("server", admin_listen, "", 0, ADDRESS_FORMS ", or empty",
             "a second address, for health and metrics alone; metrics are then not at the first"),
    OPT_UINT("server", io_threads, "0", 0, CONFIG_MOST_IO_THREADS, "threads",
             "threads that read and write sockets, and sample what is quick; 0: one per usable CPU, 64 at most"),
    OPT_SIZE("server", max_body_bytes, "64M", 1, UINT32_MAX,
             "largest request body"),
    OPT_SIZE("server", max_inflight_bytes, "256M", 1, 1024 * GIB,
             "most memory for bodies, decoded logits and answers held at once; at least max_body_bytes"),
    OPT_SIZE("server", max_answer_bytes, "64M", 1, UINT32_MAX,
             "largest answer; judged before it is computed"),
    OPT_UINT("server", max_connections, "1024", 1, 65535, "connections",
             "most connections open at once"),
    OPT_UINT("server", max_connections_per_ip, "0", 0, 65535, "connections",
             "most connections open at once from one address, further ones are closed at once; 0: no limit"),
    OPT_UINT("server", header_timeout_ms, "10000", 100, 3600000, "milliseconds",
             "most time for the whole header of a request; then 408"),
    OPT_UINT("server", body_timeout_ms, "30000", 100, 3600000, "milliseconds",
             "most time for a whole body to come, then 408; and for a whole answer to be taken"),
    OPT_UINT("server", request_timeout_ms, "30000", 0, 3600000, "milliseconds",
             "most time from the last byte of a request to its answer, then 504; X-Request-Timeout-Ms may shorten it;"
             " 0: no limit"),
    OPT_UINT("server", idle_timeout_ms, "75000", 1000, 3600000, "milliseconds",
             "how long a connection may wait for its next request before it is closed"),
    OPT_UINT("server", drain_delay_ms, "0", 0, 3600000, "milliseconds",
             "how long to go on accepting connections after SIGTERM, with /readyz at 503; 5000 in Kubernetes"),
    OPT_ORIGINS("server", cors_origins,
             "whose web pages may call from a browser (CORS); *: everybody's, not with token_file; empty: nobody's"),
    OPT_PATH("access", token_file,
             "bearer tokens, one a line, each plain or sha256:HEX; empty: none is asked for"),
    OPT_ENUM("access", allow_anonymous, "off", option_switch_words,
             "on: serve others than this machine without tokens or client certificates"),
    OPT_PATH("access", tls_cert_file,
             "certificate chain, PEM, the server's own first; empty: no TLS"),
    OPT_PATH("access", tls_key_file,
             "private key of tls_cert_file, PEM"),
    OPT_PATH("access", tls_client_ca_file,
             "authorities, PEM, one of which must have issued the client's certificate; empty: none is asked for"),
    OPT_ENUM("access", system_shared_memory, "off", option_switch_words,
             "whether KServe clients of this machine may register regions of /dev/shm and send inputs there"),
    OPT_UINT("access", max_shared_memory_regions, "64", 1, 1024, "regions",
             "most regions registered at once; each takes a file descriptor"),
    OPT_UINT("sampler", workers, "0", 0, 1024, "threads",
             "threads that decode and sample; 0: one per usable CPU"),
    OPT_ENUM("sampler", kernels, "auto", config_kernels_names,
             "instruction set; auto: the best one this CPU has (all give the same bits)"),
    OPT_UINT("sampler", queue_depth, "256", 1, 65536, "requests",
             "most requests waiting for a worker; further ones get 503"),
    OPT_ENUM("log", log_format, "text", log_format_names,
             "how an event is written to stderr, one line each"),
    OPT_ENUM("log", log_level, "info", log_level_names,
             "least level that is written"),
    OPT_ENUM("log", log_requests, "off", config_log_requests_names,
             "requests that get a line of their own; errors: those answered with 4xx or 5xx, or not at all"),
    OPT_ENUM("log", server_timing, "off", option_switch_words,
             "whether answers of /sample tell the time of their stages in a Server-Timing header"),
};
/* clang-format on */
const size_t option_count = sizeof option_table / sizeof option_table[0];

const struct option *option_find(const char *name, size_t length, char separator)
{
    for (const struct option *o = option_table; o < option_table + option_count; o++) {
        size_t i = 0;
        while (i < length && o->key[i] != '\0' && name[i] == (o->key[i] == '_' ? separator : o->key[i]))
            i++;
        if (i == length && o->key[i] == '\0')
            return o;
    }
    return NULL;
}

static enum status refuse(const struct option *option, const char *where, const char *text, struct error *err)
{
    char range[OPTION_VALUE_BYTES];
    option_range(option, range);
    return error_set(err, STATUS_INVALID, "out_of_range", "%s is \"%.60s\"; it must be %s", where, text,
                     range);
}

/* 1024 for "K", "ki", "KB" and "KiB", 1 for "B" and "", 0 for what is no unit. */
static uint64_t unit_bytes(const char *unit)
{
    static const char letters[] = "kmg";
    const char *letter = unit[0] == '\0' ? NULL : strchr(letters, tolower((unsigned char)unit[0]));
    uint64_t bytes = 1;
    if (letter != NULL) {
        bytes = UINT64_C(1) << 10 * (letter - letters + 1);
        unit += tolower((unsigned char)unit[1]) == 'i' ? 2 : 1;
    }
    if (tolower((unsigned char)unit[0]) == 'b')
        unit++;
    return unit[0] == '\0' ? bytes : 0;
}

/* A decimal number, for a size with its unit.  No sign, no space, no overflow. */
static bool read_number(const char *text, bool is_size, uint64_t *number)
{
    uint64_t x = 0;
    const char *s = text;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (x > (UINT64_MAX - 9) / 10)
            return false;
        x = x * 10 + (uint64_t)(*s - '0');
    }
    uint64_t scale = is_size ? unit_bytes(s) : *s == '\0';
    if (s == text || scale == 0 || x > UINT64_MAX / scale)
        return false;
    *number = x * scale;
    return true;
}

static enum status set_number(const struct option *option, void *field, const char *where, const char *text,
                              struct error *err)
{
    uint64_t number;
    bool is_size = option->kind == OPTION_SIZE;
    if (!read_number(text, is_size, &number) || number < option->min || number > option->max ||
        (is_size && number > SIZE_MAX))
        return refuse(option, where, text, err);
    if (is_size)
        *(size_t *)field = (size_t)number;
    else
        *(unsigned *)field = (unsigned)number;
    return STATUS_OK;
}

const char *option_switch_word(const char *text)
{
    static const char *const spellings[][4] = {{"off", "false", "no", "0"}, {"on", "true", "yes", "1"}};
    for (size_t word = 0; word < 2; word++)
        for (size_t i = 0; i < 4; i++)
            if (strcasecmp(text, spellings[word][i]) == 0)
                return option_switch_words[word];
    return NULL;
}

/* Where a word is in a list, or where the list ends. */
static unsigned place_of(const char *word, const char *const *words)
{
    unsigned i = 0;
    while (words[i] != NULL && (word == NULL || strcmp(word, words[i]) != 0))
        i++;
    return i;
}

/* YAML turns off into false, so every list with "off" takes that too. */
static enum status set_word(const struct option *option, unsigned *field, const char *where, const char *text,
                            struct error *err)
{
    unsigned place = place_of(text, option->words);
    if (option->words[place] == NULL)
        place = place_of(option_switch_word(text), option->words);
    if (option->words[place] == NULL)
        return refuse(option, where, text, err);
    *field = place;
    return STATUS_OK;
}

static enum status set_mode(const struct option *option, unsigned *field, const char *where, const char *text,
                            struct error *err)
{
    unsigned mode = 0;
    size_t digits = strspn(text, "01234567");
    for (size_t i = 0; i < digits && mode <= option->max; i++)
        mode = mode * 8 + (unsigned)(text[i] - '0');
    if (digits == 0 || text[digits] != '\0' || mode > option->max)
        return refuse(option, where, text, err);
    *field = mode;
    return STATUS_OK;
}

/* Whether an INI line would give this text back: no control, no space at either end, no " ;" comment. */
static bool fits_ini(const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if (iscntrl((unsigned char)text[i]) || text[i] == ';')
            return false;
    return length == 0 || (text[0] != ' ' && text[length - 1] != ' ');
}

static enum status set_text(const struct option *option, char *field, const char *where, const char *text,
                            struct error *err)
{
    struct address address;
    struct error reason;
    size_t length = strlen(text);
    if (!fits_ini(text) || length < option->min)
        return refuse(option, where, text, err);
    if (option->kind == OPTION_ADDRESS && length > 0 && address_parse(text, &address, &reason) != STATUS_OK)
        return error_set(err, STATUS_INVALID, reason.code, "%s is \"%.60s\": %s", where, text,
                         reason.message);
    if (option->kind == OPTION_ORIGINS && origins_check(text, &reason) != STATUS_OK)
        return error_set(err, STATUS_INVALID, reason.code, "%s: %s", where, reason.message);
    if (length > option->max)
        return refuse(option, where, text, err);
    memcpy(field, text, length + 1);
    return STATUS_OK;
}

enum status option_set(const struct option *option, struct config *config, const char *where,
                       const char *text, struct error *err)
{
    void *field = (char *)config + option->offset;
    switch (option->kind) {
    case OPTION_UINT:
    case OPTION_SIZE:
        return set_number(option, field, where, text, err);
    case OPTION_ENUM:
        return set_word(option, field, where, text, err);
    case OPTION_MODE:
        return set_mode(option, field, where, text, err);
    case OPTION_ADDRESS:
    case OPTION_PATH:
    case OPTION_ORIGINS:
        return set_text(option, field, where, text, err);
    }
    assert(!"every kind is handled");
    return error_set(err, STATUS_INTERNAL, "internal", "%s has no kind", option->key);
}

/* The largest unit that divides it: 67108864 is 64M, 1000 is 1000. */
static void format_bytes(uint64_t bytes, char text[OPTION_VALUE_BYTES])
{
    static const char *const suffixes[] = {"", "K", "M", "G"};
    size_t unit = 0;
    while (unit < 3 && bytes > 0 && bytes % KIB == 0) {
        bytes /= KIB;
        unit++;
    }
    snprintf(text, OPTION_VALUE_BYTES, "%" PRIu64 "%s", bytes, suffixes[unit]);
}

void option_value(const struct option *option, const struct config *config, char text[OPTION_VALUE_BYTES])
{
    const void *field = (const char *)config + option->offset;
    switch (option->kind) {
    case OPTION_UINT:
        snprintf(text, OPTION_VALUE_BYTES, "%u", *(const unsigned *)field);
        return;
    case OPTION_SIZE:
        format_bytes(*(const size_t *)field, text);
        return;
    case OPTION_ENUM:
        snprintf(text, OPTION_VALUE_BYTES, "%s", option->words[*(const unsigned *)field]);
        return;
    case OPTION_MODE:
        snprintf(text, OPTION_VALUE_BYTES, "%04o", *(const unsigned *)field);
        return;
    case OPTION_ADDRESS:
    case OPTION_PATH:
    case OPTION_ORIGINS:
        snprintf(text, OPTION_VALUE_BYTES, "%s", (const char *)field);
        return;
    }
}

/* "text or json", "debug, info, warn or error" */
static void list_words(const char *const *words, char text[OPTION_VALUE_BYTES])
{
    size_t used = (size_t)snprintf(text, OPTION_VALUE_BYTES, "%s", words[0]);
    for (size_t i = 1; words[i] != NULL && used < OPTION_VALUE_BYTES; i++)
        used += (size_t)snprintf(text + used, OPTION_VALUE_BYTES - used, "%s%s",
                                 words[i + 1] == NULL ? " or " : ", ", words[i]);
}

void option_range(const struct option *option, char text[OPTION_VALUE_BYTES])
{
    char least[OPTION_VALUE_BYTES], most[OPTION_VALUE_BYTES];
    switch (option->kind) {
    case OPTION_UINT:
        snprintf(text, OPTION_VALUE_BYTES, "from %" PRIu64 " to %" PRIu64 " %s", option->min, option->max,
                 option->unit);
        return;
    case OPTION_SIZE:
        format_bytes(option->min, least);
        format_bytes(option->max, most);
        snprintf(text, OPTION_VALUE_BYTES,
                 "from %.32s to %.32s %s (K, M, G, also as Ki, KB or KiB: powers of 1024)", least, most,
                 option->unit);
        return;
    case OPTION_ENUM:
        if (option->words == option_switch_words)
            snprintf(text, OPTION_VALUE_BYTES, "off or on (also false, no, 0; true, yes, 1)");
        else
            list_words(option->words, text);
        return;
    case OPTION_MODE:
        snprintf(text, OPTION_VALUE_BYTES, "from %04o to %04o, %s", (unsigned)option->min,
                 (unsigned)option->max, option->unit);
        return;
    case OPTION_ADDRESS:
    case OPTION_PATH:
    case OPTION_ORIGINS:
        snprintf(text, OPTION_VALUE_BYTES, "%s", option->unit);
        return;
    }
}

void option_key(const struct option *option, char text[OPTION_VALUE_BYTES])
{
    snprintf(text, OPTION_VALUE_BYTES, "%s", option->key);
}

void option_flag(const struct option *option, char text[OPTION_VALUE_BYTES])
{
    snprintf(text, OPTION_VALUE_BYTES, "--%s", option->key);
    for (char *s = text; *s != '\0'; s++)
        if (*s == '_')
            *s = '-';
}

void option_variable(const struct option *option, char text[OPTION_VALUE_BYTES])
{
    snprintf(text, OPTION_VALUE_BYTES, "SAMPLERD_%s", option->key);
    for (char *s = text; *s != '\0'; s++)
        *s = (char)toupper((unsigned char)*s);
}
