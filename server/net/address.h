#ifndef SERVER_ADDRESS_H
#define SERVER_ADDRESS_H

#include "core/base/status.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ADDRESS_FORMS "HOST:PORT, [IPv6]:PORT, unix:PATH or unix:@NAME"

/* Room for any printable form: unix: and a path, or a scoped IPv6 address and a port. */
#define ADDRESS_TEXT_BYTES (sizeof "unix:" + sizeof((struct sockaddr_un *)NULL)->sun_path)

#define ADDRESS_UNIX_MODE 0660u /* what address_parse() says */

/* Where to listen or connect, as bind(2) and connect(2) take it. */
struct address {
    struct sockaddr_storage storage; /* AF_INET, AF_INET6 or AF_UNIX */
    socklen_t length;
    unsigned mode;                 /* of a unix socket's file, once address_listen() makes it */
    char text[ADDRESS_TEXT_BYTES]; /* printable, numeric; address_parse() reads it back: "[::1]:8090" */
};

/*
 * Read "127.0.0.1:8090", "[::1]:8090", "localhost:8090", "unix:/run/samplerd.sock" or "unix:@samplerd".
 *
 * What follows unix:@ is a name without a file, of the abstract namespace of Linux; unix(7).
 * A name is looked up (IPv4 first), which may wait for a name server.  Port 0 is any free port.
 * Errors: STATUS_INVALID naming the part at fault; out is then undefined.  Thread-safe.
 */
enum status address_parse(const char *text, struct address *out, struct error *err);

/* The port in host order; 0 for a unix socket. */
unsigned address_port(const struct address *address);

bool address_is_unix(const struct address *address);

/* Whether it is a unix socket without a file. */
bool address_is_abstract(const struct address *address);

/* Whether none but this machine can reach it: a unix socket or a loopback address. */
bool address_is_local(const struct address *address);

/* Where a socket that listens already does so.  Errors: STATUS_INVALID if it does not, or is no stream. */
enum status address_of_socket(int fd, struct address *out, struct error *err);

/*
 * Open a non-blocking socket that listens there.
 *
 *   address  in: where; out: where it really listens (port 0 becomes the port that was given)
 *   out      the descriptor, the caller's to close
 *
 * A socket file that nobody serves any more is replaced; one that is served is not.
 * Errors: STATUS_INVALID with the system's reason.
 */
enum status address_listen(struct address *address, int *out, struct error *err);

/* Remove the file of a unix socket that address_listen() made; nothing for others. */
void address_cleanup(const struct address *address);

/* Turn a listener's wildcard (0.0.0.0 or ::) into the loopback address a local client can reach. */
void address_to_loopback(struct address *address);

#endif
