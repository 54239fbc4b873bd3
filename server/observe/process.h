#ifndef SERVER_PROCESS_H
#define SERVER_PROCESS_H

#include <stdint.h>

#define PROCESS_UNKNOWN UINT64_MAX

/* What the operating system says of this process; PROCESS_UNKNOWN where it does not. */
struct process_figures {
    uint64_t cpu_ns; /* of all threads, user and system */
    uint64_t resident_bytes;
    uint64_t threads;
    uint64_t open_fds;
    uint64_t max_fds;
};

/* Raise the limit of open files as far as this user may. */
void process_raise_max_fds(void);

/* Thread-safe.  Source: proc(5), /proc/self/stat. */
void process_read(struct process_figures *out);

#endif
