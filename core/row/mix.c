#include "core/row/mix.h"

#include "core/row/load.h"
#include "core/row/rowcheck.h"

#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <string.h>

#define TILE ((size_t)KERNELS_BLOCK) /* tokens: 40 KiB of tiles, which stay in the first cache levels */

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
    return TILE * (sizeof(float) + 2 * sizeof(double)) + (2 * request->vocab_size + lanes) * sizeof(float) +
           8 * ARENA_ALIGNMENT;
}

/* n logits from index `first` of all of them, as float32. */
static void load(const struct sample_request *request, const struct kernels *kernels, size_t first, size_t n,
                 float *out)
{
    const char *at = (const char *)request->logits + first * dtype_bytes(request->dtype);
    load_floats(kernels, request->dtype, at, n, out);
}

/* A row that is added up, and what was found on the way. */
struct mixer {
    const struct sample_request *request;
    const struct kernels *kernels;
    size_t row;
    float *tile;    /* [TILE] of one addend */
    double *addend; /* [TILE] the same in float64 */
    double *sum;    /* [TILE] of all addends so far */
    bool clean;     /* no addend had a NaN or a +inf, and every sum is a float32 */
};

/*
 * sum += weight * x.  The product of two float32 is exact in float64, so it does not matter whether this
 * CPU's daxpy fuses it with the addition: every one rounds once, the sum.  A masked token counts as the
 * infinity that the weight turns into -inf, which no later addend undoes; as 0 where the weight is 0.
 */
static void add_tile(struct mixer *m, const float *x, size_t n, float weight)
{
    double masked = weight == 0.0f ? 0.0 : copysign((double)INFINITY, -(double)weight);
    m->clean &= m->kernels->widen_f32(x, n, masked, m->addend);
    cblas_daxpy((blasint)n, (double)weight, m->addend, 1, m->sum, 1);
}

static const float *bias_of(const struct sample_request *r, size_t row)
{
    return r->bias + (r->bias_rows == 1 ? 0 : row * r->vocab_size);
}

/* The sums of n tokens from token `first` on: of the row's stacks, one after the other, and then its bias. */
static void sum_tile(struct mixer *m, size_t first, size_t n)
{
    const struct sample_request *r = m->request;
    memset(m->sum, 0, n * sizeof *m->sum);
    for (size_t s = 0; s < r->num_stacks; s++) {
        load(r, m->kernels, (s * r->batch_size + m->row) * r->vocab_size + first, n, m->tile);
        add_tile(m, m->tile, n, r->mix == NULL ? 1.0f : r->mix[s]);
    }
    if (r->bias != NULL)
        add_tile(m, bias_of(r, m->row) + first, n, 1.0f);
}

/*
 * The same, rounded to float32 here and nowhere before.  Without a mix there are two addends at most: then
 * float32 rounds like float64 does and float32 after it, since 53 >= 2 * 24 + 2 bits.
 */
static void mix_tile(struct mixer *m, size_t first, size_t n, float *out)
{
    const struct sample_request *r = m->request;
    if (r->mix != NULL) {
        sum_tile(m, first, n);
        m->clean &= m->kernels->round_f64(m->sum, n, out);
        return;
    }
    load(r, m->kernels, m->row * r->vocab_size + first, n, out);
    if (r->bias != NULL)
        m->clean &= m->kernels->add(out, bias_of(r, m->row) + first, n);
}

static enum status explain_overflow(const struct mixer *m, double sum, size_t token, struct error *err)
{
    bool mixed = m->request->mix != NULL;
    error_set(err, STATUS_UNSAMPLABLE, "invalid_logits",
              "row %zu: %s %.9g at token %zu, beyond float32, which ends at 3.4028235e38; null masks a token",
              m->row, mixed ? "the mix of its logits is" : "its logits and bias add up to", sum, token);
    return error_at(err, mixed ? "mix" : "bias", m->row);
}

/* The first sum that is no float32; STATUS_OK when there is none. */
static enum status find_overflow(struct mixer *m, struct error *err)
{
    size_t vocab_size = m->request->vocab_size;
    for (size_t first = 0; first < vocab_size; first += TILE) {
        size_t n = vocab_size - first < TILE ? vocab_size - first : TILE;
        sum_tile(m, first, n);
        for (size_t i = 0; i < n; i++) {
            if (isfinite(m->sum[i]) && isinf((float)m->sum[i]))
                return explain_overflow(m, m->sum[i], first + i, err);
        }
    }
    return STATUS_OK;
}

/* What is wrong with a row: a stack of it, its bias, or the sum of good ones. */
static enum status explain(struct mixer *m, float *z, struct error *err)
{
    const struct sample_request *r = m->request;
    for (size_t s = 0; s < r->num_stacks; s++) {
        load(r, m->kernels, (s * r->batch_size + m->row) * r->vocab_size, r->vocab_size, z);
        if (rowcheck_values("logits", z, r->vocab_size, m->row, err) != STATUS_OK)
            return err->status;
    }
    if (r->bias != NULL &&
        rowcheck_values("bias", bias_of(r, m->row), r->vocab_size, m->row, err) != STATUS_OK)
        return err->status;
    if (find_overflow(m, err) != STATUS_OK)
        return err->status;
    error_set(err, STATUS_UNSAMPLABLE, "invalid_logits", "row %zu of logits changed while it was sampled",
              m->row);
    return error_at(err, "logits", m->row);
}

static void lend_tiles(struct mixer *m, struct arena *scratch)
{
    m->tile = arena_alloc(scratch, TILE, sizeof *m->tile);
    m->addend = arena_alloc(scratch, TILE, sizeof *m->addend);
    m->sum = arena_alloc(scratch, TILE, sizeof *m->sum);
    assert(m->tile != NULL && m->addend != NULL && m->sum != NULL);
}

enum status mix_row(const struct sample_request *request, size_t row, const struct kernels *kernels,
                    struct arena *scratch, struct mixed_row *out, struct error *err)
{
    size_t mark = arena_mark(scratch), vocab_size = request->vocab_size;
    struct mixer m = {.request = request, .kernels = kernels, .row = row, .clean = true};
    lend_tiles(&m, scratch);
    out->clean = true;
    for (size_t i = 0; i < vocab_size; i += TILE) {
        size_t n = vocab_size - i < TILE ? vocab_size - i : TILE;
        mix_tile(&m, i, n, out->z + i);
        out->clean &= kernels->lane_max(out->z + i, n, out->lanes + i / TILE * KERNELS_LANES);
    }
    enum status status = m.clean ? STATUS_OK : explain(&m, out->z, err);
    arena_release(scratch, mark);
    return status;
}
