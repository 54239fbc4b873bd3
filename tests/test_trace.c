#include "server/observe/trace.h"

#include "tests/support.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static const struct {
    const char *header;
    bool good;
} parents[] = {
    {"00-" TRACE "-" PARENT "-01", true},
    {"00-" TRACE "-" PARENT "-00", true},
    {"00-" TRACE "-" PARENT "-ff", true},
    {"01-" TRACE "-" PARENT "-01", true},
    {"01-" TRACE "-" PARENT "-01-what comes later", true},
    {"", false},
    {"00", false},
    {"00-" TRACE, false},
    {"00-" TRACE "-" PARENT, false},
    {"00-" TRACE "-" PARENT "-", false},
    {"00-" TRACE "-" PARENT "-1", false},
    {"00-" TRACE "-" PARENT "-0x", false},
    {"00-" TRACE "-" PARENT "-01-", false},
    {"00-" TRACE "-" PARENT "-01 ", false},
    {"01-" TRACE "-" PARENT "-01x", false},
    {"ff-" TRACE "-" PARENT "-01", false},
    {" 00-" TRACE "-" PARENT "-01", false},
    {"0-" TRACE "-" PARENT "-01", false},
    {"00_" TRACE "-" PARENT "-01", false},
    {"00-" TRACE "_" PARENT "-01", false},
    {"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", false},
    {"00-" TRACE "-B7AD6B7169203331-01", false},
    {"00-00000000000000000000000000000000-" PARENT "-01", false},
    {"00-" TRACE "-0000000000000000-01", false},
    {"00-0af7651916cd43dd8448eb211c80319g-" PARENT "-01", false},
};

START_TEST(reads_traceparent_strictly)
{
    char trace_id[TRACE_ID_LENGTH + 1] = "before";
    ck_assert_int_eq(trace_parse_parent(parents[_i].header, trace_id), parents[_i].good);
    ck_assert_str_eq(trace_id, parents[_i].good ? TRACE : "");
}
END_TEST

START_TEST(takes_visible_ids)
{
    char longest[TRACE_ID_MAX_LENGTH + 2];
    memset(longest, 'x', sizeof longest);
    longest[TRACE_ID_MAX_LENGTH + 1] = '\0';
    ck_assert(!trace_id_usable(longest));
    longest[TRACE_ID_MAX_LENGTH] = '\0';
    ck_assert(trace_id_usable(longest));
    ck_assert(trace_id_usable("!"));
    ck_assert(trace_id_usable("~"));
    ck_assert(!trace_id_usable(""));
    ck_assert(!trace_id_usable("a b"));
    ck_assert(!trace_id_usable("a\t"));
    ck_assert(!trace_id_usable("a\x7f"));
    ck_assert(!trace_id_usable("\xc3\xa9"));
}
END_TEST

START_TEST(makes_ids_that_differ)
{
    char first[TRACE_ID_LENGTH + 1], second[TRACE_ID_LENGTH + 1];
    trace_make_id(first);
    trace_make_id(second);
    ck_assert_uint_eq(strspn(first, "0123456789abcdef"), TRACE_ID_LENGTH);
    ck_assert_uint_eq(strlen(second), TRACE_ID_LENGTH);
    ck_assert_str_ne(first, second);
    ck_assert_int_eq(memcmp(first, second, 16), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tcase = tcase_create("trace");
    tcase_add_loop_test(tcase, reads_traceparent_strictly, 0, sizeof parents / sizeof parents[0]);
    tcase_add_test(tcase, takes_visible_ids);
    tcase_add_test(tcase, makes_ids_that_differ);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
