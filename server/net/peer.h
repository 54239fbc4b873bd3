#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the kernel knows of the other end of a connected socket, without reading from it.
 */

/* Bytes that have come and are not read yet. */
size_t peer_unread(int fd);

/* Bytes that have come since the connection began, read or not; 0 where nobody counts them (unix sockets). */
uint64_t peer_received(int fd);

/* Whether it sends no more, and all that it sent is read. */
bool peer_has_left(int fd);

#endif
