#include "server/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIX_PREFIX  "unix:"
#define UNIX_BYTES   (sizeof((struct sockaddr_un *)NULL)->sun_path - 1) /* the last one holds the NUL */
#define HOST_BYTES   256                                                /* a DNS name has at most 253 */
#define HIGHEST_PORT 65535u

static const char *path_of(const struct address *address)
{
    return ((const struct sockaddr_un *)&address->storage)->sun_path;
}

/* Write address->text from the rest of it. */
static void format(struct address *address)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (address_is_unix(address)) {
        bool abstract = address_is_abstract(address);
        snprintf(address->text, sizeof address->text, UNIX_PREFIX "%s%.*s", abstract ? "@" : "",
                 (int)UNIX_BYTES, path_of(address) + abstract);
        return;
    }
    const struct sockaddr *any = (const struct sockaddr *)&address->storage;
    if (getnameinfo(any, address->length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(address->text, sizeof address->text, "unknown");
        return;
    }
    bool v6 = address->storage.ss_family == AF_INET6;
    snprintf(address->text, sizeof address->text, v6 ? "[%.80s]:%.5s" : "%.80s:%.5s", host, port);
}

/* A path ends with a NUL; an abstract name begins with one, and has no end but its length. */
static enum status parse_unix(const char *path, struct address *out, struct error *err)
{
    bool abstract = path[0] == '@';
    const char *name = path + abstract, *kind = abstract ? "name" : "path";
    size_t length = strlen(name);
    if (length == 0)
        return error_set(err, STATUS_INVALID, "out_of_range", "the %s after unix:%s is empty", kind,
                         abstract ? "@" : "");
    if (length > UNIX_BYTES)
        return error_set(err, STATUS_INVALID, "out_of_range",
                         "the socket %s has %zu bytes; the system allows %zu", kind, length, UNIX_BYTES);
    struct sockaddr_un *un = (struct sockaddr_un *)&out->storage;
    un->sun_family = AF_UNIX;
    out->mode = ADDRESS_UNIX_MODE;
    memcpy(un->sun_path + abstract, name, length);
    out->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    format(out);
    return STATUS_OK;
}

static bool is_port(const char *text)
{
    unsigned port = 0;
    for (const char *s = text; *s != '\0'; s++) {
        if (*s < '0' || *s > '9')
            return false;
        port = port * 10 + (unsigned)(*s - '0');
        if (port > HIGHEST_PORT)
            return false;
    }
    return *text != '\0';
}

/* Split "host:port" or "[host]:port" at the last colon; *port points into text. */
static enum status split(const char *text, char host[HOST_BYTES], const char **port, struct error *err)
{
    const char *colon = strrchr(text, ':');
    const char *start = text, *end = colon;
    if (colon == NULL || (text[0] == '[' && (colon == text || colon[-1] != ']')))
        return error_set(err, STATUS_INVALID, "out_of_range", "it has no port; write " ADDRESS_FORMS);
    if (text[0] == '[') {
        start++;
        end--;
    } else if (memchr(start, ':', (size_t)(end - start)) != NULL)
        return error_set(err, STATUS_INVALID, "out_of_range", "an IPv6 address needs brackets: [::1]:8090");
    if (start >= end)
        return error_set(err, STATUS_INVALID, "out_of_range",
                         "the host is empty; 0.0.0.0 or [::] stands for every address");
    if ((size_t)(end - start) >= HOST_BYTES)
        return error_set(err, STATUS_INVALID, "out_of_range", "the host has more than %d bytes",
                         HOST_BYTES - 1);
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    *port = colon + 1;
    return STATUS_OK;
}

static int look_up(const char *host, const char *port, int family, int flags, struct address *out)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    hints.ai_flags = AI_NUMERICSERV | flags;
    int failure = getaddrinfo(host, port, &hints, &found);
    if (failure != 0)
        return failure;
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->length = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

enum status address_parse(const char *text, struct address *out, struct error *err)
{
    char host[HOST_BYTES];
    const char *port = "";
    memset(out, 0, sizeof *out);
    if (strncmp(text, UNIX_PREFIX, sizeof UNIX_PREFIX - 1) == 0)
        return parse_unix(text + sizeof UNIX_PREFIX - 1, out, err);
    if (split(text, host, &port, err) != STATUS_OK)
        return err->status;
    if (!is_port(port))
        return error_set(err, STATUS_INVALID, "out_of_range", "the port must be from 0 to %u", HIGHEST_PORT);
    int failure;
    if (text[0] == '[')
        failure = look_up(host, port, AF_INET6, AI_NUMERICHOST, out);
    else if ((failure = look_up(host, port, AF_INET, 0, out)) != 0)
        failure = look_up(host, port, AF_INET6, 0, out);
    if (failure != 0)
        return error_set(err, STATUS_INVALID, "out_of_range", "%.100s: %s", host, gai_strerror(failure));
    format(out);
    return STATUS_OK;
}

unsigned address_port(const struct address *address)
{
    if (address->storage.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&address->storage)->sin_port);
    if (address->storage.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address->storage)->sin6_port);
    return 0;
}

bool address_is_unix(const struct address *address)
{
    return address->storage.ss_family == AF_UNIX;
}

bool address_is_abstract(const struct address *address)
{
    return address_is_unix(address) && address->length > offsetof(struct sockaddr_un, sun_path) &&
           path_of(address)[0] == '\0';
}

/* Whether it is a unix socket with a file. */
static bool has_file(const struct address *address)
{
    return address_is_unix(address) && !address_is_abstract(address);
}

bool address_is_local(const struct address *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->storage;
    if (address->storage.ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    if (address->storage.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
    return address_is_unix(address);
}

enum status address_of_socket(int fd, struct address *out, struct error *err)
{
    int type = 0, listening = 0;
    socklen_t type_size = sizeof type, listening_size = sizeof listening;
    memset(out, 0, sizeof *out);
    out->length = sizeof out->storage;
    if (getsockname(fd, (struct sockaddr *)&out->storage, &out->length) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_size) != 0)
        return error_set(err, STATUS_INVALID, "no_socket", "descriptor %d is no socket: %s", fd,
                         strerror(errno));
    int family = out->storage.ss_family;
    if (type != SOCK_STREAM || !listening || (family != AF_INET && family != AF_INET6 && family != AF_UNIX))
        return error_set(err, STATUS_INVALID, "no_socket",
                         "descriptor %d is no stream socket that listens on TCP or a unix address", fd);
    format(out);
    return STATUS_OK;
}

/* A socket file that refuses connections was left behind by a process that is gone. */
static void remove_stale_file(const struct address *address)
{
    const char *path = path_of(address);
    struct stat file;
    if (stat(path, &file) != 0 || !S_ISSOCK(file.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return;
    if (connect(fd, (const struct sockaddr *)&address->storage, address->length) != 0 &&
        errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

/* Nobody can connect before listen(), so the file has its mode in time. */
static bool set_mode(const struct address *address)
{
    return !has_file(address) || chmod(path_of(address), (mode_t)address->mode) == 0;
}

static bool bind_and_listen(int fd, struct address *address)
{
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart need not wait for TIME_WAIT */
    if (bind(fd, (const struct sockaddr *)&address->storage, address->length) != 0 || !set_mode(address) ||
        listen(fd, SOMAXCONN) != 0)
        return false;
    address->length = sizeof address->storage;
    return getsockname(fd, (struct sockaddr *)&address->storage, &address->length) == 0;
}

enum status address_listen(struct address *address, int *out, struct error *err)
{
    if (has_file(address))
        remove_stale_file(address);
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1 || !bind_and_listen(fd, address)) {
        error_set(err, STATUS_INVALID, "cannot_listen", "cannot listen on %s: %s", address->text,
                  strerror(errno));
        if (fd != -1)
            close(fd);
        return err->status;
    }
    format(address);
    *out = fd;
    return STATUS_OK;
}

void address_cleanup(const struct address *address)
{
    if (has_file(address))
        unlink(path_of(address));
}

void address_to_loopback(struct address *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address->storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address->storage;
    if (address->storage.ss_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY))
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (address->storage.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
        v6->sin6_addr = in6addr_loopback;
    format(address);
}
