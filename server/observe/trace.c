#include "server/observe/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

bool trace_id_usable(const char *id)
{
    size_t length = strnlen(id, TRACE_ID_MAX_LENGTH + 1);
    for (size_t i = 0; i < length; i++)
        if (id[i] <= ' ' || id[i] > '~')
            return false;
    return length >= 1 && length <= TRACE_ID_MAX_LENGTH;
}

/* Random, once for the process: what its ids begin with, and where its count starts. */
static struct {
    uint64_t prefix, first;
} process_words;
static pthread_once_t process_words_once = PTHREAD_ONCE_INIT;
static atomic_uint_fast64_t ids_made;

static void draw_process_words(void)
{
    if (getrandom(&process_words, sizeof process_words, 0) == (ssize_t)sizeof process_words)
        return;
    struct timespec now; /* no entropy: the time is the next best that another process does not have */
    clock_gettime(CLOCK_REALTIME, &now);
    process_words.prefix = (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
}

static void write_hex(uint64_t word, char *text)
{
    for (int i = 15; i >= 0; i--, word >>= 4)
        text[i] = "0123456789abcdef"[word & 15];
}

void trace_make_id(char id[TRACE_ID_LENGTH + 1])
{
    pthread_once(&process_words_once, draw_process_words);
    uint64_t count = atomic_fetch_add_explicit(&ids_made, 1, memory_order_relaxed);
    write_hex(process_words.prefix, id);
    write_hex(process_words.first + count, id + 16);
    id[TRACE_ID_LENGTH] = '\0';
}

/* Whether text begins with that many lower-case hex digits; *any says whether one of them is not 0. */
static bool is_hex(const char *text, size_t digits, bool *any)
{
    *any = false;
    for (size_t i = 0; i < digits; i++) {
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false; /* the end of the text, too */
        *any = *any || text[i] != '0';
    }
    return true;
}

/* version "-" trace-id "-" parent-id "-" flags; a later version may have more behind another "-" */
bool trace_parse_parent(const char *text, char trace_id[TRACE_ID_LENGTH + 1])
{
    enum { TRACE = 3, PARENT = TRACE + TRACE_ID_LENGTH + 1, FLAGS = PARENT + 16 + 1, END = FLAGS + 2 };
    bool version, trace, parent, flags;
    trace_id[0] = '\0';
    if (!is_hex(text, 2, &version) || memcmp(text, "ff", 2) == 0 || text[TRACE - 1] != '-' ||
        !is_hex(text + TRACE, TRACE_ID_LENGTH, &trace) || !trace || text[PARENT - 1] != '-' ||
        !is_hex(text + PARENT, 16, &parent) || !parent || text[FLAGS - 1] != '-' ||
        !is_hex(text + FLAGS, 2, &flags))
        return false;
    if (text[END] != '\0' && (!version || text[END] != '-'))
        return false;
    memcpy(trace_id, text + TRACE, TRACE_ID_LENGTH);
    trace_id[TRACE_ID_LENGTH] = '\0';
    return true;
}
