#include "proto/kserve/kserve_region.h"

#include "tests/support.h"

static const struct {
    const char *body, *key; /* NULL: it is refused, */
    size_t offset, byte_size;
    const char *message; /* a part of it */
} cases[] = {
    {"{\"key\":\"/a\",\"offset\":8,\"byte_size\":64}", "/a", 8, 64, NULL},
    {" { \"byte_size\" : 1 , \"key\" : \"/\\u0061\" } ", "/a", 0, 1, NULL},
    {"", NULL, 0, 0, "no JSON object"},
    {"[]", NULL, 0, 0, "no JSON object"},
    {"{}", NULL, 0, 0, "key or byte_size is missing"},
    {"{\"key\":\"/a\"}", NULL, 0, 0, "key or byte_size is missing"},
    {"{\"key\":\"/a\",\"byte_size\":0}", NULL, 0, 0, "key or byte_size is missing"},
    {"{\"byte_size\":1}", NULL, 0, 0, "key or byte_size is missing"},
    {"{\"key\":7,\"byte_size\":1}", NULL, 0, 0, "not valid JSON"},
    {"{\"key\":\"/a\\u0000\",\"byte_size\":1}", NULL, 0, 0, "a string with a zero byte"},
    {"{\"key\":\"/a\",\"byte_size\":-1}", NULL, 0, 0, "a whole number is missing"},
    {"{\"key\":\"/a\",\"byte_size\":1.5}", NULL, 0, 0, "not valid JSON"},
    {"{\"key\":\"/a\",\"byte_size\":18446744073709551616}", NULL, 0, 0, "a number that is too large"},
    {"{\"key\":\"/a\",\"size\":1}", NULL, 0, 0, "key, offset and byte_size and nothing else"},
    {"{\"key\":\"/a\",\"byte_size\":1,\"key\":\"/b\"}", NULL, 0, 0, "a name comes twice"},
    {"{\"key\":\"/a\",\"byte_size\":1}{", NULL, 0, 0, "more text after the object"},
};

static enum status decode(const char *body, size_t length, char *texts, struct kserve_region *region,
                          struct error *err)
{
    char *copy = malloc(length + (length == 0)); /* of this length, so that what is read past it is noticed */
    memcpy(copy, body, length);
    enum status status = kserve_region_decode(copy, length, texts, region, err);
    free(copy);
    return status;
}

START_TEST(decodes)
{
    char texts[256];
    struct kserve_region region;
    struct error err;
    enum status status = decode(cases[_i].body, strlen(cases[_i].body), texts, &region, &err);
    if (cases[_i].key == NULL) {
        ck_assert_int_eq(status, STATUS_INVALID);
        ck_assert_msg(strstr(err.message, cases[_i].message) != NULL, "%s: %s", cases[_i].body, err.message);
        return;
    }
    ck_assert_int_eq(status, STATUS_OK);
    ck_assert_str_eq(region.key, cases[_i].key);
    ck_assert_uint_eq(region.offset, cases[_i].offset);
    ck_assert_uint_eq(region.byte_size, cases[_i].byte_size);
}
END_TEST

START_TEST(every_shorter_text_is_refused)
{
    char texts[256];
    struct kserve_region region;
    struct error err;
    for (size_t length = 0; length < strlen(cases[0].body); length++)
        ck_assert_int_eq(decode(cases[0].body, length, texts, &region, &err), STATUS_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kserve_region");
    TCase *tcase = tcase_create("registering");
    tcase_add_loop_test(tcase, decodes, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tcase, every_shorter_text_is_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
