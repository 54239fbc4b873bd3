#include "server/config/origins.h"

#include "tests/support.h"

static const struct {
    const char *list;
    const char *fault; /* a part of the message; NULL: accepted */
} lists[] = {
    {"", NULL},
    {"*", NULL},
    {"https://app.example", NULL},
    {"http://localhost:3000", NULL},
    {"http://127.0.0.1:1,https://[::1]:65535", NULL},
    {"https://a.example, https://b.example  http://c_d-e", NULL},
    {"chrome-extension://abcdefghijklmnop", NULL},
    {"http://a:443 https://a:80", NULL},
    {"null", "\"null\" cannot be an origin"},
    {"*, https://a", "\"*\" cannot be an origin: * stands alone"},
    {"https://a *", "\"*\" cannot be an origin: * stands alone"},
    {"* *", "\"*\" cannot be an origin: * stands alone"},
    {"https://*.example", "\"https://*.example\""},
    {"https://a, b.example", "\"b.example\" cannot be an origin: it must be scheme://host"},
    {"https://a/", "\"https://a/\""},
    {"https://a/path", "\"https://a/path\""},
    {"https://u@a", "\"https://u@a\""},
    {"https://", "it has no host"},
    {"https:///a", "it has no host"},
    {"://a", "it must be scheme://host"},
    {"1http://a", "it must be scheme://host"},
    {"https:a", "it must be scheme://host"},
    {"HTTPS://a", "in small letters"},
    {"https://A", "in small letters"},
    {"https://aB", "in small letters"},
    {"https://[::1", "it has no host"},
    {"https://[]", "it has no host"},
    {"https://a:", "its port must be from 1 to 65535"},
    {"https://a:0", "its port must be from 1 to 65535"},
    {"https://a:65536", "its port must be from 1 to 65535"},
    {"https://a:99999999999999999999", "its port must be from 1 to 65535"},
    {"https://a:08", "its port must be from 1 to 65535"},
    {"https://a:80/", "its port must be from 1 to 65535, and its end"},
    {"http://a:80", "browsers leave out"},
    {"https://a:443", "browsers leave out"},
};

START_TEST(checks)
{
    struct error err = {0};
    enum status status = origins_check(lists[_i].list, &err);
    ck_assert_msg((status == STATUS_OK) == (lists[_i].fault == NULL), "%s: %s", lists[_i].list, err.message);
    if (lists[_i].fault != NULL)
        ck_assert_msg(strstr(err.message, lists[_i].fault) != NULL, "%s", err.message);
}
END_TEST

static const struct {
    const char *list, *origin;
    bool has, every;
} matches[] = {
    {"", "https://a", false, false},
    {"", "", false, false},
    {"*", "https://a", true, true},
    {"*", "null", true, true},
    {"https://a", "https://a", true, false},
    {"https://a", "https://ab", false, false},
    {"https://ab", "https://a", false, false},
    {"https://a", "http://a", false, false},
    {"https://a", "https://a:8443", false, false},
    {"https://a", "https://a/", false, false},
    {"https://a", "", false, false},
    {"https://a", "*", false, false},
    {"https://a,https://b", "https://a,https://b", false, false},
    {"https://a,https://b", "https://b", true, false},
    {"https://a ,  https://b", "https://b", true, false},
};

START_TEST(finds)
{
    ck_assert_int_eq(origins_has(matches[_i].list, matches[_i].origin), matches[_i].has);
    ck_assert_int_eq(origins_is_every(matches[_i].list), matches[_i].every);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("origins");
    TCase *tcase = tcase_create("lists");
    tcase_add_loop_test(tcase, checks, 0, sizeof lists / sizeof lists[0]);
    tcase_add_loop_test(tcase, finds, 0, sizeof matches / sizeof matches[0]);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
