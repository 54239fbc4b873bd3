#include "server/shm/mapping.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct mapping {
    _Atomic(char *) pages; /* where they begin; NULL: this one is free.  Set last, cleared first */
    atomic_size_t page_bytes;
    size_t before;    /* bytes of the first page that come before the first byte */
    size_t end;       /* how long the object must be */
    int fd;           /* of the object */
    bool used;        /* under the mutex */
    atomic_bool torn; /* a page was missing */
};

/* A signal handler is given nothing but an address, so it finds them here. */
static struct mapping mappings[MAPPING_MOST];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards `used` */
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2,
               "a handler must not wait for a lock");

/* ---- the handler ---- */

static struct mapping *find(uintptr_t address)
{
    for (size_t i = 0; i < MAPPING_MOST; i++) {
        uintptr_t pages = (uintptr_t)atomic_load(&mappings[i].pages);
        if (pages != 0 && address - pages < mappings[i].page_bytes)
            return &mappings[i];
    }
    return NULL;
}

/*
 * The system call itself, which is all that may be done in a handler; a sanitizer's mmap() is more, and would
 * take the new pages for something that others must not read meanwhile.
 */
static bool map_zeros(char *at, size_t bytes)
{
    const int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
#if defined(__x86_64__) || defined(__aarch64__)
    return syscall(SYS_mmap, at, bytes, access, flags, -1, 0L) == (long)(uintptr_t)at;
#else
    return mmap(at, bytes, access, flags, -1, 0) == at;
#endif
}

/* Who meets here does the same twice. */
static bool patch(struct mapping *m)
{
    atomic_store(&m->torn, true);
    return map_zeros(atomic_load(&m->pages), m->page_bytes);
}

static void on_missing_page(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    struct mapping *mapping = find((uintptr_t)info->si_addr);
    if (mapping == NULL || !patch(mapping))
        signal(signal_number, SIG_DFL); /* what raised it is done again, and ends the process */
    errno = saved;
}

static void install_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_missing_page, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

/* ---- mappings ---- */

static struct mapping *take_free(void)
{
    struct mapping *found = NULL;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MAPPING_MOST && found == NULL; i++)
        if (!mappings[i].used)
            found = &mappings[i];
    if (found != NULL)
        found->used = true;
    pthread_mutex_unlock(&mutex);
    return found;
}

static void give_back(struct mapping *m)
{
    close(m->fd);
    pthread_mutex_lock(&mutex);
    m->used = false;
    pthread_mutex_unlock(&mutex);
}

static enum status map(struct mapping *m, size_t offset, size_t bytes, bool writable, struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int access = PROT_READ | (writable ? PROT_WRITE : 0);
    m->before = offset % page;
    m->page_bytes = m->before + bytes;
    m->end = offset + bytes;
    atomic_store(&m->torn, false);
    void *pages = mmap(NULL, m->page_bytes, access, MAP_SHARED, m->fd, (off_t)(offset - m->before));
    if (pages == MAP_FAILED)
        return error_set(err, errno == ENOMEM ? STATUS_NO_MEMORY : STATUS_INVALID, "no_memory",
                         "cannot map %zu bytes of shared memory: %s", bytes, strerror(errno));
    atomic_store(&m->pages, pages);
    return STATUS_OK;
}

enum status mapping_create(int fd, size_t offset, size_t bytes, bool writable, struct mapping **out,
                           struct error *err)
{
    assert(bytes > 0 && bytes <= SIZE_MAX / 2 - offset);
    pthread_once(&handler_once, install_handler);
    struct mapping *m = take_free();
    if (m == NULL) {
        close(fd);
        return error_set(err, STATUS_OVERLOADED, "overloaded",
                         "%d regions of shared memory are in use, the most there can be; try again",
                         MAPPING_MOST);
    }
    m->fd = fd;
    if (map(m, offset, bytes, writable, err) != STATUS_OK) {
        give_back(m);
        return err->status;
    }
    *out = m;
    return STATUS_OK;
}

void mapping_destroy(struct mapping *m)
{
    if (m == NULL)
        return;
    void *pages = atomic_exchange(&m->pages, NULL);
    munmap(pages, m->page_bytes);
    give_back(m);
}

void *mapping_data(const struct mapping *m)
{
    return atomic_load(&m->pages) + m->before;
}

/* Behind the end of an object its last page is zeros, and no signal tells. */
bool mapping_check(const struct mapping *m)
{
    struct stat object;
    return !atomic_load(&m->torn) && fstat(m->fd, &object) == 0 && m->end <= (uint64_t)object.st_size;
}
