#ifndef SERVER_SOCKETS_H
#define SERVER_SOCKETS_H

#include "server/config/config.h"
#include "server/net/address.h"

/* The sockets that are served. */
struct sockets {
    struct address main, admin; /* where they really listen; admin only if there is one */
    int main_fd;
    int admin_fd;     /* -1: none */
    bool handed_over; /* main_fd came from systemd, and its address with it */
    bool withdrawn;   /* nobody new can connect to main */
};

/*
 * Open what the configuration names; a socket handed over by systemd takes the place of `listen`.  Both
 * descriptors are the caller's to close.
 * Errors: STATUS_INVALID, also where access_check_address() forbids the address; nothing is then left open.
 */
enum status sockets_open(const struct config *config, struct sockets *out, struct error *err);

/*
 * Let nobody else connect to main, as long as its descriptor is open; who has begun to can still be accepted.
 * One that is handed over stays as it is: systemd keeps it for whoever comes next.
 */
void sockets_withdraw(struct sockets *sockets);

/* Close the descriptors, for who has not given them away. */
void sockets_close(const struct sockets *sockets);

/* Remove the files that sockets_open() made. */
void sockets_cleanup(const struct sockets *sockets);

#endif
