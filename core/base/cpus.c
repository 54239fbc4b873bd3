#include "core/base/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t cpus_from_quota(const char *cpu_max)
{
    long long quota, period;
    if (sscanf(cpu_max, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
        return 0;
    return (size_t)((quota + period - 1) / period);
}

static int read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size_t length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
    return length > 0;
}

/* The path of this process below a hierarchy's root, from its line in /proc/self/cgroup; "" when it has none.
 */
static void own_cgroup(const char *text, const char *tag, char *path, size_t size)
{
    path[0] = '\0';
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t length = end == NULL ? strlen(line) : (size_t)(end - line);
        const char *controllers = memchr(line, ':', length);
        if (controllers != NULL && strncmp(controllers, tag, strlen(tag)) == 0)
            snprintf(path, size, "%.*s", (int)(length - (size_t)(controllers - line) - strlen(tag)),
                     controllers + strlen(tag));
        line = end == NULL ? NULL : end + 1;
    }
}

/* The tightest quota from one cgroup up to the root of version 2's tree. */
static size_t quota_v2(const char *text)
{
    char path[512], file[600], value[64];
    size_t tightest = 0;
    own_cgroup(text, "::", path, sizeof path);
    for (;;) {
        snprintf(file, sizeof file, "/sys/fs/cgroup%s/cpu.max", path);
        size_t cpus = read_text(file, value, sizeof value) ? cpus_from_quota(value) : 0;
        if (cpus > 0 && (tightest == 0 || cpus < tightest))
            tightest = cpus;
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return tightest;
        *slash = '\0';
    }
}

static size_t quota_v1(void)
{
    char quota[32], period[32], both[80];
    if (!read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return 0;
    quota[strcspn(quota, "\n")] = '\0';
    snprintf(both, sizeof both, "%s %s", quota, period);
    return cpus_from_quota(both);
}

size_t cpus_usable(void)
{
    cpu_set_t set;
    size_t cpus = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cpus = (size_t)CPU_COUNT(&set);
    else if (sysconf(_SC_NPROCESSORS_ONLN) > 0) /* more CPUs than the set can hold */
        cpus = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    char text[4096];
    size_t quota = read_text("/proc/self/cgroup", text, sizeof text) ? quota_v2(text) : 0;
    if (quota == 0)
        quota = quota_v1();
    return quota > 0 && quota < cpus ? quota : cpus;
}
