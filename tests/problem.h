#ifndef TESTS_PROBLEM_H
#define TESTS_PROBLEM_H

/*
 * A request made from any bytes: parameters of every magnitude a decoder lets pass, and logits that are
 * anything.  The functions take the bytes in the order in which they stand.
 */

#include "core/base/bits.h"
#include "core/request.h"
#include "core/rules/rule.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM_MAX_ROWS    4
#define PROBLEM_MAX_STACKS  3
#define PROBLEM_MAX_COUNT   1024              /* draws and candidates */
#define PROBLEM_MAX_LOGITS  ((size_t)1 << 15) /* in all, but for a large row */
#define PROBLEM_MAX_RULES   6                 /* beside temperature, top_k and top_p */
#define PROBLEM_MAX_HISTORY 64                /* ids */
#define PROBLEM_LARGE       ((size_t)64000)   /* tokens: a threshold falls twice in search of a nucleus */

struct problem_input {
    const uint8_t *at, *end;
};

struct problem {
    struct sample_request request;
    void *logits; /* this and what follows are as long as they must be and no longer */
    float *bias;
    int32_t *candidate_ids;
    float *wide; /* the logits in float32 */
    float mix[PROBLEM_MAX_STACKS];
    bool has_rules; /* others than temperature, top_k and top_p */
    double rules[PROBLEM_MAX_RULES];
    int32_t history[PROBLEM_MAX_HISTORY];
    uint32_t history_starts[2];
    double temperature[PROBLEM_MAX_ROWS], top_k[PROBLEM_MAX_ROWS], top_p[PROBLEM_MAX_ROWS];
    uint64_t seed[PROBLEM_MAX_ROWS], offset[PROBLEM_MAX_ROWS];
};

static inline uint64_t problem_take(struct problem_input *in, unsigned bytes)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < bytes && in->at < in->end; i++)
        word |= (uint64_t)*in->at++ << 8 * i;
    return word;
}

/* The finite double whose upper half this is. */
static inline double problem_double_of(uint32_t bits)
{
    double x = bits_to_double((uint64_t)bits << 32);
    return isfinite(x) ? x : copysign(DBL_MAX, x);
}

/* A length by its order of magnitude: below 2^(scale + 1). */
static inline size_t problem_length_of(uint32_t word, unsigned scale)
{
    return (size_t)1 << scale | (word >> 8 & (((size_t)1 << scale) - 1));
}

static inline uint32_t problem_take_count(struct problem_input *in)
{
    uint32_t word = (uint32_t)problem_take(in, 3);
    size_t length = problem_length_of(word, (word & 0xff) % 11);
    return length < PROBLEM_MAX_COUNT ? (uint32_t)length : PROBLEM_MAX_COUNT;
}

static inline double problem_take_top_k(struct problem_input *in, size_t vocab_size)
{
    uint32_t word = (uint32_t)problem_take(in, 4);
    return word % 2 == 1 ? trunc(problem_double_of(word)) : (double)((word >> 1) % (vocab_size + 2));
}

/* Anywhere, near 0, or near 1. */
static inline double problem_take_top_p(struct problem_input *in)
{
    uint32_t word = (uint32_t)problem_take(in, 4);
    double x = fmin(fabs(problem_double_of(word)), 1.0);
    return word % 2 == 0 ? word * 0x1p-32 : word % 4 == 1 ? x : 1.0 - x;
}

static inline void problem_read_shape(struct sample_request *r, struct problem_input *in)
{
    uint32_t length = (uint32_t)problem_take(in, 4);
    unsigned form = (unsigned)problem_take(in, 1), stacks = form >> 2 & 3, bias = form >> 4 & 3;
    r->vocab_size = problem_length_of(length, (length & 0xff) % 13);
    if ((length & 0xff) == 0xff)
        r->vocab_size += PROBLEM_LARGE;
    r->batch_size = 1 + form % PROBLEM_MAX_ROWS;
    r->num_stacks = stacks == 0 ? 1 : stacks;
    if (r->num_stacks * r->batch_size * r->vocab_size > PROBLEM_MAX_LOGITS)
        r->num_stacks = r->batch_size = 1;
    r->bias_rows = bias == 1 ? 1 : bias == 2 ? r->batch_size : 0;
}

static inline void problem_read_columns(struct problem *p, struct problem_input *in)
{
    struct sample_request *r = &p->request;
    unsigned flags = (unsigned)problem_take(in, 1);
    struct rule_value *values = r->rule_values;
    values[SLOT_temperature] = (struct rule_value){.sent = true, .number = {p->temperature, flags & 1}};
    values[SLOT_top_k] = (struct rule_value){.sent = true, .number = {p->top_k, flags >> 1 & 1}};
    values[SLOT_top_p] = (struct rule_value){.sent = true, .number = {p->top_p, flags >> 2 & 1}};
    r->seed = (struct column_u64){p->seed, flags >> 3 & 1};
    r->offset = (struct column_u64){p->offset, flags >> 4 & 1};
    r->logprobs = flags >> 5 & 1;
    r->logprobs_mode = flags >> 6 & 1 ? LOGPROBS_RAW : LOGPROBS_PROCESSED;
    for (size_t i = 0; i < (values[SLOT_temperature].number.per_row ? r->batch_size : 1); i++)
        p->temperature[i] = problem_double_of((uint32_t)problem_take(in, 4));
    for (size_t i = 0; i < (values[SLOT_top_k].number.per_row ? r->batch_size : 1); i++)
        p->top_k[i] = problem_take_top_k(in, r->vocab_size);
    for (size_t i = 0; i < (values[SLOT_top_p].number.per_row ? r->batch_size : 1); i++)
        p->top_p[i] = problem_take_top_p(in);
    for (size_t i = 0; i < (r->seed.per_row ? r->batch_size : 1); i++)
        p->seed[i] = problem_take(in, 8);
    for (size_t i = 0; i < (r->offset.per_row ? r->batch_size : 1); i++)
        p->offset[i] = problem_take(in, 8);
}

static inline double problem_take_in_range(struct problem_input *in, const struct rule_param *param)
{
    uint32_t word = (uint32_t)problem_take(in, 3);
    double x = word % 2 == 0 ? ldexp(word, -(int)(word % 24)) : problem_double_of(word << 8);
    x = fmin(fmax(x, param->min), param->max);
    if (param->kind == KIND_WHOLE || param->kind == KIND_SWITCH)
        x = trunc(x);
    return param->above_min && x == param->min ? 0.5 : x;
}

/* A few rules by their numbers, over a short history. */
static inline void problem_read_rules(struct problem *p, struct problem_input *in)
{
    struct sample_request *r = &p->request;
    size_t count = problem_take(in, 1) % (PROBLEM_MAX_RULES + 1);
    p->history_starts[1] = (uint32_t)(count == 0 ? 0 : problem_take(in, 1) % PROBLEM_MAX_HISTORY);
    for (size_t i = 0; i < p->history_starts[1]; i++)
        p->history[i] = (int32_t)(problem_take(in, 1) % (r->vocab_size < 7 ? r->vocab_size : 7));
    for (size_t i = 0; i < count; i++) {
        const struct rule_param *param = rule_param_of((enum rule_slot)(problem_take(in, 1) % NUM_SLOTS));
        p->rules[i] = problem_take_in_range(in, param);
        if (param->kind <= KIND_SWITCH && !r->rule_values[param->slot].sent)
            r->rule_values[param->slot] = (struct rule_value)RULE_NUMBER(&p->rules[i]);
    }
    if (count > 0)
        r->rule_values[SLOT_history] =
            (struct rule_value){.sent = true, .ids = {.ids = p->history, .starts = p->history_starts}};
}

/* How logits are made from few bytes or many. */
enum problem_making {
    PROBLEM_MAKING_BITS,
    PROBLEM_MAKING_UPPER_BITS,
    PROBLEM_MAKING_PALETTE,
    PROBLEM_MAKING_NORMAL,
    PROBLEM_MAKING_RAMP,
    PROBLEM_MAKINGS
};

struct problem_maker {
    enum problem_making making;
    bool dirty; /* NaN and +inf stay */
    uint64_t state;
    float base, step;
    struct problem_input in;
};

/* The i-th word of so many bytes, of the input over and over. */
static inline uint32_t problem_word_at(const struct problem_maker *m, size_t i, unsigned bytes)
{
    size_t size = (size_t)(m->in.end - m->in.at);
    uint32_t word = 0;
    for (unsigned b = 0; size > 0 && b < bytes; b++)
        word |= (uint32_t)m->in.at[(i * bytes + b) % size] << 8 * b;
    return word;
}

/* splitmix64, and the sum of its bytes: roughly normal, deviation `step` */
static inline float problem_next_normal(struct problem_maker *m)
{
    uint64_t x = m->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    int sum = 0;
    for (unsigned i = 0; i < 64; i += 8)
        sum += (int)(x >> i & 0xff) - 127;
    return m->base + (float)sum * 0x1p-8f * m->step;
}

static inline float problem_next_logit(struct problem_maker *m, size_t i)
{
    static const float palette[16] = {0.0f,    -0.0f,    1.0f,    -1.0f,     88.0f,     -88.0f,
                                      FLT_MAX, -FLT_MAX, FLT_MIN, 0x1p-149f, -0x1p-149, -INFINITY,
                                      10.0f,   0x1.4p3f, 1e30f,   0.5f};
    switch (m->making) {
    case PROBLEM_MAKING_BITS:
        return bits_to_float(problem_word_at(m, i, 4));
    case PROBLEM_MAKING_UPPER_BITS:
        return bits_to_float(problem_word_at(m, i, 2) << 16);
    case PROBLEM_MAKING_PALETTE:
        return palette[problem_word_at(m, i, 1) & 15] + (float)(problem_word_at(m, i, 1) >> 4) * 0.125f;
    case PROBLEM_MAKING_NORMAL:
        return problem_next_normal(m);
    default:
        return m->base + (float)i * m->step;
    }
}

static inline float problem_as_clean(const struct problem_maker *m, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return m->dirty || x < INFINITY ? x : bits_to_float(bits & 0xbfffffff);
}

static inline void problem_fill(struct problem_maker *m, float *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        z[i] = problem_as_clean(m, problem_next_logit(m, i));
    if (m->making < PROBLEM_MAKING_NORMAL)
        return;
    struct problem_input poked = m->in;
    while (poked.at < poked.end) {
        size_t i = problem_take(&poked, 3) % n;
        z[i] = problem_as_clean(m, bits_to_float((uint32_t)problem_take(&poked, 2) << 16));
    }
}

/* Towards zero, -inf and NaN as they are, and +inf too; what is too large becomes the largest. */
static inline uint16_t problem_half_of(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    if (!isfinite(x))
        return sign | (isnan(x) ? 0x7e00 : 0x7c00);
    if (fabsf(x) >= 65504.0f)
        return sign | 0x7bff;
    if (fabsf(x) < 0x1p-14f)
        return sign | (uint16_t)(fabsf(x) * 0x1p24f);
    float fraction = frexpf(fabsf(x), &exponent); /* in [1/2, 1) */
    return sign | (uint16_t)((exponent + 13) * 1024 + (int)(fraction * 2048.0f));
}

static inline float problem_half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float x = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
              : exponent == 0 ? ldexpf((float)fraction, -24)
                              : ldexpf((float)(fraction + 1024), exponent - 25);
    return half & 0x8000 ? -x : x;
}

/* Logits of the request's dtype from those in p->wide, which becomes the same numbers. */
static inline void problem_narrow(struct problem *p, size_t n)
{
    p->logits = malloc(n * dtype_bytes(p->request.dtype));
    if (p->logits == NULL)
        abort();
    if (p->request.dtype == DTYPE_F32)
        memcpy(p->logits, p->wide, n * sizeof *p->wide);
    double *longer = p->logits;
    for (size_t i = 0; i < n && p->request.dtype == DTYPE_F64; i++)
        longer[i] = (double)p->wide[i];
    uint16_t *narrow = p->logits;
    for (size_t i = 0; i < n && dtype_bytes(p->request.dtype) == 2; i++) {
        uint32_t bits;
        memcpy(&bits, &p->wide[i], sizeof bits);
        bool half = p->request.dtype == DTYPE_F16;
        narrow[i] = half ? problem_half_of(p->wide[i]) : (uint16_t)(bits >> 16);
        p->wide[i] = half ? problem_half_value(narrow[i]) : bits_to_float((uint32_t)narrow[i] << 16);
    }
}

/* Ids from one another by an odd step modulo 2^31, so that none comes twice; or, if bad, with one changed. */
static inline void problem_read_ids(struct problem *p, struct problem_input *in, bool bad)
{
    struct sample_request *r = &p->request;
    uint32_t step = (uint32_t)problem_take(in, 4) | 1, id = (uint32_t)problem_take(in, 4);
    size_t n = r->batch_size * r->vocab_size;
    p->candidate_ids = malloc(n * sizeof *p->candidate_ids);
    if (p->candidate_ids == NULL)
        abort();
    for (size_t i = 0; i < n; i++, id += step)
        p->candidate_ids[i] = (int32_t)(id & INT32_MAX);
    if (bad) {
        size_t at = problem_take(in, 3) % n;
        p->candidate_ids[at] = (int32_t)(uint32_t)problem_take(in, 4);
    }
    r->candidate_ids = p->candidate_ids;
}

static inline void problem_read_logits(struct problem *p, struct problem_input *in)
{
    struct sample_request *r = &p->request;
    size_t n = r->num_stacks * r->batch_size * r->vocab_size, bias = r->bias_rows * r->vocab_size;
    unsigned form = (unsigned)problem_take(in, 1);
    struct problem_maker m = {.making = (form & 0x7f) % PROBLEM_MAKINGS, .dirty = form >> 7};
    if (m.making >= PROBLEM_MAKING_NORMAL) {
        m.state = problem_take(in, 2);
        m.base = bits_to_float((uint32_t)problem_take(in, 2) << 16);
        m.step = bits_to_float((uint32_t)problem_take(in, 2) << 16);
    }
    m.in = *in;
    p->wide = malloc(n * sizeof *p->wide);
    p->bias = malloc(bias * sizeof *p->bias + (bias == 0));
    if (p->wide == NULL || p->bias == NULL)
        abort();
    problem_fill(&m, p->wide, n);
    problem_narrow(p, n);
    if (bias > 0)
        problem_fill(&m, p->bias, bias);
    r->logits = p->logits;
    r->bias = bias > 0 ? p->bias : NULL;
}

/* The request that these bytes spell out; bytes past their end are 0.  problem_fini() frees it. */
static inline void problem_init(struct problem *p, const uint8_t *data, size_t size)
{
    struct problem_input input = {data, data + size}, *in = &input;
    struct sample_request *r = &p->request;
    *p = (struct problem){.mix = {0}};
    problem_read_shape(r, in);
    r->n = problem_take_count(in);
    r->top_candidates = problem_take_count(in) - 1;
    for (size_t m = 0; m < r->num_stacks; m++) {
        float weight = bits_to_float((uint32_t)problem_take(in, 2) << 16);
        p->mix[m] = isfinite(weight) ? weight : 1.0f;
    }
    unsigned form = (unsigned)problem_take(in, 1), dtype = form >> 1 & 3;
    r->mix = form % 2 == 1 || r->num_stacks > 1 ? p->mix : NULL;
    r->dtype = dtype == 1 ? DTYPE_F16 : dtype == 2 ? DTYPE_BF16 : dtype == 3 ? DTYPE_F64 : DTYPE_F32;
    problem_read_columns(p, in);
    p->has_rules = form >> 5 & 1;
    if (p->has_rules)
        problem_read_rules(p, in);
    if (form >> 3 & 1)
        problem_read_ids(p, in, form >> 4 & 1);
    problem_read_logits(p, in);
}

static inline void problem_fini(struct problem *p)
{
    free(p->logits);
    free(p->bias);
    free(p->candidate_ids);
    free(p->wide);
}

#endif
