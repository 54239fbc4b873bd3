#include "server/address.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define PATH_107                                                                                             \
    "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
    "aaaaa"

static struct address address;
static struct error err;
static char text[ADDRESS_TEXT_BYTES];

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
};

START_TEST(each_good_address)
{
    ck_assert_msg(address_parse(good[_i].in, &address, &err) == STATUS_OK, "%s", err.message);
    ck_assert_int_eq(address.storage.ss_family, good[_i].family);
    ck_assert_uint_eq(address_port(&address), good[_i].port);
    ck_assert_int_eq(address_is_unix(&address), good[_i].family == AF_UNIX);
    address_format(&address, text);
    ck_assert_str_eq(text, good[_i].out);
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
    {"[2001:db8::1]:1", "[2001:db8::1]:1"}, {"unix:/x", "unix:/x"},
};

START_TEST(each_loopback)
{
    ck_assert_int_eq(address_parse(loopbacks[_i].in, &address, &err), STATUS_OK);
    address_to_loopback(&address);
    address_format(&address, text);
    ck_assert_str_eq(text, loopbacks[_i].out);
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
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
