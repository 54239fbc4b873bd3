#include "core/row/mix.h"

#include "core/row/rowcheck.h"

#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <string.h>

#define TILE ((size_t)KERNELS_BLOCK) /* tokens: 48 KiB of tiles, which stay in the first cache levels */

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
    size_t lanes = kernels_blocks(request->vocab_size) * KERNELS_LANES;
    return 2 * TILE * (sizeof(float) + sizeof(double)) + (2 * request->vocab_size + lanes) * sizeof(float) +
           8 * ARENA_ALIGNMENT;
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

/* A row that is added up, and what was found on the way. */
struct mixer {
    const struct sample_request *request;
    const struct kernels *kernels;
    float *tile;    /* [TILE] of one addend */
    double *addend; /* [TILE] the same, 0 where it is masked */
    double *sum;    /* [TILE] of all addends so far */
    float *veil;    /* [TILE] -inf where a token is masked, 0 elsewhere */
    bool clean;     /* no addend had a NaN or a +inf */

    /* the first sum that is no float32 */
    bool overflowed;
    size_t overflow_token;
    double overflow_sum;
};

/* Widen a tile, 0 for -inf, since 0 * -inf is NaN; the veil falls where a masked token counts. */
static void unmask(struct mixer *m, size_t n, bool counts)
{
    const float *restrict tile = m->tile;
    double *restrict addend = m->addend;
    float *restrict veil = m->veil;
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        float z = tile[i];
        bool masked = z == -INFINITY;
        bad |= !(z < INFINITY);
        addend[i] = masked ? 0.0 : (double)z;
        veil[i] = masked && counts ? -INFINITY : veil[i];
    }
    m->clean &= bad == 0;
}

/*
 * sum += weight * tile.  The product of two float32 is exact in float64, so it does not matter whether this
 * CPU's daxpy fuses it with the addition: every one rounds once, the sum.
 */
static void add_tile(struct mixer *m, size_t n, float weight)
{
    unmask(m, n, weight != 0.0f);
    cblas_daxpy((blasint)n, (double)weight, m->addend, 1, m->sum, 1);
}

/* Remember the first of these sums that is no float32. */
static void note_overflow(struct mixer *m, size_t first, size_t n)
{
    for (size_t i = 0; i < n && !m->overflowed; i++) {
        if (m->veil[i] == 0.0f && isinf((float)m->sum[i])) {
            m->overflowed = true;
            m->overflow_token = first + i;
            m->overflow_sum = m->sum[i];
        }
    }
}

/* The sums as float32, rounded here and nowhere before. */
static void round_tile(struct mixer *m, size_t first, size_t n, float *restrict out)
{
    const double *restrict sum = m->sum;
    const float *restrict veil = m->veil;
    int infinite = 0;
    for (size_t i = 0; i < n; i++) {
        float z = (float)sum[i];
        infinite |= veil[i] == 0.0f && isinf(z);
        out[i] = veil[i] == 0.0f ? z : -INFINITY; /* not by adding: the others' sum may be +inf */
    }
    if (infinite)
        note_overflow(m, first, n);
}

static const float *bias_of(const struct sample_request *r, size_t row)
{
    return r->bias + (r->bias_rows == 1 ? 0 : row * r->vocab_size);
}

/* n tokens of a row from token `first` on: its stacks one after the other, then its bias. */
static void mix_tile(struct mixer *m, size_t row, size_t first, size_t n, float *out)
{
    const struct sample_request *r = m->request;
    memset(m->veil, 0, n * sizeof *m->veil);
    memset(m->sum, 0, n * sizeof *m->sum);
    for (size_t s = 0; s < r->num_stacks; s++) {
        load(r, m->kernels, (s * r->batch_size + row) * r->vocab_size + first, n, m->tile);
        add_tile(m, n, r->mix == NULL ? 1.0f : r->mix[s]);
    }
    if (r->bias != NULL) {
        memcpy(m->tile, bias_of(r, row) + first, n * sizeof *m->tile);
        add_tile(m, n, 1.0f);
    }
    round_tile(m, first, n, out);
}

static enum status explain_overflow(const struct mixer *m, size_t row, struct error *err)
{
    bool mixed = m->request->mix != NULL;
    error_set(err, STATUS_UNSAMPLABLE, "invalid_logits",
              "row %zu: %s %.9g at token %zu, beyond float32, which ends at 3.4028235e38; null masks a token",
              row, mixed ? "the mix of its logits is" : "its logits and bias add up to", m->overflow_sum,
              m->overflow_token);
    return error_at(err, mixed ? "mix" : "bias", row);
}

/* What is wrong with a row: a stack of it, its bias, or the sum of good ones. */
static enum status explain(const struct mixer *m, size_t row, float *out, struct error *err)
{
    const struct sample_request *r = m->request;
    for (size_t s = 0; s < r->num_stacks; s++) {
        load(r, m->kernels, (s * r->batch_size + row) * r->vocab_size, r->vocab_size, out);
        if (rowcheck_values("logits", out, r->vocab_size, row, err) != STATUS_OK)
            return err->status;
    }
    if (r->bias != NULL && rowcheck_values("bias", bias_of(r, row), r->vocab_size, row, err) != STATUS_OK)
        return err->status;
    if (m->clean)
        return explain_overflow(m, row, err);
    error_set(err, STATUS_UNSAMPLABLE, "invalid_logits", "row %zu of logits changed while it was sampled",
              row);
    return error_at(err, "logits", row);
}

static void lend_tiles(struct mixer *m, struct arena *scratch)
{
    m->tile = arena_alloc(scratch, TILE, sizeof *m->tile);
    m->addend = arena_alloc(scratch, TILE, sizeof *m->addend);
    m->sum = arena_alloc(scratch, TILE, sizeof *m->sum);
    m->veil = arena_alloc(scratch, TILE, sizeof *m->veil);
    assert(m->tile != NULL && m->addend != NULL && m->sum != NULL && m->veil != NULL);
}

enum status mix_row(const struct sample_request *request, size_t row, const struct kernels *kernels,
                    struct arena *scratch, struct mixed_row *out, struct error *err)
{
    size_t mark = arena_mark(scratch), vocab_size = request->vocab_size;
    struct mixer m = {.request = request, .kernels = kernels, .clean = true};
    bool adds = request->mix != NULL || request->bias != NULL;
    if (adds)
        lend_tiles(&m, scratch);
    out->clean = true;
    for (size_t i = 0; i < vocab_size; i += TILE) {
        size_t n = vocab_size - i < TILE ? vocab_size - i : TILE;
        if (adds)
            mix_tile(&m, row, i, n, out->z + i);
        else
            load(request, kernels, row * vocab_size + i, n, out->z + i);
        out->clean &= kernels->lane_max(out->z + i, n, out->lanes + i / TILE * KERNELS_LANES);
    }
    arena_release(scratch, mark);
    return m.clean && !m.overflowed ? STATUS_OK : explain(&m, row, out->z, err);
}
