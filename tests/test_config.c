#include "server/config/config.h"
#include "server/config/option.h"
#include "server/observe/log.h"

#include "tests/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ARGS 12

static struct config config;
static enum config_action action;
static struct error err;

/* Load with the given flags and variables (NULL-terminated lists, NULL for none). */
static enum status load(char *const *flags, char *const *environment)
{
    char *argv[MAX_ARGS + 2] = {"samplerd"};
    int argc = 1;
    for (; flags != NULL && *flags != NULL; flags++)
        argv[argc++] = *flags;
    memset(&err, 0, sizeof err);
    return config_load(argc, argv, environment, &config, &action, &err);
}

/* Write text to a new file and put its name, at most 63 bytes, into path. */
static void write_file(char path[64], const char *text)
{
    strcpy(path, "/tmp/test_config_XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static enum status load_ini(const char *text, char path[64], char *const *environment, char *flag)
{
    write_file(path, text);
    enum status status = load((char *[]){"--config", path, flag, NULL}, environment);
    unlink(path);
    return status;
}

static char *printed(const struct config *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_print(c, out);
    fclose(out);
    return text;
}

START_TEST(defaults)
{
    ck_assert_int_eq(load(NULL, NULL), STATUS_OK);
    ck_assert_int_eq(action, CONFIG_SERVE);
    ck_assert_str_eq(config.listen, "127.0.0.1:8090");
    ck_assert_uint_eq(config.io_threads, 0);
    ck_assert_uint_eq(config.max_body_bytes, 64u << 20);
    ck_assert_uint_eq(config.max_inflight_bytes, 256u << 20);
    ck_assert_uint_eq(config.max_answer_bytes, 64u << 20);
    ck_assert_uint_eq(config.max_connections, 1024);
    ck_assert_uint_eq(config.idle_timeout_ms, 75000);
    ck_assert_uint_eq(config.unix_socket_mode, 0660);
    ck_assert_str_eq(config.admin_listen, "");
    ck_assert_str_eq(config.token_file, "");
    ck_assert_uint_eq(config.allow_anonymous, 0);
    ck_assert_str_eq(config.tls_cert_file, "");
    ck_assert_uint_eq(config.workers, 0);
    ck_assert_str_eq(config_kernels_names[config.kernels], "auto");
    ck_assert_uint_eq(config.queue_depth, 256);
    ck_assert_uint_eq(config.log_format, LOG_TEXT);
    ck_assert_uint_eq(config.log_level, LOG_INFO);
    ck_assert_uint_eq(config.log_requests, CONFIG_LOG_OFF);
    ck_assert_uint_eq(config.server_timing, 0);
    ck_assert_uint_eq(config.system_shared_memory, 0);
    ck_assert_uint_eq(config.max_shared_memory_regions, 64);
}
END_TEST

/* YAML's words for off, and sizes as Kubernetes and others write them, wherever a key is set. */
START_TEST(other_spellings)
{
    char path[64];
    char *environment[] = {"SAMPLERD_MAX_BODY_BYTES=1Mi", "SAMPLERD_LOG_REQUESTS=false",
                           "SAMPLERD_SERVER_TIMING=True", NULL};
    ck_assert_msg(load_ini("[server]\nmax_inflight_bytes = 512MB\n[access]\nallow_anonymous = yes\n"
                           "[log]\nlog_requests = all\n",
                           path, environment, "--max-answer-bytes=2MiB") == STATUS_OK,
                  "%s", err.message);
    ck_assert_uint_eq(config.max_inflight_bytes, 512u << 20);
    ck_assert_uint_eq(config.max_body_bytes, 1u << 20);
    ck_assert_uint_eq(config.max_answer_bytes, 2u << 20);
    ck_assert_uint_eq(config.allow_anonymous, 1);
    ck_assert_uint_eq(config.server_timing, 1);
    ck_assert_uint_eq(config.log_requests, CONFIG_LOG_OFF);
}
END_TEST

START_TEST(later_sources_win)
{
    char path[64];
    char ini[] =
        "[sampler]\nworkers = 1\nqueue_depth = 2\n[log]\nlog_level: warn\nlog_format = json ; inline\n";
    char *environment[] = {"SAMPLERD_QUEUE_DEPTH=3", "SAMPLERD_LOG_LEVEL=error", "HOME=/", "SAMPLERD=x",
                           NULL};
    ck_assert_msg(load_ini(ini, path, environment, "--log-level=debug") == STATUS_OK, "%s", err.message);
    ck_assert_uint_eq(config.workers, 1);
    ck_assert_uint_eq(config.queue_depth, 3);
    ck_assert_uint_eq(config.log_level, LOG_DEBUG);
    ck_assert_uint_eq(config.log_format, LOG_JSON);
}
END_TEST

START_TEST(flags_take_both_forms)
{
    ck_assert_int_eq(load((char *[]){"--max-body-bytes", "1M", "--workers=7", "--workers", "8", NULL}, NULL),
                     STATUS_OK);
    ck_assert_uint_eq(config.max_body_bytes, 1u << 20);
    ck_assert_uint_eq(config.workers, 8); /* the last one, as shells' wrappers expect */
}
END_TEST

static const struct {
    char *flags[3];
    unsigned allowed;
} switches[] = {
    {{"--allow-anonymous"}, 1},        {{"--allow-anonymous", "--workers=1"}, 1},
    {{"--allow-anonymous=on"}, 1},     {{"--allow-anonymous", "on"}, 1},
    {{"--allow-anonymous", "off"}, 0}, {{"--allow-anonymous=off"}, 0},
    {{"--allow-anonymous=true"}, 1},   {{"--allow-anonymous", "True"}, 1},
    {{"--allow-anonymous=yes"}, 1},    {{"--allow-anonymous", "YES"}, 1},
    {{"--allow-anonymous=1"}, 1},      {{"--allow-anonymous", "1"}, 1},
    {{"--allow-anonymous=false"}, 0},  {{"--allow-anonymous", "False"}, 0},
    {{"--allow-anonymous=no"}, 0},     {{"--allow-anonymous", "NO"}, 0},
    {{"--allow-anonymous=0"}, 0},      {{"--allow-anonymous", "0"}, 0},
    {{"--allow-anonymous=On"}, 1},     {{"--allow-anonymous", "OFF"}, 0},
};

START_TEST(a_switch_may_stand_alone)
{
    ck_assert_msg(load(switches[_i].flags, NULL) == STATUS_OK, "%s", err.message);
    ck_assert_uint_eq(config.allow_anonymous, switches[_i].allowed);
}
END_TEST

static const struct {
    const char *text;
    size_t bytes; /* 0: refused */
} sizes[] = {
    {"1", 1},
    {"1000", 1000},
    {"4K", 4096},
    {"4k", 4096},
    {"64M", 64u << 20},
    {"1G", 1u << 30},
    {"4294967295", 4294967295u},
    {"4294967296", 0},
    {"4G", 0},
    {"0", 0},
    {"", 0},
    {"K", 0},
    {"1B", 1},
    {"64Mi", 64u << 20},
    {"64MB", 64u << 20},
    {"64MiB", 64u << 20},
    {"64mib", 64u << 20},
    {"2Ki", 2048},
    {"1GB", 1u << 30},
    {"1i", 0},
    {"1iB", 0},
    {"1BB", 0},
    {"1KK", 0},
    {"1KiBs", 0},
    {"1Ti", 0},
    {"Mi", 0},
    {"1 M", 0},
    {"-1", 0},
    {"+1", 0},
    {"1.5M", 0},
    {"0x10", 0},
    {" 1", 0},
    {"1T", 0},
    {"18446744073709551616", 0},
    {"17179869185G", 0},
    {"99999999999999999999999", 0},
};

START_TEST(size_suffixes)
{
    char value[32];
    snprintf(value, sizeof value, "%s", sizes[_i].text);
    enum status status = load((char *[]){"--max-answer-bytes", value, NULL}, NULL);
    ck_assert_int_eq(status, sizes[_i].bytes > 0 ? STATUS_OK : STATUS_INVALID);
    if (status == STATUS_OK)
        ck_assert_uint_eq(config.max_answer_bytes, sizes[_i].bytes);
}
END_TEST

static const struct {
    char *flags[3];
    enum config_action action;
} actions[] = {
    {{"--print-config"}, CONFIG_PRINT_CONFIG},
    {{"--check-config"}, CONFIG_CHECK_CONFIG},
    {{"--healthcheck"}, CONFIG_HEALTHCHECK},
    {{"--version"}, CONFIG_PRINT_VERSION},
    {{"--help"}, CONFIG_PRINT_HELP},
    {{"--help", "--print-config"}, CONFIG_PRINT_HELP},
    {{"--workers=1"}, CONFIG_SERVE},
    {{"-h"}, CONFIG_PRINT_HELP},
    {{"--workers=1", "-h"}, CONFIG_PRINT_HELP},
};

START_TEST(each_action)
{
    ck_assert_int_eq(load(actions[_i].flags, NULL), STATUS_OK);
    ck_assert_int_eq(action, actions[_i].action);
}
END_TEST

START_TEST(help_needs_no_sound_configuration)
{
    ck_assert_int_eq(
        load((char *[]){"--help", "--config", "/nowhere", NULL}, (char *[]){"SAMPLERD_X=1", NULL}),
        STATUS_OK);
    ck_assert_int_eq(action, CONFIG_PRINT_HELP);
}
END_TEST

static const struct {
    char *flags[3];
    const char *message; /* all of it */
} bad_flags[] = {
    {{"--worker=1"}, "unknown flag --worker; did you mean --workers?"},
    {{"--max_body_bytes=1"}, "unknown flag --max_body_bytes; did you mean --max-body-bytes?"},
    {{"--hlep"}, "unknown flag --hlep; did you mean --help?"},
    {{"--frobnicate"}, "unknown flag --frobnicate"},
    {{"--"}, "unexpected argument \"--\"; flags begin with --"},
    {{"-v"}, "unexpected argument \"-v\"; flags begin with --"},
    {{"8090"}, "unexpected argument \"8090\"; flags begin with --"},
    {{"--workers"}, "--workers needs a value"},
    {{"--config"}, "--config needs a value"},
    {{"--version=2"}, "--version takes no value"},
    {{"--workers=1025"}, "--workers is \"1025\"; it must be from 0 to 1024 threads"},
    {{"--workers", "-1"}, "--workers is \"-1\"; it must be from 0 to 1024 threads"},
    {{"--workers="}, "--workers is \"\"; it must be from 0 to 1024 threads"},
    {{"--workers=1K"}, "--workers is \"1K\"; it must be from 0 to 1024 threads"},
    {{"--workers=4294967296"}, "--workers is \"4294967296\"; it must be from 0 to 1024 threads"},
    {{"--kernels=sse"}, "--kernels is \"sse\"; it must be auto, generic, avx2, avx512 or neon"},
    {{"--kernels=AVX2"}, "--kernels is \"AVX2\"; it must be auto, generic, avx2, avx512 or neon"},
    {{"--log-format=xml"}, "--log-format is \"xml\"; it must be text or json"},
    {{"--idle-timeout-ms=999"}, "--idle-timeout-ms is \"999\"; it must be from 1000 to 3600000 milliseconds"},
    {{"--max-body-bytes=0"},
     "--max-body-bytes is \"0\"; it must be from 1 to 4294967295 bytes (K, M, G, also as Ki, KB or KiB: "
     "powers of 1024)"},
    {{"--listen=8090"},
     "--listen is \"8090\": it has no port; write HOST:PORT, [IPv6]:PORT, unix:PATH or unix:@NAME"},
    {{"--listen=unix:/a;b"},
     "--listen is \"unix:/a;b\"; it must be HOST:PORT, [IPv6]:PORT, unix:PATH or unix:@NAME"},
    {{"--max-inflight-bytes=1M"},
     "max_inflight_bytes is 1048576; it must be at least max_body_bytes, 67108864"},
    {{"--unix-socket-mode=0780"},
     "--unix-socket-mode is \"0780\"; it must be from 0000 to 0777, octal, as chmod takes it"},
    {{"--unix-socket-mode=01777"},
     "--unix-socket-mode is \"01777\"; it must be from 0000 to 0777, octal, as chmod takes it"},
    {{"--unix-socket-mode=77777777777777777777777777"},
     "--unix-socket-mode is \"77777777777777777777777777\"; it must be from 0000 to 0777, octal, as chmod "
     "takes it"},
    {{"--unix-socket-mode="},
     "--unix-socket-mode is \"\"; it must be from 0000 to 0777, octal, as chmod takes it"},
    {{"--listen="}, "--listen is \"\"; it must be HOST:PORT, [IPv6]:PORT, unix:PATH or unix:@NAME"},
    {{"--admin-listen=9"},
     "--admin-listen is \"9\": it has no port; write HOST:PORT, [IPv6]:PORT, unix:PATH or unix:@NAME"},
    {{"--allow-anonymous=2"},
     "--allow-anonymous is \"2\"; it must be off or on (also false, no, 0; true, yes, 1)"},
    {{"--allow-anonymous", "maybe"}, "unexpected argument \"maybe\"; flags begin with --"},
    {{"--log-requests=true"}, "--log-requests is \"true\"; it must be off, errors or all"},
    {{"--token-file=/a;b"}, "--token-file is \"/a;b\"; it must be a path of at most 160 bytes, or empty"},
    {{"--tls-cert-file=a"}, "tls_cert_file is set, tls_key_file is not; TLS needs both"},
    {{"--tls-key-file=a"}, "tls_key_file is set, tls_cert_file is not; TLS needs both"},
    {{"--tls-client-ca-file=a"},
     "tls_client_ca_file is set, tls_cert_file is not; client certificates need TLS"},
    {{"--config=/nowhere/x.ini"}, "cannot open /nowhere/x.ini: No such file or directory"},
    {{"--config=/tmp"}, "cannot read /tmp"},
};

START_TEST(each_bad_flag)
{
    ck_assert_int_eq(load(bad_flags[_i].flags, NULL), STATUS_INVALID);
    ck_assert_str_eq(err.message, bad_flags[_i].message);
}
END_TEST

static const struct {
    char *variable;
    const char *message; /* NULL: accepted */
} variables[] = {
    {"SAMPLERD_WORKERS=5000", "SAMPLERD_WORKERS is \"5000\"; it must be from 0 to 1024 threads"},
    {"SAMPLERD_WORKERS=", NULL},
    {"SAMPLERD_WORKER=1", NULL}, /* environment_warn() tells */
    {"SAMPLERD_CANARY_PORT=tcp://10.0.0.1:8090", NULL},
    {"SAMPLERDX=1", NULL},
};

START_TEST(each_variable)
{
    enum status status = load(NULL, (char *[]){variables[_i].variable, NULL});
    ck_assert_int_eq(status, variables[_i].message == NULL ? STATUS_OK : STATUS_INVALID);
    if (status != STATUS_OK)
        ck_assert_str_eq(err.message, variables[_i].message);
}
END_TEST

static const struct {
    const char *ini;
    const char *message; /* what follows the file's name */
} bad_files[] = {
    {"[sampler]\nworkers = x\n", ":2: workers is \"x\"; it must be from 0 to 1024 threads"},
    {"[sampler]\n# a comment\n\nworker = 1\n", ":4: unknown key worker; did you mean workers?"},
    {"[smapler]\nworkers = 1\n", ":2: workers belongs in section [sampler]"},
    {"[smapler]\nfoo = 1\n", ":2: unknown section [smapler]"},
    {"workers = 1\n", ":1: workers belongs in section [sampler]"},
    {"[server]\nworkers = 1\n", ":2: workers belongs in section [sampler]"},
    {"[sampler]\nfoo = 1\n", ":2: unknown key foo"},
    {"[sampler]\nworkers = 1\nworkers = 2\n", ":3: workers is set twice"},
    {"[sampler]\nworkers = 1\n  2\n", ":3: workers is set twice"}, /* inih joins an indented line */
    {"[sampler]\nworkers\n", ":2: neither [section], key = value nor a comment"},
    {"[sampler\nworkers = 1\n", ":1: neither [section], key = value nor a comment"},
    {"[sampler]\nworkers\nworkers = x\n", ":2: neither [section], key = value nor a comment"},
    {"[sampler]\nworkers = x\nworkers\n", ":2: workers is \"x\"; it must be from 0 to 1024 threads"},
};

START_TEST(each_bad_file)
{
    char path[64];
    ck_assert_int_eq(load_ini(bad_files[_i].ini, path, NULL, NULL), STATUS_INVALID);
    ck_assert_msg(strncmp(err.message, path, strlen(path)) == 0, "%s", err.message);
    ck_assert_str_eq(err.message + strlen(path), bad_files[_i].message);
}
END_TEST

START_TEST(an_overlong_line_is_refused)
{
    char ini[512], path[64];
    memset(ini, 'x', sizeof ini);
    memcpy(ini, "[log]\n# ", 8);
    strcpy(ini + 300, "\nlog_level = debug\n");
    ck_assert_int_eq(load_ini(ini, path, NULL, NULL), STATUS_INVALID);
    ck_assert_msg(strstr(err.message, ":2: longer than 198 bytes") != NULL, "%s", err.message);
}
END_TEST

START_TEST(a_flag_does_not_hide_a_bad_file)
{
    char path[64];
    ck_assert_int_eq(load_ini("[sampler]\nworkers = x\n", path, NULL, "--workers=1"), STATUS_INVALID);
}
END_TEST

START_TEST(print_reads_back)
{
    char *flags[] = {"--listen=unix:/tmp/a b.sock", "--max-body-bytes=1025",  "--max-inflight-bytes=3G",
                     "--kernels=generic",           "--log-level=warn",       "--unix-socket-mode=7",
                     "--allow-anonymous",           "--token-file=/tmp/a #b", NULL};
    char path[64];
    ck_assert_msg(load(flags, NULL) == STATUS_OK, "%s", err.message);
    struct config before = config;
    char *text = printed(&before);
    ck_assert_msg(load_ini(text, path, NULL, NULL) == STATUS_OK, "%s", err.message);
    char *again = printed(&config);
    ck_assert_str_eq(text, again);
    ck_assert_str_eq(config.listen, before.listen);
    ck_assert_str_eq(config.token_file, "/tmp/a #b");
    ck_assert_uint_eq(config.unix_socket_mode, 7);
    ck_assert_uint_eq(config.max_body_bytes, 1025);
    ck_assert_uint_eq(config.max_inflight_bytes, (size_t)3 << 30);
    free(text);
    free(again);
}
END_TEST

/* The shipped file is --print-config of the defaults, byte for byte. */
START_TEST(example_file_is_the_table)
{
    static char example[16384];
    FILE *in = fopen("config.example.ini", "r");
    ck_assert_msg(in != NULL, "run from the top of the source tree");
    example[fread(example, 1, sizeof example - 1, in)] = '\0';
    fclose(in);
    config_init(&config);
    char *text = printed(&config);
    ck_assert_str_eq(example, text);
    free(text);
}
END_TEST

START_TEST(help_names_every_flag)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_help(out);
    fclose(out);
    for (size_t i = 0; i < option_count; i++) {
        char flag[OPTION_VALUE_BYTES];
        option_flag(&option_table[i], flag);
        ck_assert_msg(strstr(text, flag) != NULL, "%s", flag);
        ck_assert_msg(strstr(text, option_table[i].help) != NULL, "%s", option_table[i].help);
    }
    free(text);
}
END_TEST

/* A line of config.example.ini must fit what inih reads. */
START_TEST(printed_lines_are_short_enough)
{
    config_init(&config);
    memset(config.listen, 'x', sizeof config.listen - 1);
    memset(config.tls_client_ca_file, 'x', sizeof config.tls_client_ca_file - 1);
    char *text = printed(&config);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        ck_assert_uint_le(strlen(line), 197);
    free(text);
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

static TCase *accepted(void)
{
    TCase *tc = tcase_create("accepted");
    tcase_add_test(tc, defaults);
    tcase_add_test(tc, later_sources_win);
    tcase_add_test(tc, other_spellings);
    tcase_add_test(tc, flags_take_both_forms);
    tcase_add_loop_test(tc, a_switch_may_stand_alone, 0, COUNT(switches));
    tcase_add_loop_test(tc, size_suffixes, 0, COUNT(sizes));
    tcase_add_loop_test(tc, each_action, 0, COUNT(actions));
    tcase_add_test(tc, help_needs_no_sound_configuration);
    return tc;
}

static TCase *refused(void)
{
    TCase *tc = tcase_create("refused");
    tcase_add_loop_test(tc, each_bad_flag, 0, COUNT(bad_flags));
    tcase_add_loop_test(tc, each_variable, 0, COUNT(variables));
    tcase_add_loop_test(tc, each_bad_file, 0, COUNT(bad_files));
    tcase_add_test(tc, an_overlong_line_is_refused);
    tcase_add_test(tc, a_flag_does_not_hide_a_bad_file);
    return tc;
}

static TCase *printing(void)
{
    TCase *tc = tcase_create("printing");
    tcase_add_test(tc, print_reads_back);
    tcase_add_test(tc, example_file_is_the_table);
    tcase_add_test(tc, help_names_every_flag);
    tcase_add_test(tc, printed_lines_are_short_enough);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("config");
    suite_add_tcase(suite, accepted());
    suite_add_tcase(suite, refused());
    suite_add_tcase(suite, printing());
    return run_suite(suite);
}
