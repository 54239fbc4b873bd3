#include "server/net/address.h"

#include "tests/support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_107                                                                                             \
    "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
    "aaaaa"

static struct address address;
static struct error err;

static const struct {
    const char *in, *out;
    int family;
    unsigned port;
} good[] = {
    {"127.0.0.1:8090", "127.0.0.1:8090", AF_INET, 8090},
    {"0.0.0.0:0", "0.0.0.0:0", AF_INET, 0},
    {"127.0.0.1:65535", "127.0.0.1:65535", AF_INET, 65535},
    {"127.0.0.1:08090", "127.0.0.1:8090", AF_INET, 8090},
    {"localhost:80", "127.0.0.1:80", AF_INET, 80},
    {"[::1]:8090", "[::1]:8090", AF_INET6, 8090},
    {"[::]:1", "[::]:1", AF_INET6, 1},
    {"[0:0::1]:1", "[::1]:1", AF_INET6, 1},
    {"unix:/run/samplerd.sock", "unix:/run/samplerd.sock", AF_UNIX, 0},
    {"unix:a:b", "unix:a:b", AF_UNIX, 0},
    {"unix:" PATH_107, "unix:" PATH_107, AF_UNIX, 0},
    {"unix:@samplerd", "unix:@samplerd", AF_UNIX, 0},
    {"unix:@" PATH_107, "unix:@" PATH_107, AF_UNIX, 0},
    {"unix:./@x", "unix:./@x", AF_UNIX, 0},
};

START_TEST(each_good_address)
{
    ck_assert_msg(address_parse(good[_i].in, &address, &err) == STATUS_OK, "%s", err.message);
    ck_assert_int_eq(address.storage.ss_family, good[_i].family);
    ck_assert_int_eq(address_is_abstract(&address), strncmp(good[_i].in, "unix:@", 6) == 0);
    ck_assert_uint_eq(address_port(&address), good[_i].port);
    ck_assert_int_eq(address_is_unix(&address), good[_i].family == AF_UNIX);
    ck_assert_str_eq(address.text, good[_i].out);
}
END_TEST

static const struct {
    const char *in, *message; /* a part of it */
} bad[] = {
    {"", "no port"},
    {"8090", "no port"},
    {"localhost", "no port"},
    {"[::1]", "no port"},
    {"[::1", "no port"},
    {"[::1]8090", "no port"},
    {":8090", "host is empty"},
    {"[]:8090", "host is empty"},
    {"::1:8090", "needs brackets"},
    {"::", "needs brackets"},
    {"127.0.0.1:", "port must be from 0 to 65535"},
    {"127.0.0.1:65536", "port must be from 0 to 65535"},
    {"127.0.0.1:99999999999999999999", "port must be from 0 to 65535"},
    {"127.0.0.1:-1", "port must be from 0 to 65535"},
    {"127.0.0.1: 80", "port must be from 0 to 65535"},
    {"127.0.0.1:http", "port must be from 0 to 65535"},
    {"[127.0.0.1]:80", "127.0.0.1: "},
    {"[fe80::g]:80", "fe80::g: "},
    {"no.such.host.invalid:80", "no.such.host.invalid: "},
    {"unix:", "path after unix: is empty"},
    {"unix:" PATH_107 "a", "has 108 bytes; the system allows 107"},
    {"unix:@", "name after unix:@ is empty"},
    {"unix:@" PATH_107 "a", "name has 108 bytes; the system allows 107"},
};

START_TEST(each_bad_address)
{
    ck_assert_int_eq(address_parse(bad[_i].in, &address, &err), STATUS_INVALID);
    ck_assert_msg(strstr(err.message, bad[_i].message) != NULL, "%s", err.message);
}
END_TEST

START_TEST(an_overlong_host_is_refused)
{
    char host[512];
    memset(host, 'h', sizeof host);
    strcpy(host + 300, ":1");
    ck_assert_int_eq(address_parse(host, &address, &err), STATUS_INVALID);
}
END_TEST

static const struct {
    const char *in, *out;
} loopbacks[] = {
    {"0.0.0.0:1", "127.0.0.1:1"},           {"[::]:1", "[::1]:1"},  {"10.1.2.3:1", "10.1.2.3:1"},
    {"[2001:db8::1]:1", "[2001:db8::1]:1"}, {"unix:/x", "unix:/x"}, {"unix:@x", "unix:@x"},
};

START_TEST(each_loopback)
{
    ck_assert_int_eq(address_parse(loopbacks[_i].in, &address, &err), STATUS_OK);
    address_to_loopback(&address);
    ck_assert_str_eq(address.text, loopbacks[_i].out);
}
END_TEST

static const struct {
    const char *in;
    bool local;
} reaches[] = {
    {"127.0.0.1:1", true},          {"127.255.0.9:1", true}, {"0.0.0.0:1", false},
    {"10.0.0.1:1", false},          {"[::1]:1", true},       {"[::]:1", false},
    {"[::ffff:127.0.0.1]:1", true}, {"unix:/x", true},       {"[::ffff:10.0.0.1]:1", false},
    {"[2001:db8::1]:1", false},     {"[fe80::1]:1", false},  {"unix:@x", true},
};

START_TEST(each_reach)
{
    ck_assert_int_eq(address_parse(reaches[_i].in, &address, &err), STATUS_OK);
    ck_assert_int_eq(address_is_local(&address), reaches[_i].local);
}
END_TEST

START_TEST(a_socket_tells_its_address)
{
    struct address told;
    char text[64];
    int fd = -1;
    snprintf(text, sizeof text, "unix:/tmp/test_address.%d", (int)getpid());
    ck_assert_int_eq(address_parse(_i == 0 ? "127.0.0.1:0" : text, &address, &err), STATUS_OK);
    ck_assert_msg(address_listen(&address, &fd, &err) == STATUS_OK, "%s", err.message);
    ck_assert_msg(address_of_socket(fd, &told, &err) == STATUS_OK, "%s", err.message);
    ck_assert_str_eq(told.text, address.text);
    close(fd);
    address_cleanup(&address);
    ck_assert_int_eq(address_of_socket(fd, &told, &err), STATUS_INVALID); /* closed */
    fd = socket(AF_INET, _i == 0 ? SOCK_DGRAM : SOCK_STREAM, 0);
    ck_assert_int_eq(address_of_socket(fd, &told, &err), STATUS_INVALID); /* does not listen */
    close(fd);
}
END_TEST

START_TEST(the_mode_of_a_socket_file)
{
    static const unsigned modes[] = {0660, 0600, 0666};
    struct stat file;
    char text[64];
    int fd = -1;
    snprintf(text, sizeof text, "unix:/tmp/test_address.%d", (int)getpid());
    ck_assert_int_eq(address_parse(text, &address, &err), STATUS_OK);
    ck_assert_uint_eq(address.mode, ADDRESS_UNIX_MODE);
    address.mode = modes[_i];
    ck_assert_msg(address_listen(&address, &fd, &err) == STATUS_OK, "%s", err.message);
    ck_assert_int_eq(stat(text + strlen("unix:"), &file), 0);
    ck_assert_uint_eq(file.st_mode & 0777, modes[_i]);
    close(fd);
    address_cleanup(&address);
}
END_TEST

static int connect_to(const struct address *a)
{
    int fd = socket(a->storage.ss_family, SOCK_STREAM, 0);
    int failed = connect(fd, (const struct sockaddr *)&a->storage, a->length);
    close(fd);
    return failed;
}

START_TEST(port_0_becomes_a_port)
{
    int fd = -1;
    ck_assert_int_eq(address_parse(_i == 0 ? "127.0.0.1:0" : "[::1]:0", &address, &err), STATUS_OK);
    if (address_listen(&address, &fd, &err) != STATUS_OK && _i == 1)
        return; /* a machine without IPv6 */
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_gt(address_port(&address), 0);
    ck_assert_int_eq(connect_to(&address), 0);
    struct address again;
    ck_assert_int_eq(address_parse(address.text, &again, &err), STATUS_OK);
    ck_assert_uint_eq(address_port(&again), address_port(&address));
    int second = -1;
    ck_assert_int_eq(address_listen(&again, &second, &err), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "Address already in use"));
    close(fd);
}
END_TEST

START_TEST(socket_files)
{
    char text[64];
    snprintf(text, sizeof text, "unix:/tmp/test_address.%d", (int)getpid());
    int fd = -1, second = -1;
    ck_assert_int_eq(address_parse(text, &address, &err), STATUS_OK);
    ck_assert_msg(address_listen(&address, &fd, &err) == STATUS_OK, "%s", err.message);
    ck_assert_str_eq(address.text, text);
    ck_assert_int_eq(address_listen(&address, &second, &err), STATUS_INVALID); /* it is served */
    ck_assert_int_eq(connect_to(&address), 0);
    close(fd); /* its process dies */
    ck_assert_msg(address_listen(&address, &fd, &err) == STATUS_OK, "%s", err.message);
    close(fd);
    address_cleanup(&address);
    ck_assert_int_ne(access(text + strlen("unix:"), F_OK), 0);
}
END_TEST

/* It leaves no file, and is free again as soon as nobody serves it. */
START_TEST(abstract_names)
{
    char text[64];
    snprintf(text, sizeof text, "unix:@test_address.%d", (int)getpid());
    int fd = -1, second = -1;
    struct address told;
    ck_assert_int_eq(address_parse(text, &address, &err), STATUS_OK);
    ck_assert_msg(address_listen(&address, &fd, &err) == STATUS_OK, "%s", err.message);
    ck_assert_str_eq(address.text, text);
    ck_assert_msg(address_of_socket(fd, &told, &err) == STATUS_OK, "%s", err.message);
    ck_assert_str_eq(told.text, text);
    ck_assert_int_eq(connect_to(&address), 0);
    ck_assert_int_eq(address_listen(&address, &second, &err), STATUS_INVALID);
    ck_assert_int_ne(access(text + strlen("unix:"), F_OK), 0);
    address_cleanup(&address);
    ck_assert_int_eq(connect_to(&address), 0);
    close(fd);
    ck_assert_msg(address_listen(&address, &fd, &err) == STATUS_OK, "%s", err.message);
    close(fd);
}
END_TEST

START_TEST(other_files_are_left_alone)
{
    char text[64] = "unix:/tmp/test_address_XXXXXX";
    int fd = mkstemp(text + strlen("unix:")), second = -1;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(address_parse(text, &address, &err), STATUS_OK);
    ck_assert_int_eq(address_listen(&address, &second, &err), STATUS_INVALID);
    ck_assert_int_eq(unlink(text + strlen("unix:")), 0);
    close(fd);
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

int main(void)
{
    Suite *suite = suite_create("address");
    TCase *tc = tcase_create("parse and format");
    tcase_set_timeout(tc, 30); /* one case asks a name server, where there is one */
    tcase_add_loop_test(tc, each_good_address, 0, COUNT(good));
    tcase_add_loop_test(tc, each_bad_address, 0, COUNT(bad));
    tcase_add_test(tc, an_overlong_host_is_refused);
    tcase_add_loop_test(tc, each_loopback, 0, COUNT(loopbacks));
    tcase_add_loop_test(tc, each_reach, 0, COUNT(reaches));
    suite_add_tcase(suite, tc);
    TCase *listening = tcase_create("listen");
    tcase_add_loop_test(listening, port_0_becomes_a_port, 0, 2);
    tcase_add_test(listening, socket_files);
    tcase_add_test(listening, abstract_names);
    tcase_add_loop_test(listening, a_socket_tells_its_address, 0, 2);
    tcase_add_loop_test(listening, the_mode_of_a_socket_file, 0, 3);
    tcase_add_test(listening, other_files_are_left_alone);
    suite_add_tcase(suite, listening);
    return run_suite(suite);
}
