#ifndef SERVER_SYSTEMD_H
#define SERVER_SYSTEMD_H

#include "core/base/status.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * What systemd tells a service by environment variables, and what a service tells systemd: sd_listen_fds(3)
 * and sd_notify(3), as far as they are used here.
 */

#define SYSTEMD_FIRST_FD     3
#define SYSTEMD_MOST_SOCKETS ((size_t)16)

/*
 * How many sockets were handed over, from the values of LISTEN_PID and LISTEN_FDS (NULL when unset).
 *
 *   self  our process id: the variables of another process are none of our business
 *   out   at most SYSTEMD_MOST_SOCKETS
 *
 * Errors: STATUS_INVALID for a number that is none, and for more sockets.
 */
enum status systemd_count_sockets(const char *listen_pid, const char *listen_fds, pid_t self, size_t *out,
                                  struct error *err);

/*
 * Take the sockets that this process was given, non-blocking from now on.
 *
 *   fds    [*count] the descriptors, the caller's to close
 *   count  0 on an error
 *
 * Errors: as above, and STATUS_INVALID when a descriptor is not open.
 */
enum status systemd_take_sockets(int fds[SYSTEMD_MOST_SOCKETS], size_t *count, struct error *err);

/*
 * Send a state such as "READY=1" to NOTIFY_SOCKET, a path or, after @, an abstract name.  Nothing happens
 * without it, and a failure is only logged.  Thread-safe.
 */
void systemd_notify(const char *state);

/* The same of RELOADING=1, with the time that systemd wants beside it. */
void systemd_notify_reloading(void);

#endif
