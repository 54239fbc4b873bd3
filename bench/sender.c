/*
 * Send one request again and again, over TCP or a unix socket, which wrk has not: each connection sends its
 * next when the last is answered.  Ends with the line of results that post.lua has.
 *
 *   sender HOST:PORT|unix:PATH CONNECTIONS SECONDS FILE    FILE is the whole request, head and body
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MOST_CONNECTIONS 1024
#define ANSWER_BYTES     4096 /* the longest answer, head and body */

struct request {
    char *bytes;
    size_t length;
};

struct connection {
    int fd;
    uint64_t since_ns;
    size_t sent;
    bool blocked; /* the socket takes no more */
    char answer[ANSWER_BYTES];
    size_t received;
};

/* What came back. */
struct tally {
    float *took_ms; /* [count] */
    size_t count, room;
    size_t refused; /* not answered 200 */
};

static void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "sender: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(EXIT_FAILURE);
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        fail("cannot allocate %zu bytes", bytes);
    return memory;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct request read_request(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail("cannot read %s", path);
    struct request request = {.length = (size_t)ftell(file)};
    rewind(file);
    request.bytes = allocate(request.length);
    if (fread(request.bytes, 1, request.length, file) != request.length)
        fail("cannot read %s", path);
    fclose(file);
    return request;
}

static int dial_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("cannot connect to %s: %s", path, strerror(errno));
    return fd;
}

static int dial_tcp(const char *text)
{
    char host[64];
    unsigned port;
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2 || inet_pton(AF_INET, host, &address.sin_addr) != 1)
        fail("%s is no address", text);
    address.sin_port = htons((uint16_t)port);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("cannot connect to %s: %s", text, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int dial(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 ? dial_unix(address + 5) : dial_tcp(address);
}

/* Send what the socket takes, and be woken when it takes more. */
static void push(int epoll, struct connection *c, const struct request *request)
{
    bool blocked = false;
    while (c->sent < request->length && !blocked) {
        ssize_t n =
            send(c->fd, request->bytes + c->sent, request->length - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            fail("a connection was lost: %s", strerror(errno));
        blocked = n < 0;
        c->sent += blocked ? 0 : (size_t)n;
    }
    if (blocked != c->blocked) {
        struct epoll_event event = {.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
        c->blocked = blocked;
    }
}

static void begin(int epoll, struct connection *c, const struct request *request)
{
    c->since_ns = now_ns();
    c->sent = c->received = 0;
    push(epoll, c, request);
}

/* Bytes of an answer by its head; 0 while that is not there. */
static size_t answer_length(struct connection *c)
{
    c->answer[c->received] = '\0';
    const char *end = strstr(c->answer, "\r\n\r\n"), *length = strcasestr(c->answer, "\r\nContent-Length:");
    if (end == NULL)
        return 0;
    if (length == NULL || length > end)
        fail("an answer without Content-Length");
    return (size_t)(end + 4 - c->answer) + strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
}

static void note(struct tally *tally, const struct connection *c)
{
    if (tally->count == tally->room) {
        tally->room = 2 * tally->room + 1024;
        tally->took_ms = realloc(tally->took_ms, tally->room * sizeof *tally->took_ms);
        if (tally->took_ms == NULL)
            fail("no memory");
    }
    tally->took_ms[tally->count++] = (float)(now_ns() - c->since_ns) / 1e6f;
    tally->refused += strncmp(c->answer, "HTTP/1.1 200 ", 13) != 0;
}

/* Take what has come; returns whether the answer is whole. */
static bool pull(struct connection *c, struct tally *tally)
{
    ssize_t n = recv(c->fd, c->answer + c->received, ANSWER_BYTES - 1 - c->received, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0)
        fail("a connection was closed, or an answer is longer than %d bytes", ANSWER_BYTES);
    c->received += (size_t)n;
    size_t length = answer_length(c);
    if (length == 0 || c->received < length)
        return false;
    note(tally, c);
    return true;
}

static int compare(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static void report(struct tally *tally, double seconds)
{
    if (tally->count == 0)
        fail("nothing was answered");
    qsort(tally->took_ms, tally->count, sizeof *tally->took_ms, compare);
    printf("%zu requests in %.3f s: %.1f a second, p50 %.3f ms, p99 %.3f ms, %zu not answered 200, 0 socket "
           "errors\n",
           tally->count, seconds, (double)tally->count / seconds, tally->took_ms[tally->count / 2],
           tally->took_ms[tally->count * 99 / 100], tally->refused);
}

static void run(struct connection *connections, size_t count, const struct request *request, double seconds)
{
    int epoll = epoll_create1(0);
    struct tally tally = {0};
    uint64_t start_ns = now_ns(), end_ns = start_ns + (uint64_t)(seconds * 1e9);
    for (size_t i = 0; i < count; i++) {
        epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].fd,
                  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &connections[i]});
        begin(epoll, &connections[i], request);
    }
    while (now_ns() < end_ns) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, 100);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if ((events[i].events & EPOLLOUT) != 0)
                push(epoll, c, request);
            if ((events[i].events & ~(unsigned)EPOLLOUT) != 0 && pull(c, &tally))
                begin(epoll, c, request);
        }
    }
    report(&tally, (double)(now_ns() - start_ns) / 1e9);
}

int main(int argc, char **argv)
{
    size_t count = argc == 5 ? strtoul(argv[2], NULL, 10) : 0;
    double seconds = argc == 5 ? strtod(argv[3], NULL) : 0;
    if (count < 1 || count > MOST_CONNECTIONS || !(seconds > 0)) {
        fprintf(stderr, "usage: sender HOST:PORT|unix:PATH CONNECTIONS SECONDS FILE\n");
        return EXIT_FAILURE;
    }
    struct request request = read_request(argv[4]);
    struct connection *connections = allocate(count * sizeof *connections);
    for (size_t i = 0; i < count; i++)
        connections[i].fd = dial(argv[1]);
    run(connections, count, &request, seconds);
    return EXIT_SUCCESS;
}
