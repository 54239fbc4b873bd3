#ifndef CORE_THREAD_H
#define CORE_THREAD_H

#include <pthread.h>

/*
 * Start a thread with signals blocked: they are the main thread's, all but those that a thread raises itself
 * by what it does, which end the process unless they are handled where they are raised.
 * Returns 0, or the error number of pthread_create().
 */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
