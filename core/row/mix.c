#include "core/row/mix.h"

#include "core/row/rowcheck.h"

#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <string.h>

#define TILE ((size_t)KERNELS_BLOCK) /* tokens: num_stacks of them stay in the first cache levels */

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
    size_t tiles = (request->num_stacks + 2) * TILE, rows = 2 * request->vocab_size;
    size_t lanes = kernels_blocks(request->vocab_size) * KERNELS_LANES;
    return (tiles + rows + lanes) * sizeof(float) + 8 * ARENA_ALIGNMENT;
}

/* n logits from index `first` of all of them, as float32. */
static void load(const struct sample_request *request, const struct kernels *kernels, size_t first, size_t n,
                 float *out)
{
    const char *at = (const char *)request->logits + first * dtype_bytes(request->dtype);
    switch (request->dtype) {
    case DTYPE_F32:
        memcpy(out, at, n * sizeof *out);
        break;
    case DTYPE_F16:
        kernels->widen_f16((const uint16_t *)(const void *)at, n, out);
        break;
    case DTYPE_BF16:
        kernels->widen_bf16((const uint16_t *)(const void *)at, n, out);
        break;
    }
}

/*
 * Put 0 for -inf, since 0 * -inf is NaN; veil[i] becomes -inf where a masked token counts.  Returns false on
 * NaN or +inf.
 */
static bool unmask(float *restrict tile, size_t n, bool counts, float *restrict veil)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        float z = tile[i];
        bool masked = z == -INFINITY;
        bad |= !(z < INFINITY);
        tile[i] = masked ? 0.0f : z;
        veil[i] = masked && counts ? -INFINITY : veil[i];
    }
    return bad == 0;
}

/* Where a tile of the result comes from and what it needs. */
struct mixer {
    const struct sample_request *request;
    const struct kernels *kernels;
    float *tiles; /* [num_stacks, TILE] */
    float *veil;  /* [TILE] */
};

static bool mix_tile(const struct mixer *m, size_t first, size_t n, float *out)
{
    const struct sample_request *r = m->request;
    bool clean = true;
    memset(m->veil, 0, n * sizeof *m->veil);
    for (size_t s = 0; s < r->num_stacks; s++) {
        float *tile = m->tiles + s * TILE;
        load(r, m->kernels, s * r->batch_size * r->vocab_size + first, n, tile);
        clean &= unmask(tile, n, r->mix[s] != 0.0f, m->veil);
    }
    memset(out, 0, n * sizeof *out);
    cblas_sgemv(CblasRowMajor, CblasTrans, (blasint)r->num_stacks, (blasint)n, 1.0f, m->tiles, (blasint)TILE,
                r->mix, 1, 0.0f, out, 1);
    for (size_t i = 0; i < n; i++) /* not by adding: the others' sum may be too large for a float32 */
        out[i] = m->veil[i] == 0.0f ? out[i] : -INFINITY;
    return clean;
}

/* The first stack's fault, in words. */
static enum status explain(const struct mixer *m, size_t row, float *out, struct error *err)
{
    const struct sample_request *r = m->request;
    for (size_t s = 0; s < r->num_stacks; s++) {
        load(r, m->kernels, (s * r->batch_size + row) * r->vocab_size, r->vocab_size, out);
        if (rowcheck_values("logits", out, r->vocab_size, row, err) != STATUS_OK)
            return err->status;
    }
    error_set(err, STATUS_UNSAMPLABLE, "invalid_logits", "row %zu of logits changed while it was sampled",
              row);
    return error_at(err, "logits", row);
}

/* Lent for a row with mix, from scratch. */
static void lend_tiles(struct mixer *m, struct arena *scratch)
{
    m->tiles = arena_alloc(scratch, m->request->num_stacks, TILE * sizeof *m->tiles);
    m->veil = arena_alloc(scratch, TILE, sizeof *m->veil);
    assert(m->tiles != NULL && m->veil != NULL);
}

static const float *bias_of(const struct sample_request *r, size_t row)
{
    return r->bias + (r->bias_rows == 1 ? 0 : row * r->vocab_size);
}

enum status mix_check_bias(const struct sample_request *request, size_t row, struct error *err)
{
    return request->bias == NULL
               ? STATUS_OK
               : rowcheck_values("bias", bias_of(request, row), request->vocab_size, row, err);
}

enum status mix_row(const struct sample_request *request, size_t row, const struct kernels *kernels,
                    struct arena *scratch, struct mixed_row *out, struct error *err)
{
    size_t mark = arena_mark(scratch), vocab_size = request->vocab_size;
    struct mixer m = {.request = request, .kernels = kernels};
    bool clean = true;
    if (request->mix != NULL)
        lend_tiles(&m, scratch);
    out->clean = true;
    for (size_t i = 0; i < vocab_size; i += TILE) {
        size_t n = vocab_size - i < TILE ? vocab_size - i : TILE, first = row * vocab_size + i;
        if (request->mix != NULL)
            clean &= mix_tile(&m, first, n, out->z + i);
        else
            load(request, kernels, first, n, out->z + i);
        if (request->bias != NULL)
            cblas_saxpy((blasint)n, 1.0f, bias_of(request, row) + i, 1, out->z + i, 1);
        out->clean &= kernels->lane_max(out->z + i, n, out->lanes + i / TILE * KERNELS_LANES);
    }
    arena_release(scratch, mark);
    return clean ? STATUS_OK : explain(&m, row, out->z, err);
}
