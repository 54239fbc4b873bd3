#include "server/observe/log.h"

#include "tests/support.h"

#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIME_MS 1796129249123 /* 2026-12-01T12:47:29.123Z */

static char line[LOG_LINE_BYTES + 1];

/* Format one event with one field; the result is in line. */
static void format_one(enum log_format format, struct log_field field)
{
    size_t length = log_line(line, format, TIME_MS, LOG_INFO, "event", &field, 1);
    ck_assert_uint_eq(length, strlen(line));
}

START_TEST(text_line)
{
    struct log_field fields[] = {log_text("address", "127.0.0.1:80"), log_int("delta", -3),
                                 log_uint("rows", 7), log_real("seconds", 0.25), log_bool("ready", true)};
    log_line(line, LOG_TEXT, TIME_MS, LOG_WARN, "listening", fields, 5);
    ck_assert_str_eq(line, "2026-12-01T12:47:29.123Z warn listening address=127.0.0.1:80 delta=-3 rows=7 "
                           "seconds=0.25 ready=true\n");
}
END_TEST

START_TEST(json_line)
{
    struct log_field fields[] = {log_text("address", "127.0.0.1:80"), log_int("delta", -3),
                                 log_uint("rows", UINT64_MAX), log_real("seconds", 0.25),
                                 log_bool("ready", false)};
    log_line(line, LOG_JSON, TIME_MS, LOG_ERROR, "shut \"down\"", fields, 5);
    ck_assert_str_eq(line, "{\"time\":\"2026-12-01T12:47:29.123Z\",\"level\":\"error\",\"event\":\"shut "
                           "\\\"down\\\"\",\"address\":\"127.0.0.1:80\",\"delta\":-3,"
                           "\"rows\":18446744073709551615,\"seconds\":0.25,\"ready\":false}\n");
}
END_TEST

START_TEST(no_fields)
{
    log_line(line, LOG_TEXT, 0, LOG_DEBUG, "start", NULL, 0);
    ck_assert_str_eq(line, "1970-01-01T00:00:00.000Z debug start\n");
}
END_TEST

static const struct {
    const char *value, *text, *json;
} values[] = {
    {"plain", "plain", "\"plain\""},
    {"", "\"\"", "\"\""},
    {NULL, "\"\"", "\"\""},
    {"two words", "\"two words\"", "\"two words\""},
    {"a=b", "\"a=b\"", "\"a=b\""},
    {"q\"q\\", "\"q\\\"q\\\\\"", "\"q\\\"q\\\\\""},
    {"a\nb\x7f", "\"a\\x0ab\\x7f\"", "\"a\\u000ab\\u007f\""},
    {"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"",
     "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
    {"\xc3", "\"\\xc3\"", "\"\\ufffd\""}, /* cut short */
    {"\xe2\x82", "\"\\xe2\\x82\"", "\"\\ufffd\\ufffd\""},
    {"\xc0\x80", "\"\\xc0\\x80\"", "\"\\ufffd\\ufffd\""}, /* overlong */
    {"\xe0\x9f\xbf", "\"\\xe0\\x9f\\xbf\"", "\"\\ufffd\\ufffd\\ufffd\""},
    {"\xed\xa0\x80", "\"\\xed\\xa0\\x80\"", "\"\\ufffd\\ufffd\\ufffd\""}, /* a surrogate */
    {"\xf4\x90\x80\x80", "\"\\xf4\\x90\\x80\\x80\"", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
    {"\xff", "\"\\xff\"", "\"\\ufffd\""},
};

START_TEST(each_value)
{
    char expected[256];
    format_one(LOG_TEXT, log_text("key", values[_i].value));
    snprintf(expected, sizeof expected, "2026-12-01T12:47:29.123Z info event key=%s\n", values[_i].text);
    ck_assert_str_eq(line, expected);
    format_one(LOG_JSON, log_text("key", values[_i].value));
    snprintf(expected, sizeof expected,
             "{\"time\":\"2026-12-01T12:47:29.123Z\",\"level\":\"info\",\"event\":\"event\",\"key\":%s}\n",
             values[_i].json);
    ck_assert_str_eq(line, expected);
}
END_TEST

START_TEST(json_has_no_infinity)
{
    format_one(LOG_JSON, log_real("x", INFINITY));
    ck_assert_ptr_nonnull(strstr(line, "\"x\":null}"));
}
END_TEST

/* A field that does not fit is left out whole, those that fit stay, and the line is still closed. */
START_TEST(long_values_are_left_out)
{
    static char long_text[3000];
    memset(long_text, 'x', sizeof long_text - 1);
    struct log_field fields[] = {log_int("first", 1), log_text("long", long_text), log_int("last", 2)};
    size_t length = log_line(line, LOG_JSON, TIME_MS, LOG_INFO, "event", fields, 3);
    ck_assert_uint_lt(length, LOG_LINE_BYTES);
    ck_assert_ptr_nonnull(strstr(line, "\"first\":1,\"last\":2,\"truncated\":true}\n"));
    log_line(line, LOG_TEXT, TIME_MS, LOG_INFO, "event", fields, 3);
    ck_assert_ptr_nonnull(strstr(line, " first=1 last=2 truncated=true\n"));
}
END_TEST

/* Every length around the limit gives a closed line. */
START_TEST(lengths_at_the_limit)
{
    static char text[LOG_LINE_BYTES + 1];
    for (size_t n = LOG_LINE_BYTES - 200; n < LOG_LINE_BYTES; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        format_one(LOG_JSON, log_text("k", text));
        ck_assert_str_eq(line + strlen(line) - 2, "}\n");
    }
}
END_TEST

/* Put a pipe in the place of stderr (each test runs in its own process); returns its reading end. */
static int capture_stderr(int flags)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, flags), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

static size_t read_all(int fd, char *bytes, size_t size)
{
    close(STDERR_FILENO);
    size_t length = 0;
    ssize_t n;
    while (length < size - 1 && (n = read(fd, bytes + length, size - 1 - length)) > 0)
        length += (size_t)n;
    bytes[length] = '\0';
    return length;
}

START_TEST(levels_below_the_least_are_dropped)
{
    char out[1024];
    int fd = capture_stderr(0);
    log_init(LOG_TEXT, LOG_WARN);
    ck_assert(!log_enabled(LOG_INFO));
    log_info("hidden", log_int("a", 1));
    log_warn("shown", log_int("a", 2), log_int("b", 3));
    log_error("bare");
    read_all(fd, out, sizeof out);
    ck_assert_ptr_null(strstr(out, "hidden"));
    ck_assert_ptr_nonnull(strstr(out, "Z warn shown a=2 b=3\n"));
    ck_assert_ptr_nonnull(strstr(out, "Z error bare\n"));
}
END_TEST

/* Nobody reads: neither SIGPIPE nor an error reaches the program. */
START_TEST(a_closed_reader_is_harmless)
{
    log_init(LOG_TEXT, LOG_DEBUG);
    close(capture_stderr(0));
    for (int i = 0; i < 10; i++)
        log_info("into the void", log_int("i", i));
}
END_TEST

/* Without log_init's care the next socket would become descriptor 2. */
START_TEST(a_closed_stderr_is_replaced)
{
    close(STDERR_FILENO);
    log_init(LOG_TEXT, LOG_DEBUG);
    log_info("into the void", log_int("i", 0));
    int fd = open("/dev/null", O_RDONLY);
    ck_assert_int_gt(fd, STDERR_FILENO);
}
END_TEST

/* A reader that stalls costs lines, not time; the next line owns up to it. */
START_TEST(a_full_pipe_drops_lines)
{
    static char out[1 << 20];
    int fd = capture_stderr(0);
    log_init(LOG_TEXT, LOG_INFO);
    for (int i = 0; i < 10000; i++)
        log_info("flood", log_int("i", i));
    ck_assert_int_gt(read(fd, out, sizeof out), 0);
    log_info("after", log_int("i", -1));
    read_all(fd, out, sizeof out);
    ck_assert_ptr_nonnull(strstr(out, "Z info after lost="));
}
END_TEST

#define WRITERS        4
#define LINES_A_WRITER 50

static void *write_lines(void *unused)
{
    (void)unused;
    for (int i = 0; i < LINES_A_WRITER; i++)
        log_info("line", log_text("text", "0123456789"));
    return NULL;
}

/* Lines of several threads never mix. */
START_TEST(lines_are_whole)
{
    static char out[1 << 16];
    int fd = capture_stderr(0);
    log_init(LOG_TEXT, LOG_INFO);
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, write_lines, NULL);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    read_all(fd, out, sizeof out);
    int lines = 0;
    for (char *l = strtok(out, "\n"); l != NULL; l = strtok(NULL, "\n"), lines++)
        ck_assert_str_eq(l + strlen("2026-12-01T12:47:29.123"), "Z info line text=0123456789");
    ck_assert_int_eq(lines, WRITERS * LINES_A_WRITER);
}
END_TEST

static TCase *formatting(void)
{
    TCase *tc = tcase_create("formatting");
    tcase_add_test(tc, text_line);
    tcase_add_test(tc, json_line);
    tcase_add_test(tc, no_fields);
    tcase_add_loop_test(tc, each_value, 0, sizeof values / sizeof values[0]);
    tcase_add_test(tc, json_has_no_infinity);
    tcase_add_test(tc, long_values_are_left_out);
    tcase_add_test(tc, lengths_at_the_limit);
    return tc;
}

static TCase *writing(void)
{
    TCase *tc = tcase_create("writing");
    tcase_add_test(tc, levels_below_the_least_are_dropped);
    tcase_add_test(tc, a_closed_reader_is_harmless);
    tcase_add_test(tc, a_closed_stderr_is_replaced);
    tcase_add_test(tc, a_full_pipe_drops_lines);
    tcase_add_test(tc, lines_are_whole);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("log");
    suite_add_tcase(suite, formatting());
    suite_add_tcase(suite, writing());
    return run_suite(suite);
}
