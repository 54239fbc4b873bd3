#include "server/config/systemd.h"

#include "tests/support.h"

#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct error err;

static const struct {
    const char *pid, *fds;
    int count; /* -1: refused */
} handed[] = {
    {NULL, NULL, 0}, {"7", NULL, 0},  {NULL, "1", 0},
    {"7", "1", 1},   {"7", "0", 0},   {"8", "1", 0},
    {"8", "x", 0},   {"7", "2", 2},   {"7", "x", -1},
    {"7", "", -1},   {"7", "-1", -1}, {"7", "1 ", -1},
    {"", "1", -1},   {"x", "1", -1},  {"7x", "1", -1},
    {" 7", "1", -1}, {"-7", "1", -1}, {"7", "99999999999999999999", -1},
    {"7", "16", 16}, {"7", "17", -1},
};

START_TEST(each_pair_of_variables)
{
    size_t count = 99;
    enum status status = systemd_count_sockets(handed[_i].pid, handed[_i].fds, 7, &count, &err);
    ck_assert_int_eq(status, handed[_i].count == -1 ? STATUS_INVALID : STATUS_OK);
    if (status == STATUS_OK)
        ck_assert_uint_eq(count, (size_t)handed[_i].count);
}
END_TEST

/* Descriptors 3 and, in one of two runs, 4 are missing. */
START_TEST(a_socket_that_is_not_there)
{
    int fds[SYSTEMD_MOST_SOCKETS];
    size_t count = 99;
    char pid[16], message[80];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    unsetenv("LISTEN_PID");
    ck_assert_int_eq(systemd_take_sockets(fds, &count, &err), STATUS_OK);
    ck_assert_uint_eq(count, 0);
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "2", 1);
    close(SYSTEMD_FIRST_FD);
    close(SYSTEMD_FIRST_FD + 1);
    if (_i == 1)
        ck_assert_int_eq(open("/dev/null", O_RDONLY), SYSTEMD_FIRST_FD);
    ck_assert_int_eq(systemd_take_sockets(fds, &count, &err), STATUS_INVALID);
    ck_assert_uint_eq(count, 0);
    snprintf(message, sizeof message, "LISTEN_FDS is 2, but descriptor %d: Bad file descriptor", 3 + _i);
    ck_assert_str_eq(err.message, message);
}
END_TEST

/* A datagram socket at a path, or at an abstract name where path begins with '@'. */
static int receiver(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

START_TEST(states_arrive)
{
    char path[64], state[64] = "";
    snprintf(path, sizeof path, "%ctmp/test_systemd.%d", _i == 0 ? '/' : '@', (int)getpid());
    int fd = receiver(path);
    setenv("NOTIFY_SOCKET", path, 1);
    systemd_notify("READY=1");
    ck_assert_int_eq(recv(fd, state, sizeof state - 1, MSG_DONTWAIT), 7);
    ck_assert_str_eq(state, "READY=1");
    systemd_notify_reloading();
    ck_assert_int_gt(recv(fd, state, sizeof state - 1, MSG_DONTWAIT), 0);
    ck_assert_int_eq(strncmp(state, "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
    close(fd);
    unlink(path);
}
END_TEST

/* Neither of them may do more than write a line to the log. */
START_TEST(nobody_listens)
{
    static const char *const paths[] = {"", "relative", "/nowhere/socket", "@nobody", "vsock:2:3"};
    char long_path[256];
    memset(long_path, 'x', sizeof long_path);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        setenv("NOTIFY_SOCKET", paths[i], 1);
        systemd_notify("READY=1");
    }
    setenv("NOTIFY_SOCKET", long_path, 1);
    systemd_notify("READY=1");
    unsetenv("NOTIFY_SOCKET");
    systemd_notify("READY=1");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("systemd");
    TCase *tc = tcase_create("systemd");
    tcase_add_loop_test(tc, each_pair_of_variables, 0, sizeof handed / sizeof handed[0]);
    tcase_add_loop_test(tc, a_socket_that_is_not_there, 0, 2);
    tcase_add_loop_test(tc, states_arrive, 0, 2);
    tcase_add_test(tc, nobody_listens);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
