#include "server/config/environment.h"

#include "server/config/nearest.h"
#include "server/config/option.h"
#include "server/observe/log.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "SAMPLERD_"

/* ---- what describes a service ---- */

/* Whether name[length] ends with a word. */
static bool ends_with(const char *name, size_t length, const char *word)
{
    size_t n = strlen(word);
    return length >= n && memcmp(name + length - n, word, n) == 0;
}

/* Behind the first place of a word in name[length], or NULL. */
static const char *behind(const char *name, size_t length, const char *word)
{
    const char *found = memmem(name, length, word, strlen(word));
    return found == NULL ? NULL : found + strlen(word);
}

/* "8090_TCP", "8090_TCP_ADDR" */
static bool is_port_and_protocol(const char *text)
{
    static const char *const protocols[] = {"_TCP", "_UDP", "_SCTP"};
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; digits > 0 && i < sizeof protocols / sizeof protocols[0]; i++) {
        size_t n = strlen(protocols[i]);
        if (strncmp(text + digits, protocols[i], n) == 0)
            return text[digits + n] == '=' || text[digits + n] == '_';
    }
    return false;
}

static bool begins_with_scheme(const char *value)
{
    return strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0 ||
           strncmp(value, "sctp://", 7) == 0;
}

/* "_PORT=tcp://10.0.0.1:8090", "_PORT_8090_TCP_ADDR=10.0.0.1", at any place: a service may be named by any
 * word. */
static bool is_port(const char *name, size_t length, const char *value)
{
    if (ends_with(name, length, "_PORT") && begins_with_scheme(value))
        return true;
    const char *port = name;
    while ((port = behind(port, length - (size_t)(port - name), "_PORT_")) != NULL)
        if (is_port_and_protocol(port))
            return true;
    return false;
}

bool environment_is_service(const char *entry)
{
    const char *equals = strchr(entry, '=');
    if (equals == NULL || strncmp(entry, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    size_t length = (size_t)(equals - entry);
    return ends_with(entry, length, "_SERVICE_HOST") || ends_with(entry, length, "_SERVICE_PORT") ||
           behind(entry, length, "_SERVICE_PORT_") != NULL || is_port(entry, length, equals + 1) ||
           behind(entry, length, "_ENV_") != NULL || (ends_with(entry, length, "_NAME") && equals[1] == '/');
}

/* ---- settings ---- */

/* The value of an entry that may be a setting, or NULL. */
static const char *value_of(const char *entry)
{
    const char *equals = strchr(entry, '=');
    if (equals == NULL || equals[1] == '\0' || strncmp(entry, PREFIX, sizeof PREFIX - 1) != 0)
        return NULL;
    return equals + 1;
}

static const struct option *find_option(const char *entry)
{
    for (const struct option *o = option_table; o < option_table + option_count; o++) {
        char variable[OPTION_VALUE_BYTES];
        option_variable(o, variable);
        size_t length = strlen(variable);
        if (strncmp(entry, variable, length) == 0 && entry[length] == '=')
            return o;
    }
    return NULL;
}

enum status environment_load(char *const *environment, struct config *config, struct error *err)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        const char *value = value_of(*environment);
        const struct option *option = value == NULL ? NULL : find_option(*environment);
        char variable[OPTION_VALUE_BYTES];
        if (option == NULL)
            continue;
        option_variable(option, variable);
        if (option_set(option, config, variable, value, err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}

static void warn(const char *entry)
{
    char name[OPTION_VALUE_BYTES];
    struct nearest nearest;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
    nearest_init(&nearest, name);
    nearest_consider_options(&nearest, option_variable);
    log_warn("unknown environment variable", log_text("name", name),
             log_text("nearest", nearest.found[0] == '\0' ? "none" : nearest.found));
}

void environment_warn(char *const *environment)
{
    for (; environment != NULL && *environment != NULL; environment++)
        if (value_of(*environment) != NULL && find_option(*environment) == NULL &&
            !environment_is_service(*environment))
            warn(*environment);
}
