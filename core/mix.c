#include "core/mix.h"

#include "core/rowcheck.h"

#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <string.h>

#define TILE ((size_t)2048) /* tokens: num_stacks of them stay in the first cache levels */

void mix_setup(void)
{
    openblas_set_num_threads(1);
}

const char *mix_blas_core(void)
{
    return openblas_get_corename();
}

size_t mix_scratch_bytes(const struct sample_request *request)
{
    return (request->num_stacks + 1) * TILE * sizeof(float) + request->vocab_size * sizeof(float) +
           4 * ARENA_ALIGNMENT;
}

/*
 * Copy one stack's part with 0 for -inf, since 0 * -inf is NaN; veil[i] becomes -inf where a masked token
 * counts. Returns false on NaN or +inf.
 */
static bool load_tile(const float *z, size_t n, bool counts, float *restrict tile, float *restrict veil)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        bool masked = z[i] == -INFINITY;
        bad |= !(z[i] < INFINITY);
        tile[i] = masked ? 0.0f : z[i];
        veil[i] = masked && counts ? -INFINITY : veil[i];
    }
    return bad == 0;
}

static bool mix_tile(const struct sample_request *request, const float *first, size_t n, float *tiles,
                     float *veil, float *out)
{
    size_t stack = request->batch_size * request->vocab_size;
    bool clean = true;
    memset(veil, 0, n * sizeof *veil);
    for (size_t m = 0; m < request->num_stacks; m++)
        clean &= load_tile(first + m * stack, n, request->mix[m] != 0.0f, tiles + m * TILE, veil);
    memset(out, 0, n * sizeof *out);
    cblas_sgemv(CblasRowMajor, CblasTrans, (blasint)request->num_stacks, (blasint)n, 1.0f, tiles,
                (blasint)TILE, request->mix, 1, 0.0f, out, 1);
    for (size_t i = 0; i < n; i++)
        out[i] += veil[i];
    return clean;
}

static enum status mix_stacks(const struct sample_request *request, size_t row, struct arena *scratch,
                              float *out, struct error *err)
{
    size_t mark = arena_mark(scratch), vocab_size = request->vocab_size;
    float *tiles = arena_alloc(scratch, request->num_stacks, TILE * sizeof *tiles);
    float *veil = arena_alloc(scratch, TILE, sizeof *veil);
    assert(tiles != NULL && veil != NULL);
    const float *first = request->logits + row * vocab_size;
    bool clean = true;
    for (size_t i = 0; i < vocab_size; i += TILE) {
        size_t n = vocab_size - i < TILE ? vocab_size - i : TILE;
        clean &= mix_tile(request, first + i, n, tiles, veil, out + i);
    }
    arena_release(scratch, mark);
    size_t stack = request->batch_size * vocab_size;
    for (size_t m = 0; !clean && m < request->num_stacks; m++)
        if (rowcheck_values(first + m * stack, vocab_size, row, err) != STATUS_OK)
            return err->status;
    return STATUS_OK;
}

enum status mix_row(const struct sample_request *request, size_t row, struct arena *scratch, float *out,
                    struct error *err)
{
    size_t vocab_size = request->vocab_size;
    if (request->mix == NULL)
        memcpy(out, request->logits + row * vocab_size, vocab_size * sizeof *out);
    else if (mix_stacks(request, row, scratch, out, err) != STATUS_OK)
        return err->status;
    if (request->bias != NULL) {
        const float *bias = request->bias + (request->bias_rows == 1 ? 0 : row * vocab_size);
        cblas_saxpy((blasint)vocab_size, 1.0f, bias, 1, out, 1);
    }
    return STATUS_OK;
}
