#include "server/net/preview.h"

#include "tests/support.h"

#include <sys/mman.h>
#include <unistd.h>

#define LIMIT 1000

/*
 * What libmicrohttpd has parsed of a request when it calls: the target and its version cut out by zeros, and
 * the header as it came, at the end of the last page that may be read.
 */
static char *pages;
static size_t page_bytes;

static void map_pages(void)
{
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + page_bytes, page_bytes, PROT_NONE), 0);
}

static void unmap_pages(void)
{
    munmap(pages, 2 * page_bytes);
}

/* With `behind` bytes of zeros, where more may come. */
static enum status judge(const char *target, const char *header, size_t behind, struct error *err)
{
    static const char version[] = "HTTP/1.1\0"; /* and one zero more */
    size_t lengths[3] = {strlen(target) + 1, sizeof version, strlen(header)};
    char *at = pages + page_bytes - behind - lengths[0] - lengths[1] - lengths[2];
    memset(pages, 0, page_bytes);
    memcpy(at, target, lengths[0]);
    memcpy(at + lengths[0], version, lengths[1]);
    memcpy(at + lengths[0] + lengths[1], header, lengths[2]);
    return preview_judge(at, LIMIT, err);
}

#define HOST "Host: x\r\n"

static const struct {
    const char *header;
    enum status status;
} headers[] = {
    {"", STATUS_OK},
    {"\r\n", STATUS_OK},
    {HOST "\r\n", STATUS_OK},
    {HOST "Content-Length: 5\r\n\r\nabcde", STATUS_OK},
    {HOST "content-length:5\r\n\r\nabcde", STATUS_OK},
    {HOST "Content-Length: \t 18446744073709551615\r\n\r\n", STATUS_OK},
    {HOST "Content-Length: 00000000000000000000000000005\r\n\r\n", STATUS_OK},
    {HOST "Content-Length: 18446744073709551616\r\n\r\n", STATUS_TOO_LARGE},
    {HOST "Content-Length: 99999999999999999999999999999999999999999999999999999999999999999999999999\r\n",
     STATUS_TOO_LARGE},
    {HOST "CONTENT-LENGTH: +5\r\n\r\n", STATUS_INVALID},
    {HOST "Content-Length: 5 \r\n\r\n", STATUS_INVALID},
    {HOST "Content-Length:\r\n\r\n", STATUS_INVALID},
    {HOST "Content-Length: 0x5\n\n", STATUS_INVALID},
    {HOST "Content-Lengths: many\r\n\r\n", STATUS_OK},
    {HOST "Content-Length : 0x5\r\n\r\n", STATUS_OK}, /* refused elsewhere */
    {"abc\r\n\r\n", STATUS_INVALID},
    {HOST "abc\r\n", STATUS_INVALID},
    {HOST "abc\n", STATUS_INVALID},
    {HOST " abc\r\n\tabc\r\n\r\n", STATUS_OK}, /* folded */
    {HOST "abc", STATUS_OK},                   /* the rest of the line is to come */
    {HOST "Content-Length: 0x5", STATUS_OK},
    {HOST "\r\nabc\r\nContent-Length: 0x5\r\n", STATUS_OK}, /* the body */
};

START_TEST(header)
{
    struct error err;
    for (size_t behind = 0; behind < 3; behind++) {
        enum status status = judge("/sample", headers[_i].header, behind, &err);
        ck_assert_msg(status == headers[_i].status, "%s: %d", headers[_i].header, status);
    }
}
END_TEST

/* Any part of a header that is good may have come. */
START_TEST(part_of_a_header)
{
    static const char whole[] = HOST "Content-Length: 123\r\nAccept: */*\r\n\r\n";
    char part[sizeof whole];
    struct error err;
    for (size_t length = 0; length < sizeof whole; length++) {
        snprintf(part, length + 1, "%s", whole);
        ck_assert_msg(judge("/sample", part, length % 2, &err) == STATUS_OK, "%zu: %s", length, err.message);
    }
}
END_TEST

START_TEST(fields_of_a_query)
{
    char target[2 * PREVIEW_QUERY_FIELDS + 16] = "/sample?a";
    struct error err;
    for (size_t i = 1; i < PREVIEW_QUERY_FIELDS; i++)
        strcat(target, "&a");
    ck_assert_int_eq(judge(target, HOST "\r\n", 0, &err), STATUS_OK);
    strcat(target, "&a");
    ck_assert_int_eq(judge(target, HOST "\r\n", 0, &err), STATUS_TOO_LARGE);
    ck_assert_ptr_ne(strstr(err.message, "257"), NULL);
    ck_assert_int_eq(judge("/a&a", HOST "\r\n", 0, &err), STATUS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("preview");
    TCase *tcase = tcase_create("header");
    tcase_add_checked_fixture(tcase, map_pages, unmap_pages);
    tcase_add_loop_test(tcase, header, 0, sizeof headers / sizeof headers[0]);
    tcase_add_test(tcase, part_of_a_header);
    tcase_add_test(tcase, fields_of_a_query);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
