#include "server/config/environment.h"

#include "server/config/option.h"
#include "server/observe/log.h"

#include "tests/support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

static struct config config;
static struct error err;

static const struct {
    const char *entry;
    bool is_service;
} entries[] = {
    {"SAMPLERD_SERVICE_HOST=10.0.0.1", true},
    {"SAMPLERD_SERVICE_PORT=8090", true},
    {"SAMPLERD_SERVICE_PORT_HTTP=8090", true},
    {"SAMPLERD_PORT=tcp://10.0.0.1:8090", true},
    {"SAMPLERD_PORT=udp://10.0.0.1:8090", true},
    {"SAMPLERD_PORT=sctp://10.0.0.1:8090", true},
    {"SAMPLERD_PORT_8090_TCP=tcp://10.0.0.1:8090", true},
    {"SAMPLERD_PORT_8090_TCP_ADDR=10.0.0.1", true},
    {"SAMPLERD_PORT_8090_UDP_PROTO=udp", true},
    {"SAMPLERD_PORT_1_SCTP_PORT=1", true},
    {"SAMPLERD_CANARY_PORT=tcp://10.0.0.1:8090", true},
    {"SAMPLERD_CANARY_PORT=tcp://[fd00::1]:8090", true},
    {"SAMPLERD_CANARY_V2_PORT_8090_TCP_PORT=8090", true},
    {"SAMPLERD_CANARY_SERVICE_HOST=10.0.0.1", true},
    {"SAMPLERD_CANARY_SERVICE_PORT_METRICS=9090", true},
    {"SAMPLERD_PORT_X_PORT_8090_TCP_ADDR=10.0.0.1", true},
    {"SAMPLERD_NAME=/web/samplerd", true},
    {"SAMPLERD_1_ENV_SAMPLERD_LISTEN=0.0.0.0:8090", true},
    {"SAMPLERD_PORT=8090", false},
    {"SAMPLERD_PORT", false},
    {"SAMPLERD_PORT_TCP=1", false},
    {"SAMPLERD_PORT_8090=1", false},
    {"SAMPLERD_PORT_8090_TCPX=1", false},
    {"SAMPLERD_NAME=web", false},
    {"SAMPLERD_WORKER=1", false},
    {"SAMPLERD_=tcp://10.0.0.1:8090", false},
    {"OTHER_SERVICE_HOST=10.0.0.1", false},
    {"", false},
};

START_TEST(each_entry)
{
    ck_assert_int_eq(environment_is_service(entries[_i].entry), entries[_i].is_service);
}
END_TEST

/* No key may ever look like a part of a service's description, whatever its value. */
START_TEST(no_setting_is_a_service)
{
    static const char *const values[] = {"1", "tcp://10.0.0.1:1", "/a/b"};
    for (size_t i = 0; i < option_count; i++)
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            char name[OPTION_VALUE_BYTES], entry[2 * OPTION_VALUE_BYTES];
            option_variable(&option_table[i], name);
            snprintf(entry, sizeof entry, "%s=%s", name, values[v]);
            ck_assert_msg(!environment_is_service(entry), "%s", entry);
        }
}
END_TEST

/* Every key, for which "" is out of range, keeps what it has. */
START_TEST(an_empty_variable_is_absent)
{
    struct config before;
    config_init(&before);
    strcpy(before.token_file, "/etc/tokens");
    for (size_t i = 0; i < option_count; i++) {
        char entry[OPTION_VALUE_BYTES];
        config = before;
        option_variable(&option_table[i], entry);
        strcat(entry, "=");
        ck_assert_msg(environment_load((char *[]){entry, NULL}, &config, &err) == STATUS_OK, "%s",
                      err.message);
        ck_assert_msg(memcmp(&config, &before, sizeof config) == 0, "%s", entry);
    }
}
END_TEST

/* What environment_warn() writes to stderr about one entry. */
static char *warned(char *entry)
{
    static char text[4096];
    int pipe_fds[2], stderr_fd = dup(STDERR_FILENO);
    ck_assert_int_eq(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], STDERR_FILENO);
    environment_warn((char *[]){entry, NULL});
    dup2(stderr_fd, STDERR_FILENO);
    close(stderr_fd);
    close(pipe_fds[1]);
    ssize_t length = read(pipe_fds[0], text, sizeof text - 1);
    close(pipe_fds[0]);
    text[length < 0 ? 0 : length] = '\0';
    return text;
}

static const struct {
    char *entry;
    const char *name, *nearest; /* NULL: no warning */
} warnings[] = {
    {"SAMPLERD_WORKER=1", "SAMPLERD_WORKER", "SAMPLERD_WORKERS"},
    {"SAMPLERD_workers=1", "SAMPLERD_workers", "SAMPLERD_WORKERS"},
    {"SAMPLERD_LOG-LEVEL=info", "SAMPLERD_LOG-LEVEL", "SAMPLERD_LOG_LEVEL"},
    {"SAMPLERD_=1", "SAMPLERD_", "none"},
    {"SAMPLERD_PORT=8090", "SAMPLERD_PORT", "none"},
    {"SAMPLERD_FROBNICATE=1", "SAMPLERD_FROBNICATE", "none"},
    {"SAMPLERD_WORKERS=1", NULL, NULL},
    {"SAMPLERD_WORKER=", NULL, NULL},
    {"SAMPLERD_WORKER", NULL, NULL},
    {"SAMPLERDX=1", NULL, NULL},
    {"SAMPLERD_CANARY_PORT=tcp://10.0.0.1:8090", NULL, NULL},
};

START_TEST(each_warning)
{
    char expected[256];
    log_init(LOG_TEXT, LOG_INFO);
    const char *text = warned(warnings[_i].entry);
    if (warnings[_i].name == NULL) {
        ck_assert_str_eq(text, "");
        return;
    }
    snprintf(expected, sizeof expected, "name=%s nearest=%s\n", warnings[_i].name, warnings[_i].nearest);
    ck_assert_msg(strstr(text, expected) != NULL, "%s", text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("environment");
    TCase *tc = tcase_create("environment");
    tcase_add_loop_test(tc, each_entry, 0, COUNT(entries));
    tcase_add_test(tc, no_setting_is_a_service);
    tcase_add_test(tc, an_empty_variable_is_absent);
    tcase_add_loop_test(tc, each_warning, 0, COUNT(warnings));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
