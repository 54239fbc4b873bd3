#include "server/config/tokens.h"

#include "tests/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SHA-256 of "secret". */
#define SECRET_HEX "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

static struct error err;

static struct tokens *parse(const char *text)
{
    struct tokens *tokens = NULL;
    char copy[4096];
    size_t length = strlen(text);
    memcpy(copy, text, length + 1);
    enum status status = tokens_parse(copy, length, "file", &tokens, &err);
    for (size_t i = 0; i < length; i++)
        ck_assert_int_eq(copy[i], 0);
    return status == STATUS_OK ? tokens : NULL;
}

static const struct {
    const char *text;
    size_t count;
    const char *token; /* one of them */
} good[] = {
    {"secret", 1, "secret"},
    {"secret\n", 1, "secret"},
    {"secret\r\n", 1, "secret"},
    {"  secret\t\n\n", 1, "secret"},
    {"# nobody\nsecret # the notebook\n  # nobody\n", 1, "secret"},
    {"a#b\n", 1, "a#b"},
    {"one\ntwo\nthree", 3, "two"},
    {"one\none\n", 2, "one"},
    {"sha256:" SECRET_HEX, 1, "secret"},
    {"x\nsha256:2BB80D537B1DA3E38BD30361AA855686BDE0EACD7162FEF6A25FE97BF527A25B #\n", 2, "secret"},
    {"sha256:\n", 1, "sha256:"}, /* nothing follows: a plain token, if an odd one */
};

START_TEST(each_good_file)
{
    struct tokens *tokens = parse(good[_i].text);
    ck_assert_msg(tokens != NULL, "%s", err.message);
    ck_assert_uint_eq(tokens_count(tokens), good[_i].count);
    const char *token = good[_i].token;
    size_t length = strlen(token);
    ck_assert(tokens_match(tokens, token, length));
    ck_assert(!tokens_match(tokens, token, length - 1));
    ck_assert(!tokens_match(tokens, "", 0));
    ck_assert(!tokens_match(tokens, "sha256:" SECRET_HEX, strlen("sha256:" SECRET_HEX)));
    tokens_destroy(tokens);
}
END_TEST

static const struct {
    const char *text, *message;
} bad[] = {
    {"", "file has no token, so nobody could call"},
    {"\n \n# only words\n", "file has no token, so nobody could call"},
    {"one\ntwo words\n", "file:2: neither a token of visible ASCII nor sha256: and 64 hex digits"},
    {"sha256:00\n", "file:1: neither a token of visible ASCII nor sha256: and 64 hex digits"},
    {"sha256:" SECRET_HEX "0\n", "file:1: neither a token of visible ASCII nor sha256: and 64 hex digits"},
    {"sha256:gbb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n",
     "file:1: neither a token of visible ASCII nor sha256: and 64 hex digits"},
    {"s\xc3\xa9\n", "file:1: neither a token of visible ASCII nor sha256: and 64 hex digits"},
    {"\x01\n", "file:1: neither a token of visible ASCII nor sha256: and 64 hex digits"},
};

START_TEST(each_bad_file)
{
    ck_assert_ptr_null(parse(bad[_i].text));
    ck_assert_int_eq(err.status, STATUS_INVALID);
    ck_assert_str_eq(err.message, bad[_i].message);
}
END_TEST

START_TEST(a_zero_byte_is_no_token)
{
    struct tokens *tokens;
    char text[] = "a\0b\n";
    ck_assert_int_eq(tokens_parse(text, 4, "file", &tokens, &err), STATUS_INVALID);
}
END_TEST

START_TEST(files)
{
    struct tokens *tokens;
    char path[] = "/tmp/test_tokens_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, "secret\n", 7), 7);
    ck_assert_msg(tokens_load(path, &tokens, &err) == STATUS_OK, "%s", err.message);
    ck_assert_uint_eq(tokens_count(tokens), 1);
    tokens_destroy(tokens);
    ck_assert_int_eq(ftruncate(fd, (1 << 20) + 1), 0);
    ck_assert_int_eq(tokens_load(path, &tokens, &err), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "has more than 1048576 bytes"));
    close(fd);
    unlink(path);
    ck_assert_int_eq(tokens_load(path, &tokens, &err), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "No such file"));
    ck_assert_int_eq(tokens_load("/tmp", &tokens, &err), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "cannot read /tmp"));
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

int main(void)
{
    Suite *suite = suite_create("tokens");
    TCase *tc = tcase_create("tokens");
    tcase_add_loop_test(tc, each_good_file, 0, COUNT(good));
    tcase_add_loop_test(tc, each_bad_file, 0, COUNT(bad));
    tcase_add_test(tc, a_zero_byte_is_no_token);
    tcase_add_test(tc, files);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
