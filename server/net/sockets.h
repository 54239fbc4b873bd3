#ifndef SERVER_SOCKETS_H
#define SERVER_SOCKETS_H

#include "server/config/config.h"
#include "server/config/systemd.h"
#include "server/net/address.h"

/* The sockets that are served. */
struct sockets {
    struct address main[SYSTEMD_MOST_SOCKETS]; /* [num_main] where they really listen */
    int main_fds[SYSTEMD_MOST_SOCKETS];
    size_t num_main;
    struct address admin; /* the same of admin_listen, */
    int admin_fd;         /* unless this is -1: none */
    bool handed_over;     /* main_fds came from systemd, and their addresses with them */
    bool withdrawn;       /* nobody new can connect to main */
};

/*
 * Open what the configuration names; sockets handed over by systemd, all of them, take the place of `listen`.
 * The descriptors are the caller's to close.
 * Errors: STATUS_INVALID, also where access_check_address() forbids an address; nothing is then left open.
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
