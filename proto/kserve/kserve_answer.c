#include "proto/kserve/kserve_answer.h"

#include "proto/answer/encode.h"
#include "proto/answer/writer.h"

#include <assert.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they lie in memory");

static const struct {
    const char *name, *type;
    size_t bytes;      /* of a value */
    size_t text_bytes; /* of a value as text, at most */
} kinds[KSERVE_OUTPUTS] = {
    [KSERVE_TOKEN_IDS] = {"token_ids", "INT32", sizeof(int32_t), WRITER_ID_BYTES},
    [KSERVE_SEED] = {"seed", "UINT64", sizeof(uint64_t), WRITER_WORD_BYTES},
    [KSERVE_LOGPROBS] = {"logprobs", "FP32", sizeof(float), WRITER_REAL_BYTES},
    [KSERVE_TOP_TOKEN_IDS] = {"top_token_ids", "INT32", sizeof(int32_t), WRITER_ID_BYTES},
    [KSERVE_TOP_PROBS] = {"top_probs", "FP32", sizeof(float), WRITER_REAL_BYTES},
    [KSERVE_MIROSTAT_MU] = {"mirostat_mu", "FP64", sizeof(double), WRITER_REAL_BYTES},
    [KSERVE_ADAPTIVE_STATE] = {"adaptive_state", "FP64", sizeof(double), WRITER_REAL_BYTES},
};

const char *kserve_output_name(enum kserve_output output)
{
    return kinds[output].name;
}

const char *kserve_output_type(enum kserve_output output)
{
    return kinds[output].type;
}

enum kserve_output kserve_find_output(const char *name)
{
    enum kserve_output output = KSERVE_TOKEN_IDS;
    while (output < KSERVE_OUTPUTS && strcmp(kinds[output].name, name) != 0)
        output++;
    return output;
}

/* ---- shapes ---- */

/* Values of a row; 0 for the seed that is of no row. */
static size_t width_of(const struct sample_request *r, enum kserve_output output)
{
    switch (output) {
    case KSERVE_TOKEN_IDS:
    case KSERVE_LOGPROBS:
        return r->n;
    case KSERVE_TOP_TOKEN_IDS:
    case KSERVE_TOP_PROBS:
        return r->top_candidates;
    case KSERVE_ADAPTIVE_STATE:
        return 2;
    default:
        return 1;
    }
}

static size_t rows_of(const struct sample_request *r, enum kserve_output output)
{
    return output == KSERVE_SEED && !r->seed.per_row ? 1 : r->batch_size;
}

size_t kserve_output_bytes(const struct sample_request *r, enum kserve_output output)
{
    return rows_of(r, output) * width_of(r, output) * kinds[output].bytes;
}

/* Longest text of an output beside its values: names, two dimensions, the size of its bytes, where they go.
 */
#define OUTPUT_BYTES ((size_t)256)

size_t kserve_answer_bound(const struct sample_request *r, const struct kserve_plan *plan)
{
    size_t bound = OUTPUT_BYTES + 6 * (r->id == NULL ? 0 : strlen(r->id)), bytes;
    for (size_t i = 0; i < plan->count; i++) {
        enum kserve_output output = plan->outputs[i];
        const struct kserve_pin *shared = &plan->shared[i];
        bool bytes_alone = plan->binary[i] || shared->region != NULL;
        size_t value = bytes_alone ? kinds[output].bytes : kinds[output].text_bytes;
        bound += OUTPUT_BYTES + (shared->region == NULL ? 0 : 6 * strlen(shared->place.region));
        if (__builtin_mul_overflow(value * width_of(r, output), rows_of(r, output), &bytes) ||
            __builtin_add_overflow(bound, bytes, &bound))
            return SIZE_MAX;
    }
    return bound;
}

/* ---- values ---- */

/* Whether candidate i of a row is there: fewer may have been kept than asked for. */
static bool has_candidate(const struct sample_result *result, size_t row, size_t i)
{
    return i < result->num_candidates[row];
}

static int32_t id_at(const struct sample_result *result, enum kserve_output output, size_t row, size_t i,
                     size_t width)
{
    if (output == KSERVE_TOKEN_IDS)
        return result->token_ids[row * width + i];
    return has_candidate(result, row, i) ? result->top_token_ids[row * result->max_candidates + i] : -1;
}

static double real_at(const struct sample_result *result, enum kserve_output output, size_t row, size_t i,
                      size_t width)
{
    if (output == KSERVE_LOGPROBS)
        return result->logprobs[row * width + i];
    if (output == KSERVE_MIROSTAT_MU)
        return result->mirostat_mu[row];
    if (output == KSERVE_ADAPTIVE_STATE)
        return result->adaptive_state[row * width + i];
    return has_candidate(result, row, i) ? result->top_probs[row * result->max_candidates + i] : 0;
}

static bool is_of_ids(enum kserve_output output)
{
    return output == KSERVE_TOKEN_IDS || output == KSERVE_TOP_TOKEN_IDS;
}

static void put_text(struct writer *w, const struct sample_request *r, const struct sample_result *result,
                     enum kserve_output output, size_t row)
{
    size_t width = width_of(r, output);
    for (size_t i = 0; i < width; i++) {
        if (row + i > 0)
            writer_put(w, ",");
        if (output == KSERVE_SEED)
            writer_word(w, r->seed.values[row]);
        else if (!is_of_ids(output)) {
            double real = real_at(result, output, row, i, width);
            writer_reals(w, &real, 1);
        } else {
            int32_t id = id_at(result, output, row, i, width);
            id < 0 ? writer_put(w, "-1") : writer_word(w, (uint64_t)id);
        }
    }
}

static void put_bytes(struct writer *w, const struct sample_request *r, const struct sample_result *result,
                      enum kserve_output output, size_t row)
{
    size_t width = width_of(r, output), bytes = kinds[output].bytes;
    for (size_t i = 0; i < width; i++, w->p += bytes) {
        if (output == KSERVE_SEED)
            memcpy(w->p, &r->seed.values[row], bytes);
        else if (!is_of_ids(output)) {
            double real = real_at(result, output, row, i, width);
            float single = (float)real;
            memcpy(w->p, bytes == sizeof single ? (void *)&single : (void *)&real, bytes);
        } else {
            int32_t id = id_at(result, output, row, i, width);
            memcpy(w->p, &id, bytes);
        }
    }
}

/* ---- the answer ---- */

static void put_shape(struct writer *w, const struct sample_request *r, enum kserve_output output)
{
    writer_put(w, ",\"shape\":[");
    writer_word(w, rows_of(r, output));
    if (output != KSERVE_SEED && output != KSERVE_MIROSTAT_MU) {
        writer_put(w, ",");
        writer_word(w, width_of(r, output));
    }
    writer_put(w, "]");
}

/* "parameters":{"shared_memory_region":"...","shared_memory_offset":0,"shared_memory_byte_size":4} */
static void put_place(struct writer *w, const struct kserve_place *place, size_t bytes)
{
    writer_put(w, ",\"parameters\":{\"shared_memory_region\":");
    writer_string(w, place->region, strlen(place->region));
    writer_put(w, ",\"shared_memory_offset\":");
    writer_word(w, place->offset);
    writer_put(w, ",\"shared_memory_byte_size\":");
    writer_word(w, bytes);
    writer_put(w, "}}");
}

/* {"name":"token_ids","datatype":"INT32","shape":[1,1],"data":[0]} */
static void put_output(struct writer *w, const struct sample_request *r, const struct sample_result *result,
                       const struct kserve_plan *plan, size_t i)
{
    enum kserve_output output = plan->outputs[i];
    size_t rows = rows_of(r, output);
    writer_put(w, "{\"name\":\"");
    writer_put(w, kinds[output].name);
    writer_put(w, "\",\"datatype\":\"");
    writer_put(w, kinds[output].type);
    writer_put(w, "\"");
    put_shape(w, r, output);
    if (plan->shared[i].region != NULL) {
        put_place(w, &plan->shared[i].place, kserve_output_bytes(r, output));
        return;
    }
    if (plan->binary[i]) {
        writer_put(w, ",\"parameters\":{\"binary_data_size\":");
        writer_word(w, kserve_output_bytes(r, output));
        writer_put(w, "}}");
        return;
    }
    writer_put(w, ",\"data\":[");
    for (size_t row = 0; row < rows; row++)
        put_text(w, r, result, output, row);
    writer_put(w, "]}");
}

/* The bytes of those outputs that go to shared memory, or of those that are part of the answer. */
static void put_all_bytes(struct writer *w, const struct sample_request *r,
                          const struct sample_result *result, const struct kserve_plan *plan, bool shared)
{
    for (size_t i = 0; i < plan->count; i++) {
        bool is_shared = plan->shared[i].region != NULL;
        if (is_shared != shared || (!shared && !plan->binary[i]))
            continue;
        for (size_t row = 0; row < rows_of(r, plan->outputs[i]); row++)
            put_bytes(w, r, result, plan->outputs[i], row);
    }
}

size_t kserve_answer_encode(const struct sample_request *r, const struct sample_result *result,
                            const struct kserve_plan *plan, char *out, size_t *header_length)
{
    struct writer w = {out};
    writer_put(&w, "{");
    if (r->id != NULL) {
        writer_put(&w, "\"id\":");
        writer_string(&w, r->id, strlen(r->id));
        writer_put(&w, ",");
    }
    writer_put(&w,
               "\"model_name\":\"" KSERVE_MODEL "\",\"model_version\":\"" KSERVE_VERSION "\",\"outputs\":[");
    for (size_t i = 0; i < plan->count; i++) {
        writer_put(&w, i == 0 ? "" : ",");
        put_output(&w, r, result, plan, i);
    }
    writer_put(&w, "]}");
    char *data = w.p;
    put_all_bytes(&w, r, result, plan, false);
    char *end = w.p;
    put_all_bytes(&w, r, result, plan, true);
    *header_length = end > data ? (size_t)(data - out) : 0;
    return (size_t)(end - out);
}

enum status kserve_answer_share(const struct sample_request *r, const struct kserve_plan *plan,
                                struct kserve_memory *memory, const char *data, struct error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct kserve_pin *shared = &plan->shared[i];
        if (shared->region == NULL)
            continue;
        size_t bytes = kserve_output_bytes(r, plan->outputs[i]);
        if (memory->write(shared, data, bytes, err) != STATUS_OK)
            return err->status;
        data += bytes;
    }
    return STATUS_OK;
}

size_t kserve_answer_error(const struct error *err, char *out, size_t size)
{
    assert(size >= ENCODE_ERROR_BYTES);
    (void)size;
    struct writer w = {out};
    writer_put(&w, "{\"error\":");
    writer_string(&w, err->message, strlen(err->message));
    writer_put(&w, "}");
    return (size_t)(w.p - out);
}
