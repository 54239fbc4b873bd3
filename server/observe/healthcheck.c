#include "server/observe/healthcheck.h"

#include "server/net/address.h"
#include "server/net/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
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

/* A connection to the server, plain or under TLS. */
struct link {
    int fd;
    gnutls_session_t session; /* NULL: plain */
    int64_t deadline_ms;
    const char *failure; /* why it is over */
};

static bool give_up(struct link *link, const char *failure)
{
    link->failure = failure;
    return false;
}

/* Whether a call of GnuTLS that returned this is to be repeated; waits until it can go on. */
static bool try_again(struct link *link, ssize_t result)
{
    if (result != GNUTLS_E_AGAIN && result != GNUTLS_E_INTERRUPTED)
        return give_up(link, gnutls_strerror((int)result));
    short events = gnutls_record_get_direction(link->session) == 0 ? POLLIN : POLLOUT;
    return wait_for(link->fd, events, link->deadline_ms) || give_up(link, strerror(errno));
}

/* The certificate is not verified: the server is on this machine, and its name is no matter here. */
static bool shake_hands(struct link *link, gnutls_certificate_credentials_t credentials)
{
    int result = gnutls_init(&link->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (result == 0)
        result = gnutls_set_default_priority(link->session);
    if (result == 0)
        result = gnutls_credentials_set(link->session, GNUTLS_CRD_CERTIFICATE, credentials);
    if (result != 0)
        return give_up(link, gnutls_strerror(result));
    gnutls_transport_set_int(link->session, link->fd);
    while ((result = gnutls_handshake(link->session)) != 0)
        if (!try_again(link, result))
            return false;
    return true;
}

/* The request is shorter than any socket buffer, so it goes out in one piece. */
static bool send_request(struct link *link)
{
    const size_t length = sizeof REQUEST - 1;
    if (link->session != NULL) {
        ssize_t n;
        while ((n = gnutls_record_send(link->session, REQUEST, length)) < 0)
            if (!try_again(link, n))
                return false;
        return true;
    }
    return send(link->fd, REQUEST, length, MSG_NOSIGNAL) == (ssize_t)length || give_up(link, strerror(errno));
}

/* At least one byte; 0 when it is over. */
static size_t receive(struct link *link, char *bytes, size_t size)
{
    ssize_t n;
    if (link->session != NULL) {
        while ((n = gnutls_record_recv(link->session, bytes, size)) < 0)
            if (!try_again(link, n))
                return 0;
    } else if (!wait_for(link->fd, POLLIN, link->deadline_ms) || (n = recv(link->fd, bytes, size, 0)) < 0) {
        give_up(link, strerror(errno));
        return 0;
    }
    if (n == 0)
        give_up(link, strerror(ECONNRESET));
    return (size_t)n;
}

static bool exchange(struct link *link, char answer[STATUS_BYTES + 1])
{
    size_t length = 0;
    if (!send_request(link))
        return false;
    while (length < STATUS_BYTES) {
        size_t more = receive(link, answer + length, STATUS_BYTES - length);
        if (more == 0)
            return false;
        length += more;
    }
    answer[length] = '\0';
    return true;
}

static bool exchange_tls(struct link *link, char answer[STATUS_BYTES + 1])
{
    gnutls_certificate_credentials_t credentials;
    int result = gnutls_certificate_allocate_credentials(&credentials);
    if (result != 0)
        return give_up(link, gnutls_strerror(result));
    bool answered = shake_hands(link, credentials) && exchange(link, answer);
    if (link->session != NULL)
        gnutls_deinit(link->session);
    gnutls_certificate_free_credentials(credentials);
    return answered;
}

static int fail(const char *listen, const char *reason)
{
    fprintf(stderr, "samplerd: healthcheck: %s: %s\n", listen, reason);
    return 1;
}

static int ask(const struct address *address, const char *text, bool tls)
{
    struct link link = {.deadline_ms = now_ms() + HEALTHCHECK_TIMEOUT_MS};
    char answer[STATUS_BYTES + 1];
    link.fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link.fd == -1)
        return fail(text, strerror(errno));
    bool answered = connect_by(link.fd, address, link.deadline_ms) || give_up(&link, strerror(errno));
    if (answered)
        answered = tls ? exchange_tls(&link, answer) : exchange(&link, answer);
    close(link.fd);
    if (!answered)
        return fail(text, link.failure);
    if (strncmp(answer, "HTTP/1.", 7) != 0 || strcmp(answer + 8, " 200") != 0)
        return fail(text, strncmp(answer, "HTTP/1.", 7) == 0 ? answer : "the answer is not HTTP");
    return 0;
}

int healthcheck_run(const struct config *config)
{
    struct address address;
    struct error err;
    bool admin = config->admin_listen[0] != '\0', tls = !admin && tls_is_on(config);
    const char *text = admin ? config->admin_listen : config->listen;
    if (address_parse(text, &address, &err) != STATUS_OK)
        return fail(text, err.message);
    if (!address_is_unix(&address) && address_port(&address) == 0)
        return fail(text, "port 0 says nothing about where the server listens");
    if (tls && config->tls_client_ca_file[0] != '\0')
        return fail(text, "it asks for a client certificate, which a health check has not: set admin_listen");
    address_to_loopback(&address);
    return ask(&address, text, tls);
}
