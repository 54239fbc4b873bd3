#include "server/healthcheck.h"

#include "server/address.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REQUEST      "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
#define STATUS_BYTES (sizeof "HTTP/1.1 200" - 1) /* all that is read of the answer */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait for the socket; false, with errno, once the deadline is past. */
static bool wait_for(int fd, short events, int64_t deadline_ms)
{
    struct pollfd poller = {.fd = fd, .events = events};
    int64_t left;
    while ((left = deadline_ms - now_ms()) > 0) {
        int ready = poll(&poller, 1, (int)left);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
    errno = ETIMEDOUT;
    return false;
}

static bool connect_by(int fd, const struct address *address, int64_t deadline_ms)
{
    if (connect(fd, (const struct sockaddr *)&address->storage, address->length) == 0)
        return true;
    if (errno != EINPROGRESS || !wait_for(fd, POLLOUT, deadline_ms))
        return false;
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        return false;
    errno = failure;
    return failure == 0;
}

/* The request is shorter than any socket buffer, so it goes out in one piece. */
static bool exchange(int fd, char answer[STATUS_BYTES + 1], int64_t deadline_ms)
{
    size_t length = 0;
    if (send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL) != (ssize_t)(sizeof REQUEST - 1))
        return false;
    while (length < STATUS_BYTES) {
        if (!wait_for(fd, POLLIN, deadline_ms))
            return false;
        ssize_t n = recv(fd, answer + length, STATUS_BYTES - length, 0);
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            return false;
        length += (size_t)n;
    }
    answer[length] = '\0';
    return true;
}

static int fail(const char *listen, const char *reason)
{
    fprintf(stderr, "samplerd: healthcheck: %s: %s\n", listen, reason);
    return 1;
}

int healthcheck_run(const struct config *config)
{
    struct address address;
    struct error err;
    if (address_parse(config->listen, &address, &err) != STATUS_OK)
        return fail(config->listen, err.message);
    if (!address_is_unix(&address) && address_port(&address) == 0)
        return fail(config->listen, "port 0 says nothing about where the server listens");
    address_to_loopback(&address);
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return fail(config->listen, strerror(errno));
    char answer[STATUS_BYTES + 1];
    int64_t deadline_ms = now_ms() + HEALTHCHECK_TIMEOUT_MS;
    bool answered = connect_by(fd, &address, deadline_ms) && exchange(fd, answer, deadline_ms);
    int reason = errno;
    close(fd);
    if (!answered)
        return fail(config->listen, strerror(reason));
    if (strncmp(answer, "HTTP/1.", 7) != 0 || strcmp(answer + 8, " 200") != 0)
        return fail(config->listen, strncmp(answer, "HTTP/1.", 7) == 0 ? answer : "the answer is not HTTP");
    return 0;
}
