/*
 * An allocator that fails when told to, for LD_PRELOAD.
 *
 * FAILING_MALLOC names a file of three native int64: countdown, count, failed.  Whoever maps it arms it by
 * setting countdown to N > 0: the Nth allocation from then on fails, and with a negative -N so do all later
 * ones, until it is set to 0.  count is how many were asked for while armed, failed how many of them failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own names for what is replaced here */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

struct control {
    _Atomic int64_t countdown, count, failed;
};

static struct control idle;
static struct control *control = &idle;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("FAILING_MALLOC");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED)
        control = shared;
}

static bool fails(void)
{
    int64_t armed = atomic_load(&control->countdown);
    if (armed == 0)
        return false;
    int64_t number = atomic_fetch_add(&control->count, 1) + 1;
    if (armed > 0 ? number != armed : number < -armed)
        return false;
    atomic_fetch_add(&control->failed, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *block = fails() ? NULL : __libc_memalign(alignment, size);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}
