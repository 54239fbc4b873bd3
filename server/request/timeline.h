#ifndef SERVER_TIMELINE_H
#define SERVER_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Where the time of a request goes, in the order in which reports have it. */
enum stage {
    STAGE_READ,   /* from its headers to the last byte of its body */
    STAGE_QUEUE,  /* waiting for a worker; none when it is answered where it stands */
    STAGE_PARSE,  /* bytes to a request */
    STAGE_SAMPLE, /* its rows, on however many workers */
    STAGE_WRITE,  /* encoding the answer and sending it to its last byte */
    NUM_STAGES
};

/*
 * A request's stages as they end, by CLOCK_MONOTONIC, in nanoseconds.  One thread at a time has it: whoever
 * has the request.
 */
struct timeline {
    uint64_t begun, last; /* the request; the stage that runs now */
    uint64_t spent[NUM_STAGES];
    unsigned ended; /* bit s: stage s has ended */
};

static inline uint64_t timeline_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void timeline_begin(struct timeline *t)
{
    *t = (struct timeline){0};
    t->begun = t->last = timeline_now();
}

/* The time from the last stage's end to now was this stage's. */
static inline void timeline_end_at(struct timeline *t, enum stage stage, uint64_t now)
{
    t->spent[stage] = now - t->last;
    t->last = now;
    t->ended |= 1u << stage;
}

static inline void timeline_end(struct timeline *t, enum stage stage)
{
    timeline_end_at(t, stage, timeline_now());
}

static inline bool timeline_has(const struct timeline *t, enum stage stage)
{
    return (t->ended >> stage & 1) != 0;
}

#endif
