#ifndef BENCH_SIMDJSON_BASELINE_H
#define BENCH_SIMDJSON_BASELINE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Read a JSON array of count numbers into float32 by simdjson, through a tree and on demand; its parsers are
 * kept from call to call, as its manual advises.  text has 64 bytes to spare after length.
 *
 * Returns how many numbers were read, 0 on an error.  Not thread-safe.
 */
size_t simdjson_baseline_dom(const char *text, size_t length, float *out, size_t count);
size_t simdjson_baseline_ondemand(const char *text, size_t length, float *out, size_t count);

/* Version and instruction set in use, a static text. */
const char *simdjson_baseline_name(void);

#ifdef __cplusplus
}
#endif

#endif
