#ifndef TESTS_BODIES_H
#define TESTS_BODIES_H

/* Bodies where a decoder may look at NUMBERS_PADDING bytes behind them and not one more. */

#include "core/kernels/kernels.h"
#include "core/row/load.h"
#include "core/rules/rule.h"
#include "proto/json/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BODIES_PAGE       ((size_t)4096)
#define BODIES_MAX_BYTES  ((size_t)4 << 20)
#define BODIES_FRESH_SEED UINT64_C(12345)

static char *bodies_guard; /* a page that faults, behind all the room there is */

static inline bool bodies_map(void)
{
    char *room = mmap(NULL, BODIES_MAX_BYTES + BODIES_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return false;
    bodies_guard = room + BODIES_MAX_BYTES;
    return mprotect(bodies_guard, BODIES_PAGE, PROT_NONE) == 0;
}

/* Put text where its padding, all of this one character, ends at the guard page. */
static inline const char *bodies_place(const char *text, size_t length, char padding)
{
    if (bodies_guard == NULL && !bodies_map())
        return NULL;
    char *end = bodies_guard - NUMBERS_PADDING;
    memset(end, padding, NUMBERS_PADDING);
    memcpy(end - length, text, length);
    return end - length;
}

/* A copy as a server holds it, aligned and of just this length; the caller frees it. */
static inline char *bodies_copy(const char *bytes, size_t length)
{
    void *copy = NULL;
    if (posix_memalign(&copy, ARENA_ALIGNMENT, length + (length == 0)) != 0)
        abort();
    memcpy(copy, bytes, length);
    return copy;
}

/* A request and all that it points at. */
struct bodies_request {
    struct lender lender; /* first: bodies_lend() is called with it */
    enum status status;
    struct error err;
    struct arena arena;
    void *loans[LENDER_MOST];
    size_t num_loans, lent_bytes;
    struct sample_request request;
};

/* Each loan is a block of its own, so that what is written past it is noticed. */
static inline void *bodies_lend(struct lender *lender, size_t bytes, struct error *err)
{
    struct bodies_request *r = (struct bodies_request *)lender;
    void *loan = r->num_loans < LENDER_MOST ? malloc(bytes) : NULL;
    if (loan == NULL) {
        error_set(err, STATUS_OVERLOADED, "overloaded", "no loan");
        return NULL;
    }
    r->lent_bytes += bytes;
    return r->loans[r->num_loans++] = loan;
}

static inline void bodies_fini(struct bodies_request *r)
{
    while (r->num_loans > 0)
        free(r->loans[--r->num_loans]);
    arena_fini(&r->arena);
}

/* Decode a JSON body; r is to be given to bodies_fini(). */
static inline void bodies_decode(struct bodies_request *r, const char *text, size_t length, char padding)
{
    *r = (struct bodies_request){.status = STATUS_NO_MEMORY, .lender.lend = bodies_lend};
    const char *body = bodies_place(text, length, padding);
    if (body == NULL || arena_init(&r->arena, json_arena_bytes(length), &r->err) != STATUS_OK)
        return;
    r->status = json_decode(body, length, &r->arena, &r->lender, BODIES_FRESH_SEED, &r->request, &r->err);
}

/* ---- a request in words: what is not as by default ---- */

static inline void bodies_put_column(FILE *out, const char *name, const struct column *c, size_t rows,
                                     double initial)
{
    if (!c->per_row && c->values[0] == initial)
        return;
    fprintf(out, " %s=%s", name, c->per_row ? "[" : "");
    for (size_t i = 0; i < (c->per_row ? rows : 1); i++)
        fprintf(out, "%s%.17g", i == 0 ? "" : ",", c->values[i]);
    fputs(c->per_row ? "]" : "", out);
}

static inline void bodies_put_list(FILE *out, struct id_list list)
{
    fputs("[", out);
    for (size_t i = 0; i < list.n; i++) {
        fprintf(out, "%s%d", i == 0 ? "" : ",", (int)list.ids[i]);
        if (list.biases != NULL)
            fprintf(out, ":%.9g", (double)list.biases[i]);
    }
    fputs("]", out);
}

static inline void bodies_put_row(FILE *out, const struct sample_request *r, const struct rule_param *param,
                                  size_t row)
{
    const struct rule_value *value = &r->rule_values[param->slot];
    if (param->kind == KIND_IDS || param->kind == KIND_BIASES) {
        bodies_put_list(out, rule_ids(r, param->slot, row));
    } else if (param->kind == KIND_SEQUENCES) {
        struct sequence_range range = rule_sequences(r, param->slot, row);
        fputs("[", out);
        for (size_t i = 0; i < range.n; i++)
            bodies_put_list(out, id_lists_nth(range.lists, range.first + i));
        fputs("]", out);
    } else if (param->kind == KIND_BITMASK) {
        for (size_t i = 0; i < value->bitmask.words_per_row; i++)
            fprintf(out, "%s%x", i == 0 ? "" : ",",
                    value->bitmask.words[row * value->bitmask.words_per_row + i]);
    } else {
        fprintf(out, "%.17g,%.17g", value->number.values[2 * row], value->number.values[2 * row + 1]);
    }
}

/* One value for all rows, or "(value of row 0)(value of row 1)". */
static inline void bodies_put_rule(FILE *out, const struct sample_request *r, const struct rule_param *param)
{
    const struct rule_value *value = &r->rule_values[param->slot];
    bool per_row = param->kind == KIND_SEQUENCES ? value->sequences.per_row
                   : param->kind == KIND_BITMASK ? value->bitmask.per_row
                   : param->kind == KIND_PAIR    ? value->number.per_row
                                                 : value->ids.per_row;
    if (param->kind <= KIND_SWITCH) {
        bodies_put_column(out, param->name, &value->number, r->batch_size, param->off);
        return;
    }
    fprintf(out, " %s=", param->name);
    for (size_t row = 0; row < (per_row ? r->batch_size : 1); row++) {
        fputs(per_row ? "(" : "", out);
        bodies_put_row(out, r, param, row);
        fputs(per_row ? ")" : "", out);
    }
}

static inline void bodies_put_words(FILE *out, const char *name, const struct column_u64 *c, size_t rows,
                                    uint64_t initial)
{
    if (!c->per_row && c->values[0] == initial)
        return;
    fprintf(out, " %s=%s", name, c->per_row ? "[" : "");
    for (size_t i = 0; i < (c->per_row ? rows : 1); i++)
        fprintf(out, "%s%llu", i == 0 ? "" : ",", (unsigned long long)c->values[i]);
    fputs(c->per_row ? "]" : "", out);
}

static inline void bodies_put_floats(FILE *out, const char *name, const float *x, size_t n)
{
    fprintf(out, "%s", name);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s%.9g", i == 0 ? "" : ",", (double)x[i]);
}

static inline void bodies_put_logits(FILE *out, const struct sample_request *r)
{
    size_t n = r->num_stacks * r->batch_size * r->vocab_size;
    float *wide = malloc(n * sizeof *wide);
    load_floats(kernels_tables[0], r->dtype, r->logits, n, wide);
    bodies_put_floats(out,
                      r->dtype == DTYPE_F16    ? " f16: "
                      : r->dtype == DTYPE_BF16 ? " bf16: "
                      : r->dtype == DTYPE_F64  ? " f64: "
                                               : ": ",
                      wide, n);
    free(wide);
}

/* "1x2x3: 1,2,3,4,5,6 top_k=40" into text: stacks, rows and tokens, then the logits and the rest. */
static inline const char *bodies_describe(const struct sample_request *r, char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");
    fprintf(out, "%zux%zux%zu", r->num_stacks, r->batch_size, r->vocab_size);
    bodies_put_logits(out, r);
    if (r->mix != NULL)
        bodies_put_floats(out, " mix=", r->mix, r->num_stacks);
    if (r->bias != NULL)
        bodies_put_floats(out, r->bias_rows == 1 ? " bias=" : " biases=", r->bias,
                          r->bias_rows * r->vocab_size);
    for (size_t i = 0; r->candidate_ids != NULL && i < r->batch_size * r->vocab_size; i++)
        fprintf(out, "%s%d", i == 0 ? " ids=" : ",", (int)r->candidate_ids[i]);
    for (unsigned slot = 0; slot < NUM_SLOTS; slot++)
        if (r->rule_values[slot].sent)
            bodies_put_rule(out, r, rule_param_of((enum rule_slot)slot));
    if (r->engine != ENGINE_REFERENCE)
        fprintf(out, " engine=%s", engine_names[r->engine]);
    for (size_t i = 0; i < r->num_order; i++)
        fprintf(out, "%s%s", i == 0 ? " order=" : ",", rules[r->order[i]]->name);
    if (r->top_k_ties != TOP_K_TIES_ENGINE)
        fprintf(out, " ties=%d", (int)r->top_k_ties);
    if (r->top_p_crossing != TOP_P_CROSSING_ENGINE)
        fprintf(out, " crossing=%d", (int)r->top_p_crossing);
    bodies_put_words(out, "seed", &r->seed, r->batch_size, BODIES_FRESH_SEED);
    bodies_put_words(out, "offset", &r->offset, r->batch_size, 0);
    if (r->n != 1)
        fprintf(out, " n=%u", r->n);
    if (r->top_candidates != 0)
        fprintf(out, " top_candidates=%u", r->top_candidates);
    fputs(r->logprobs ? " logprobs" : "", out);
    fputs(r->logprobs_mode == LOGPROBS_RAW ? " raw" : "", out);
    if (r->id != NULL)
        fprintf(out, " id=%s", r->id);
    fclose(out);
    return text;
}

#endif
