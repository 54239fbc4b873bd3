#include "server/config/systemd.h"

#include "server/observe/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A decimal number that fits an int, and nothing else. */
static bool read_number(const char *text, long *number)
{
    char *end;
    errno = 0;
    *number = strtol(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

enum status systemd_count_sockets(const char *listen_pid, const char *listen_fds, pid_t self, size_t *out,
                                  struct error *err)
{
    long pid, count;
    *out = 0;
    if (listen_pid == NULL || listen_fds == NULL)
        return STATUS_OK;
    if (!read_number(listen_pid, &pid))
        return error_set(err, STATUS_INVALID, "wrong_type",
                         "LISTEN_PID is \"%.40s\"; it must be a process id", listen_pid);
    if (pid != (long)self)
        return STATUS_OK;
    if (!read_number(listen_fds, &count) || (size_t)count > SYSTEMD_MOST_SOCKETS)
        return error_set(err, STATUS_INVALID, "out_of_range",
                         "LISTEN_FDS is \"%.40s\"; it must be from 0 to %zu sockets", listen_fds,
                         SYSTEMD_MOST_SOCKETS);
    *out = (size_t)count;
    return STATUS_OK;
}

enum status systemd_take_sockets(int fds[SYSTEMD_MOST_SOCKETS], size_t *count, struct error *err)
{
    size_t given;
    *count = 0;
    if (systemd_count_sockets(getenv("LISTEN_PID"), getenv("LISTEN_FDS"), getpid(), &given, err) != STATUS_OK)
        return err->status;
    for (size_t i = 0; i < given; i++) {
        int fd = SYSTEMD_FIRST_FD + (int)i, flags = fcntl(fd, F_GETFL);
        if (flags == -1 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1 ||
            fcntl(fd, F_SETFD, FD_CLOEXEC) == -1)
            return error_set(err, STATUS_INVALID, "no_socket", "LISTEN_FDS is %zu, but descriptor %d: %s",
                             given, fd, strerror(errno));
        fds[i] = fd;
    }
    *count = given;
    return STATUS_OK;
}

static bool send_state(const char *path, const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    errno = EINVAL;
    if ((path[0] != '/' && path[0] != '@') || length >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') /* an abstract name begins with a zero byte and has no end but its length */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return false;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    int reason = errno;
    close(fd);
    errno = reason;
    return sent == (ssize_t)strlen(state);
}

void systemd_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (path != NULL && path[0] != '\0' && !send_state(path, state))
        log_warn("systemd was not told", log_text("state", state), log_text("reason", strerror(errno)));
}

void systemd_notify_reloading(void)
{
    struct timespec now;
    char state[64];
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
             (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    systemd_notify(state);
}
