#include "server/observe/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t cpu_ns(void)
{
    struct timespec spent;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) != 0)
        return PROCESS_UNKNOWN;
    return (uint64_t)spent.tv_sec * 1000000000u + (uint64_t)spent.tv_nsec;
}

static uint64_t max_fds(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return PROCESS_UNKNOWN;
    return limit.rlim_cur;
}

void process_raise_max_fds(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static uint64_t open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return PROCESS_UNKNOWN;
    uint64_t count = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder's own */
}

/* num_threads and rss are fields 20 and 24; the name, field 2, may hold anything, but ends with the last ')'.
 */
static void read_stat(struct process_figures *out)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL)
        return;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *fields = strrchr(text, ')');
    unsigned long threads, pages;
    if (fields == NULL ||
        sscanf(fields + 1,
               " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %*s %*s "
               "%*s %lu",
               &threads, &pages) != 2)
        return;
    out->threads = threads;
    out->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void process_read(struct process_figures *out)
{
    *out = (struct process_figures){cpu_ns(), PROCESS_UNKNOWN, PROCESS_UNKNOWN, open_fds(), max_fds()};
    read_stat(out);
}
