#include "server/config/config.h"

#include "server/config/environment.h"
#include "server/config/nearest.h"
#include "server/config/option.h"
#include "server/config/origins.h"

#include <assert.h>
#include <errno.h>
#include <ini.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 64 /* room in the tables below; option_count is checked against it */
#define NAME_BYTES  64 /* longer names are no key of ours */
#define WHERE_BYTES 160

/* What the command line holds, before it is applied: it wins, so it comes last. */
struct command_line {
    const char *config_file; /* or NULL */
    enum config_action action;
    const char *values[MAX_OPTIONS]; /* by option, NULL where no flag was given */
};

/* Flags that are no keys. */
static const struct {
    const char *name;
    enum config_action action;
    const char *help;
} action_flags[] = {
    {"--print-config", CONFIG_PRINT_CONFIG, "write the values in force as an INI file and exit"},
    {"--check-config", CONFIG_CHECK_CONFIG, "check the configuration and exit"},
    {"--healthcheck", CONFIG_HEALTHCHECK,
     "ask the server at admin_listen, else listen, whether it is ready; exit 0 if so"},
    {"--version", CONFIG_PRINT_VERSION, "write the version and exit"},
    {"--help", CONFIG_PRINT_HELP, "write this text and exit; also -h"},
};
#define NUM_ACTION_FLAGS (sizeof action_flags / sizeof action_flags[0])

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- The INI file --- */

struct ini_source {
    const char *path;
    FILE *file;
    int line;        /* the one last read */
    int failed_line; /* the first that did not do; 0: none yet */
    uint64_t seen;   /* bit i: option i was set by this file */
    struct config *config;
    struct error *err; /* of failed_line */
};

/* fgets() for inih that counts the lines, which inih does not tell its handler. */
static char *ini_read_line(char *text, int size, void *stream)
{
    struct ini_source *source = stream;
    if (fgets(text, size, source->file) == NULL)
        return NULL;
    source->line++;
    if (strlen(text) + 1 == (size_t)size && text[size - 2] != '\n' && source->failed_line == 0) {
        source->failed_line = source->line;
        error_set(source->err, STATUS_INVALID, "malformed_config", "%.100s:%d: longer than %d bytes",
                  source->path, source->line, size - 2);
    }
    return text;
}

static enum status unknown_ini_key(const struct ini_source *source, const char *section, const char *key)
{
    struct nearest nearest;
    char hint[OPTION_VALUE_BYTES];
    size_t i = 0;
    while (i < option_count && strcmp(option_table[i].section, section) != 0)
        i++;
    if (i == option_count)
        return error_set(source->err, STATUS_INVALID, "unknown_parameter",
                         "%.100s:%d: unknown section [%.40s]", source->path, source->line, section);
    nearest_init(&nearest, key);
    nearest_consider_options(&nearest, option_key);
    return error_set(source->err, STATUS_INVALID, "unknown_parameter", "%.100s:%d: unknown key %.40s%s",
                     source->path, source->line, key, nearest_hint(&nearest, hint));
}

static enum status set_from_ini(struct ini_source *source, const char *section, const char *key,
                                const char *value)
{
    const struct option *option = option_find(key, strlen(key), '_');
    if (option == NULL)
        return unknown_ini_key(source, section, key);
    if (strcmp(option->section, section) != 0)
        return error_set(source->err, STATUS_INVALID, "unknown_parameter",
                         "%.100s:%d: %s belongs in section [%s]", source->path, source->line, option->key,
                         option->section);
    uint64_t bit = UINT64_C(1) << (option - option_table);
    if (source->seen & bit)
        return error_set(source->err, STATUS_INVALID, "duplicate_parameter", "%.100s:%d: %s is set twice",
                         source->path, source->line, option->key);
    source->seen |= bit;
    char where[WHERE_BYTES];
    snprintf(where, sizeof where, "%.100s:%d: %s", source->path, source->line, option->key);
    return option_set(option, source->config, where, value, source->err);
}

/* inih calls this for each key = value; after the first failure the rest is only read past. */
static int ini_handle(void *user, const char *section, const char *key, const char *value)
{
    struct ini_source *source = user;
    if (source->failed_line != 0)
        return 1;
    if (set_from_ini(source, section, key, value) != STATUS_OK)
        source->failed_line = source->line;
    return 1;
}

static enum status load_file(const char *path, struct config *config, struct error *err)
{
    struct ini_source source = {.path = path, .config = config, .err = err};
    source.file = fopen(path, "r");
    if (source.file == NULL)
        return error_set(err, STATUS_INVALID, "unreadable_config", "cannot open %.120s: %s", path,
                         strerror(errno));
    int bad_line = ini_parse_stream(ini_read_line, &source, ini_handle, &source);
    bool unreadable = ferror(source.file) != 0;
    fclose(source.file);
    if (unreadable)
        return error_set(err, STATUS_INVALID, "unreadable_config", "cannot read %.120s", path);
    if (bad_line > 0 && (source.failed_line == 0 || bad_line < source.failed_line))
        return error_set(err, STATUS_INVALID, "malformed_config",
                         "%.120s:%d: neither [section], key = value nor a comment", path, bad_line);
    return source.failed_line == 0 ? STATUS_OK : err->status;
}

/* --- Flags --- */

static bool is_name(const char *flag, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(flag, name, length) == 0;
}

/* Where the value of this flag goes, or NULL if it takes none or is unknown. */
static const char **value_slot(struct command_line *line, const char *flag, size_t length)
{
    if (is_name(flag, length, "--config"))
        return &line->config_file;
    const struct option *option = option_find(flag + 2, length - 2, '-');
    return option == NULL ? NULL : &line->values[option - option_table];
}

/* Whether a flag is that of a switch, and what follows it is no word of a switch: it then means on. */
static bool is_bare_switch(const char *flag, size_t length, const char *next)
{
    const struct option *option = option_find(flag + 2, length - 2, '-');
    if (option == NULL || option->words != option_switch_words)
        return false;
    return next == NULL || option_switch_word(next) == NULL;
}

static enum status unknown_flag(const char *flag, size_t length, struct error *err)
{
    char name[NAME_BYTES], hint[OPTION_VALUE_BYTES];
    struct nearest nearest;
    snprintf(name, sizeof name, "%.*s", (int)min_size(length, NAME_BYTES - 1), flag);
    nearest_init(&nearest, name);
    nearest_consider_options(&nearest, option_flag);
    for (size_t i = 0; i < NUM_ACTION_FLAGS; i++)
        nearest_consider(&nearest, action_flags[i].name);
    return error_set(err, STATUS_INVALID, "unknown_parameter", "unknown flag %s%s", name,
                     nearest_hint(&nearest, hint));
}

static enum status read_action(struct command_line *line, const char *flag, size_t length, struct error *err)
{
    for (size_t i = 0; i < NUM_ACTION_FLAGS; i++) {
        if (!is_name(flag, length, action_flags[i].name))
            continue;
        if (flag[length] == '=')
            return error_set(err, STATUS_INVALID, "wrong_type", "%s takes no value", action_flags[i].name);
        if (line->action < action_flags[i].action) /* help wins over the version, and so on */
            line->action = action_flags[i].action;
        return STATUS_OK;
    }
    return unknown_flag(flag, length, err);
}

static enum status read_flags(int argc, char *const *argv, struct command_line *line, struct error *err)
{
    for (int i = 1; i < argc; i++) {
        const char *flag = strcmp(argv[i], "-h") == 0 ? "--help" : argv[i];
        if (strncmp(flag, "--", 2) != 0 || flag[2] == '\0')
            return error_set(err, STATUS_INVALID, "unknown_parameter",
                             "unexpected argument \"%.60s\"; flags begin with --", flag);
        size_t length = strcspn(flag, "=");
        const char **slot = value_slot(line, flag, length);
        if (slot == NULL) {
            if (read_action(line, flag, length, err) != STATUS_OK)
                return err->status;
        } else if (flag[length] == '=')
            *slot = flag + length + 1;
        else if (is_bare_switch(flag, length, i + 1 < argc ? argv[i + 1] : NULL))
            *slot = option_switch_words[1];
        else if (i + 1 < argc)
            *slot = argv[++i];
        else
            return error_set(err, STATUS_INVALID, "missing_parameter", "%s needs a value", flag);
    }
    return STATUS_OK;
}

static enum status apply_flags(const struct command_line *line, struct config *config, struct error *err)
{
    for (size_t i = 0; i < option_count; i++) {
        char flag[OPTION_VALUE_BYTES];
        option_flag(&option_table[i], flag);
        if (line->values[i] != NULL &&
            option_set(&option_table[i], config, flag, line->values[i], err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}

/* --- All of it --- */

/* What no single key can see. */
static enum status check_together(const struct config *config, struct error *err)
{
    if (config->max_inflight_bytes < config->max_body_bytes)
        return error_set(err, STATUS_INVALID, "out_of_range",
                         "max_inflight_bytes is %zu; it must be at least max_body_bytes, %zu",
                         config->max_inflight_bytes, config->max_body_bytes);
    bool cert = config->tls_cert_file[0] != '\0', key = config->tls_key_file[0] != '\0';
    if (cert != key)
        return error_set(err, STATUS_INVALID, "missing_parameter", "%s is set, %s is not; TLS needs both",
                         cert ? "tls_cert_file" : "tls_key_file", cert ? "tls_key_file" : "tls_cert_file");
    if (config->tls_client_ca_file[0] != '\0' && !cert)
        return error_set(err, STATUS_INVALID, "missing_parameter",
                         "tls_client_ca_file is set, tls_cert_file is not; client certificates need TLS");
    if (config->token_file[0] != '\0' && origins_is_every(config->cors_origins))
        return error_set(
            err, STATUS_INVALID, "out_of_range",
            "cors_origins is * and token_file is set; with tokens, list the origins that may call");
    return STATUS_OK;
}

void config_init(struct config *config)
{
    assert(option_count <= MAX_OPTIONS);
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < option_count; i++) {
        struct error err;
        enum status status =
            option_set(&option_table[i], config, option_table[i].key, option_table[i].initial, &err);
        assert(status == STATUS_OK);
        (void)status;
    }
}

enum status config_load(int argc, char *const *argv, char *const *environment, struct config *out,
                        enum config_action *action, struct error *err)
{
    struct command_line line = {.action = CONFIG_SERVE};
    config_init(out);
    if (read_flags(argc, argv, &line, err) != STATUS_OK)
        return err->status;
    *action = line.action;
    if (line.action == CONFIG_PRINT_HELP || line.action == CONFIG_PRINT_VERSION)
        return STATUS_OK;
    if (line.config_file != NULL && load_file(line.config_file, out, err) != STATUS_OK)
        return err->status;
    if (environment_load(environment, out, err) != STATUS_OK || apply_flags(&line, out, err) != STATUS_OK)
        return err->status;
    return check_together(out, err);
}

static const char *initial_text(const struct option *option)
{
    return option->initial[0] == '\0' ? "empty" : option->initial;
}

void config_print(const struct config *config, FILE *out)
{
    const char *section = "";
    fputs("# samplerd's configuration: every key, with the value in force. samplerd --config FILE reads it.\n"
          "# A SAMPLERD_KEY environment variable overrides a key here, and a --key flag overrides both.\n",
          out);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char value[OPTION_VALUE_BYTES], range[OPTION_VALUE_BYTES];
        if (strcmp(section, o->section) != 0)
            fprintf(out, "\n[%s]\n", o->section);
        else
            fputs("\n", out);
        section = o->section;
        option_value(o, config, value);
        option_range(o, range);
        fprintf(out, "# %s\n# %s; default %s\n%s =%s%s\n", o->help, range, initial_text(o), o->key,
                value[0] == '\0' ? "" : " ", value);
    }
}

void config_help(FILE *out)
{
    fputs("Usage: samplerd [--config FILE] [--KEY VALUE ...]\n"
          "Serve token sampling over HTTP: POST logits, get token ids.\n"
          "Flags win over environment variables (SAMPLERD_ and the key in capitals), those over the file.\n\n"
          "  --config FILE\n      INI file to read\n",
          out);
    for (size_t i = 0; i < NUM_ACTION_FLAGS; i++)
        fprintf(out, "  %s\n      %s\n", action_flags[i].name, action_flags[i].help);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char flag[OPTION_VALUE_BYTES], range[OPTION_VALUE_BYTES];
        if (i == 0 || strcmp(option_table[i - 1].section, o->section) != 0)
            fprintf(out, "\n[%s]\n", o->section);
        option_flag(o, flag);
        option_range(o, range);
        fprintf(out, "  %s VALUE\n      %s\n      %s; default %s\n", flag, o->help, range, initial_text(o));
    }
}
