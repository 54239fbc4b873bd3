#include "server/net/framing.h"

#include "tests/support.h"

static const struct {
    const char *target, *path;
} targets[] = {
    {"/sample", "/sample"},
    {"/", "/"},
    {"/http://host/sample", "/http://host/sample"},
    {"http://host/sample", "/sample"},
    {"http://127.0.0.1:8090/v2/models/sampler/infer", "/v2/models/sampler/infer"},
    {"http://[::1]:8090/livez", "/livez"},
    {"HTTPS://Host//sample", "//sample"},
    {"http://host", "/"},
    {"http://host/", "/"},
    {"http:///sample", "http:///sample"},
    {"http://", "http://"},
    {"http:/sample", "http:/sample"},
    {"ftp://host/sample", "ftp://host/sample"},
    {"sample", "sample"},
    {"*", "*"},
    {"", ""},
};

START_TEST(path_of_a_target)
{
    ck_assert_str_eq(framing_path(targets[_i].target), targets[_i].path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("framing");
    TCase *tcase = tcase_create("targets");
    tcase_add_loop_test(tcase, path_of_a_target, 0, sizeof targets / sizeof targets[0]);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
