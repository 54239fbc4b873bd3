#include "server/request/negotiation.h"

#include "tests/support.h"

#define NEITHER (-1)

static const struct {
    const char *headers[2];
    int form;
} cases[] = {
    {{NULL}, ANSWER_JSON},
    {{""}, ANSWER_JSON},
    {{"*/*"}, ANSWER_JSON},
    {{"application/*"}, ANSWER_JSON},
    {{"application/json"}, ANSWER_JSON},
    {{"Application/JSON; charset=utf-8"}, ANSWER_JSON},
    {{"application/octet-stream"}, ANSWER_IDS},
    {{" application/OCTET-stream\t"}, ANSWER_IDS},
    {{"text/html, application/octet-stream"}, ANSWER_IDS},
    {{"text/html", "application/octet-stream"}, ANSWER_IDS},
    {{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, ANSWER_JSON},
    /* the better liked, then the one that is named, then JSON */
    {{"application/octet-stream, application/json"}, ANSWER_JSON},
    {{"application/octet-stream, application/json;q=0.9"}, ANSWER_IDS},
    {{"application/octet-stream;q=0.5, application/json;q=0.9"}, ANSWER_JSON},
    {{"application/octet-stream;q=0.5, application/json;Q=0.499"}, ANSWER_IDS},
    {{"application/octet-stream;q=0.5", "application/json;q=0.6"}, ANSWER_JSON},
    {{"application/octet-stream, */*"}, ANSWER_IDS},
    {{"application/octet-stream, */*;q=0.1"}, ANSWER_IDS},
    {{"application/octet-stream;q=0.1, */*"}, ANSWER_JSON},
    {{"application/json;q=0.2, application/*;q=0.8"}, ANSWER_IDS},
    {{"application/*;q=0.8, application/json;q=0.2"}, ANSWER_IDS},
    {{"application/json; v=1 ; q=0.2, application/octet-stream ; q = 1"}, ANSWER_IDS},
    /* what is refused */
    {{"application/json;q=0, */*"}, ANSWER_IDS},
    {{"application/json;q=0.000, application/octet-stream;q=0.001"}, ANSWER_IDS},
    {{"*/*;q=0, application/json"}, ANSWER_JSON},
    {{"text/html"}, NEITHER},
    {{"*/*;q=0"}, NEITHER},
    {{"application/json;q=0"}, NEITHER},
    {{"application/jso"}, NEITHER},
    {{"application/jsonx"}, NEITHER},
    {{"application/"}, NEITHER},
    {{"*"}, NEITHER},
    /* what is no quality counts as 1 */
    {{"application/json;q=0.5, application/octet-stream;q=high"}, ANSWER_IDS},
    {{"application/json;q=0.5, application/octet-stream;q="}, ANSWER_IDS},
    {{"application/json;q=0.5, application/octet-stream;q=1.9"}, ANSWER_IDS},
    {{"application/json;q=0.5, application/octet-stream;q=0.x"}, ANSWER_IDS},
    {{",,;, application/octet-stream;;"}, ANSWER_IDS},
};

START_TEST(chooses)
{
    struct negotiation accept = {0};
    enum answer_form form;
    for (size_t i = 0; i < 2 && cases[_i].headers[i] != NULL; i++)
        negotiation_add(&accept, cases[_i].headers[i]);
    int chosen = negotiation_choose(&accept, &form) ? (int)form : NEITHER;
    ck_assert_msg(chosen == cases[_i].form, "%s: %d", cases[_i].headers[0], chosen);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("negotiation");
    TCase *tcase = tcase_create("headers");
    tcase_add_loop_test(tcase, chooses, 0, sizeof cases / sizeof cases[0]);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
