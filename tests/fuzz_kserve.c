/* libFuzzer target of proto/kserve*.c: two bytes, the header's length, then a body. */
#include "proto/kserve/kserve.h"
#include "tests/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An answer of any values, held to its bound. */
static void check_answer(const struct sample_request *r, const struct kserve_plan *plan)
{
    size_t most = r->top_candidates < r->vocab_size ? r->top_candidates : r->vocab_size;
    size_t draws = r->batch_size * r->n, candidates = r->batch_size * most, header;
    size_t values = (draws > candidates ? draws : candidates) + 2 * r->batch_size; /* states, too */
    size_t bound = kserve_answer_bound(r, plan);
    if (bound > (size_t)1 << 20)
        return;
    char *out = malloc(bound);
    int32_t *ids = calloc(values + 1, sizeof *ids);
    double *reals = calloc(values + 1, sizeof *reals);
    uint32_t *counts = calloc(r->batch_size, sizeof *counts);
    for (size_t i = 0; i < values; i++) {
        ids[i] = INT32_MAX;
        reals[i] = -1.23456789e-300;
    }
    for (size_t row = 0; row < r->batch_size; row++)
        counts[row] = (uint32_t)(row % 2 == 0 ? most : most / 2);
    struct sample_result result = {ids,  r->logprobs ? reals : NULL, counts, ids, reals, reals, most, reals,
                                   reals};
    size_t length = kserve_answer_encode(r, &result, plan, out, &header);
    fuzz_require(length <= bound, "an answer within its bound");
    fuzz_check_json(out, header == 0 ? length : header);
    free(counts);
    free(reals);
    free(ids);
    free(out);
}

/* Memory with one region, "a", of 64 bytes, which begins where nothing is aligned; pins are counted. */
static size_t pins;
static _Alignas(8) const char region[65];

static enum status pin(struct kserve_memory *memory, const struct kserve_place *place, struct kserve_pin *out,
                       struct error *err)
{
    if (strcmp(place->region, "a") != 0 || place->offset > 64 || place->bytes > 64 - place->offset)
        return error_set(err, STATUS_INVALID, "out_of_range", "no such place");
    *out = (struct kserve_pin){memory, {"a", place->offset, place->bytes}, region + 1 + place->offset};
    pins++;
    return STATUS_OK;
}

static void unpin(struct kserve_memory *memory, struct kserve_pin *pinned)
{
    fuzz_require(pinned->region == memory && pins > 0, "a pin");
    pinned->region = NULL;
    pins--;
}

static enum status check(const struct kserve_pin *pinned, struct error *err)
{
    (void)err;
    fuzz_require(pinned->region != NULL && pins > 0, "a pin");
    return STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kserve_memory memory = {.pin = pin, .unpin = unpin, .check = check};
    struct error err;
    struct arena arena = {0};
    struct sample_request request;
    struct kserve_plan plan;
    struct fuzz_lender lender = {.lender.lend = fuzz_lend};
    uint16_t header = 0;
    if (size < sizeof header)
        return 0;
    memcpy(&header, data, sizeof header);
    size -= sizeof header;
    char *body = malloc(size + NUMBERS_PADDING); /* one that is full up to what may be looked at */
    memcpy(body, data + sizeof header, size);
    memset(body + size, '1', NUMBERS_PADDING);
    enum status status = kserve_decode(
        &(struct kserve_body){body, size, header == UINT16_MAX ? KSERVE_ALL_JSON : header, &memory}, &arena,
        &lender.lender, 1, &request, &plan, &err);
    fuzz_require(lender.bytes <= 4 * size + 4 + PARAMS_MAX * 72, "loans for the body's numbers");
    fuzz_check_outcome(status, &request, &err);
    if (status == STATUS_OK)
        check_answer(&request, &plan);
    kserve_unpin(&plan, &memory);
    fuzz_require(pins == 0, "pins that are let go");
    arena_fini(&arena);
    fuzz_return_loans(&lender);
    free(body);
    return 0;
}
