#include "server/net/address.h"
#include "server/observe/healthcheck.h"

#include "tests/support.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A server that reads one request and sends back a fixed text. */
struct fake_server {
    struct address address;
    int fd;
    const char *answer; /* NULL: never any */
    char request[256];
    pthread_t thread;
};

static void *serve_once(void *argument)
{
    struct fake_server *s = argument;
    int fd;
    while ((fd = accept(s->fd, NULL, NULL)) == -1)
        usleep(1000); /* the listening socket does not block */
    ssize_t n = recv(fd, s->request, sizeof s->request - 1, 0);
    ck_assert_int_gt(n, 0);
    if (s->answer == NULL)
        recv(fd, s->request, 1, 0); /* until the client gives up */
    else
        ck_assert_int_eq(send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL), (ssize_t)strlen(s->answer));
    close(fd);
    return NULL;
}

static void fake_server_start(struct fake_server *s, const char *listen, const char *answer)
{
    struct error err;
    memset(s, 0, sizeof *s);
    s->answer = answer;
    ck_assert_int_eq(address_parse(listen, &s->address, &err), STATUS_OK);
    ck_assert_msg(address_listen(&s->address, &s->fd, &err) == STATUS_OK, "%s", err.message);
    pthread_create(&s->thread, NULL, serve_once, s);
}

static void fake_server_stop(struct fake_server *s)
{
    pthread_join(s->thread, NULL);
    close(s->fd);
    address_cleanup(&s->address);
}

static int check_address(const char *listen)
{
    struct config config;
    config_init(&config);
    strcpy(config.listen, listen);
    return healthcheck_run(&config);
}

static const struct {
    const char *answer;
    int exit_status;
} answers[] = {
    {"HTTP/1.1 200 OK\r\n\r\nok\n", 0},
    {"HTTP/1.0 200 OK\r\n\r\n", 0},
    {"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1},
    {"HTTP/1.1 404 Not Found\r\n\r\n", 1},
    {"SSH-2.0-OpenSSH_9.2p1\r\n", 1},
    {"HTTP/1.1 20", 1},
    {"", 1},
};

START_TEST(each_answer)
{
    struct fake_server s;
    fake_server_start(&s, "127.0.0.1:0", answers[_i].answer);
    ck_assert_int_eq(check_address(s.address.text), answers[_i].exit_status);
    fake_server_stop(&s);
    ck_assert_int_eq(strncmp(s.request, "GET /readyz HTTP/1.1\r\n", 22), 0);
}
END_TEST

START_TEST(a_wildcard_is_reached_by_loopback)
{
    struct fake_server s;
    fake_server_start(&s, "0.0.0.0:0", answers[0].answer);
    ck_assert_int_eq(check_address(s.address.text), 0);
    fake_server_stop(&s);
}
END_TEST

START_TEST(a_unix_socket)
{
    struct fake_server s;
    char listen[64];
    snprintf(listen, sizeof listen, "unix:/tmp/test_healthcheck.%d", (int)getpid());
    fake_server_start(&s, listen, answers[0].answer);
    ck_assert_int_eq(check_address(listen), 0);
    fake_server_stop(&s);
    ck_assert_int_eq(check_address(listen), 1); /* gone */
}
END_TEST

START_TEST(admin_listen_is_asked_first)
{
    struct fake_server s;
    struct config config;
    fake_server_start(&s, "127.0.0.1:0", answers[0].answer);
    config_init(&config);
    strcpy(config.listen, "127.0.0.1:0");
    strcpy(config.admin_listen, s.address.text);
    strcpy(config.tls_cert_file, "not used there");
    ck_assert_int_eq(healthcheck_run(&config), 0);
    fake_server_stop(&s);
}
END_TEST

/* A server that speaks no TLS, or is silent, when TLS is asked for. */
START_TEST(no_tls_where_it_should_be)
{
    struct fake_server s;
    struct config config;
    fake_server_start(&s, "127.0.0.1:0", _i == 0 ? answers[0].answer : NULL);
    config_init(&config);
    strcpy(config.listen, s.address.text);
    strcpy(config.tls_cert_file, "set");
    ck_assert_int_eq(healthcheck_run(&config), 1);
    fake_server_stop(&s);
}
END_TEST

START_TEST(a_client_certificate_cannot_be_shown)
{
    struct config config;
    config_init(&config);
    strcpy(config.tls_cert_file, "set");
    strcpy(config.tls_client_ca_file, "set");
    ck_assert_int_eq(healthcheck_run(&config), 1);
}
END_TEST

START_TEST(a_silent_server_is_given_up)
{
    struct fake_server s;
    struct timespec begin, end;
    fake_server_start(&s, "127.0.0.1:0", NULL);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ck_assert_int_eq(check_address(s.address.text), 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    fake_server_stop(&s);
    ck_assert_int_ge(end.tv_sec - begin.tv_sec, HEALTHCHECK_TIMEOUT_MS / 1000 - 1);
    ck_assert_int_le(end.tv_sec - begin.tv_sec, HEALTHCHECK_TIMEOUT_MS / 1000 + 10);
}
END_TEST

START_TEST(port_0_cannot_be_asked)
{
    ck_assert_int_eq(check_address("127.0.0.1:0"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("healthcheck");
    TCase *tc = tcase_create("healthcheck");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, each_answer, 0, sizeof answers / sizeof answers[0]);
    tcase_add_test(tc, a_wildcard_is_reached_by_loopback);
    tcase_add_test(tc, a_unix_socket);
    tcase_add_test(tc, admin_listen_is_asked_first);
    tcase_add_loop_test(tc, no_tls_where_it_should_be, 0, 2);
    tcase_add_test(tc, a_client_certificate_cannot_be_shown);
    tcase_add_test(tc, a_silent_server_is_given_up);
    tcase_add_test(tc, port_0_cannot_be_asked);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
