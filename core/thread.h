#ifndef CORE_THREAD_H
#define CORE_THREAD_H

#include <pthread.h>

/*
 * Start a thread with every signal blocked: signals are the main thread's.
 * Returns 0, or the error number of pthread_create().
 */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
