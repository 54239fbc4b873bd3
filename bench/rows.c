#include "bench/rows.h"

#include "bench/timing.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES       ((size_t)4)
#define FILE_TOKENS ((size_t)262144)

static const char *const NAMES[ROWS_KINDS] = {"capital", "json", "numbers",   "shell",
                                              "real",    "flat", "near_flat", "one_hot"};
static const char *const PATHS[FILES] = {"tests/data/capital.f32", "tests/data/json.bf16",
                                         "tests/data/numbers.bf16", "tests/data/shell.bf16"};

const char *rows_name(enum rows_kind kind)
{
    return NAMES[kind];
}

static void read_file(const char *path, void *bytes, size_t length)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(bytes, 1, length, file) != length)
        timing_fail("cannot read %s; run from the top folder", path);
    fclose(file);
}

/* All files, one after the other, widened to float32. */
static const float *real_logits(void)
{
    static float *all;
    if (all != NULL)
        return all;
    all = timing_alloc(FILES * FILE_TOKENS, sizeof *all);
    read_file(PATHS[0], all, FILE_TOKENS * sizeof *all);
    uint16_t *half = timing_alloc(FILE_TOKENS, sizeof *half);
    for (size_t file = 1; file < FILES; file++) {
        read_file(PATHS[file], half, FILE_TOKENS * sizeof *half);
        for (size_t i = 0; i < FILE_TOKENS; i++) {
            uint32_t word = (uint32_t)half[i] << 16;
            memcpy(&all[file * FILE_TOKENS + i], &word, sizeof word);
        }
    }
    free(half);
    return all;
}

static void fill_real(float *z, size_t vocab_size, size_t file)
{
    const float *all = real_logits();
    if (vocab_size > FILES * FILE_TOKENS)
        timing_fail("no real row has %zu tokens", vocab_size);
    for (size_t i = 0; i < vocab_size; i++)
        z[i] = all[(file * FILE_TOKENS + i) % (FILES * FILE_TOKENS)];
}

static void fill_near_flat(float *z, size_t vocab_size, size_t seed)
{
    uint64_t state = seed + 1;
    for (size_t i = 0; i < vocab_size; i++) {
        double sum = -2;
        for (int j = 0; j < 4; j++) { /* four uniform numbers: deviation sqrt(4 / 12) */
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 40) * 0x1p-24;
        }
        z[i] = (float)(0.01 * sqrt(3) * sum);
    }
}

static void fill(enum rows_kind kind, float *z, size_t vocab_size, size_t row)
{
    switch (kind) {
    case ROWS_NEAR_FLAT:
        fill_near_flat(z, vocab_size, row);
        break;
    case ROWS_FLAT:
    case ROWS_ONE_HOT:
        for (size_t i = 0; i < vocab_size; i++)
            z[i] = 0;
        if (kind == ROWS_ONE_HOT)
            z[vocab_size / 2] = 20;
        break;
    case ROWS_REAL:
        fill_real(z, vocab_size, row % FILES);
        break;
    default:
        fill_real(z, vocab_size, (size_t)kind);
    }
}

float *rows_make(enum rows_kind kind, size_t batch_size, size_t vocab_size)
{
    float *rows = timing_alloc(batch_size * vocab_size, sizeof *rows);
    for (size_t row = 0; row < batch_size; row++)
        fill(kind, rows + row * vocab_size, vocab_size, row);
    return rows;
}

/* Four independent chains of the widest registers; the compiler splits them where registers are narrower. */
typedef unsigned wide __attribute__((vector_size(64), aligned(4), may_alias));

static inline __attribute__((always_inline)) unsigned read_wide(const float *z, size_t n)
{
    wide chains[4] = {{0}};
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (size_t j = 0; j < 4; j++)
            chains[j] |= *(const wide *)(const void *)(z + i + 16 * j);
    wide all = (chains[0] | chains[1]) | (chains[2] | chains[3]);
    unsigned bits = 0;
    for (size_t j = 0; j < 16; j++)
        bits |= all[j];
    for (; i < n; i++) {
        unsigned word;
        memcpy(&word, z + i, sizeof word);
        bits |= word;
    }
    return bits;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static unsigned read_avx512(const float *z, size_t n)
{
    return read_wide(z, n);
}

__attribute__((target("avx2"))) static unsigned read_avx2(const float *z, size_t n)
{
    return read_wide(z, n);
}
#endif

unsigned rows_read(const float *z, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return read_avx512(z, n);
    if (__builtin_cpu_supports("avx2"))
        return read_avx2(z, n);
#endif
    return read_wide(z, n);
}
