#ifndef CORE_CPUS_H
#define CORE_CPUS_H

#include <stddef.h>

/*
 * CPUs that this process may really use: those of its affinity mask, cut down to the CPU quota of its cgroup
 * (version 2 or 1), rounded up; at least 1.
 */
size_t cpus_usable(void);

/*
 * CPUs that a quota grants, from the text of cgroup v2's cpu.max ("max 100000", "150000 100000"); 0 when it
 * sets no limit or cannot be read.
 */
size_t cpus_from_quota(const char *cpu_max);

#endif
