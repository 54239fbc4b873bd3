#include "proto/kserve/kserve.h"

#include "core/rules/chain.h"
#include "proto/kserve/kserve_header.h"
#include "proto/kserve/kserve_values.h"

#include <stdlib.h>
#include <string.h>

/* Names and texts of a request, together: far more than one has. */
#define MAX_TEXTS ((size_t)64 << 10)

#define SHARED_ALIGNMENT ((size_t)8) /* of any type */

/* ---- bytes behind it ---- */

static enum status check_size(const struct kserve_input *in, size_t *bytes, struct error *err)
{
    if (tensors_bytes(&in->tensor, bytes) && *bytes == in->bytes)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "wrong_length",
                     "the input %.64s has a %s of %zu, which is not what its datatype and shape say",
                     in->tensor.name, in->region == NULL ? "binary_data_size" : "shared_memory_byte_size",
                     in->bytes);
}

/* Give each input that has no JSON its bytes of data[length], all of which are some input's. */
static enum status place_inputs(struct kserve_header *h, const char *data, size_t length, struct error *err)
{
    size_t left = length, bytes;
    for (struct kserve_input *in = h->inputs; in < h->inputs + h->num_inputs; in++) {
        if (in->json != NULL || in->region != NULL)
            continue;
        if (check_size(in, &bytes, err) != STATUS_OK)
            return err->status;
        if (bytes > left)
            return error_set(err, STATUS_INVALID, "wrong_length",
                             "the input %.64s has %zu bytes; the body has %zu left for it", in->tensor.name,
                             bytes, left);
        in->tensor.data = data + (length - left);
        left -= bytes;
    }
    if (left > 0)
        return error_set(err, STATUS_INVALID, "wrong_length",
                         "the body has %zu bytes behind its JSON header, %zu more than its inputs", length,
                         left);
    return STATUS_OK;
}

static enum status no_memory_shared(const char *name, struct error *err)
{
    return error_set(err, STATUS_INVALID, "unknown_parameter",
                     "%.64s is in shared memory; system_shared_memory is off", name);
}

static enum status fetch(const struct kserve_input *in, struct kserve_memory *memory, void *out,
                         struct error *err)
{
    struct kserve_place place = {in->region, in->offset, in->bytes};
    struct kserve_pin pin;
    if (memory->pin(memory, &place, &pin, err) != STATUS_OK)
        return err->status;
    memcpy(out, pin.data, in->bytes);
    enum status status = memory->check(&pin, err);
    memory->unpin(memory, &pin);
    return status;
}

/*
 * Logits in shared memory stay there, since each is read once, whatever is done with it.  Where they do not
 * lie aligned they are copied like any other input.
 */
static enum status pin_logits(struct kserve_input *in, struct kserve_memory *memory, struct kserve_plan *plan,
                              struct error *err)
{
    struct kserve_place place = {in->region, in->offset, in->bytes};
    if (memory->pin(memory, &place, &plan->logits, err) != STATUS_OK)
        return err->status;
    if ((uintptr_t)plan->logits.data % tensors_type_bytes(in->tensor.type) == 0)
        in->tensor.data = plan->logits.data;
    else
        memory->unpin(memory, &plan->logits);
    return STATUS_OK;
}

static enum status find_logits(struct kserve_header *h, struct kserve_memory *memory,
                               struct kserve_plan *plan, struct error *err)
{
    size_t bytes;
    for (struct kserve_input *in = h->inputs; in < h->inputs + h->num_inputs; in++) {
        if (in->region == NULL)
            continue;
        if (memory == NULL)
            return no_memory_shared(in->tensor.name, err);
        if (check_size(in, &bytes, err) != STATUS_OK)
            return err->status;
        if (strcmp(in->tensor.name, "logits") == 0 && plan->logits.region == NULL &&
            pin_logits(in, memory, plan, err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}

/* The other inputs in shared memory, as one loan with room to align each. */
static enum status fetch_inputs(struct kserve_header *h, struct kserve_memory *memory, struct lender *lender,
                                struct error *err)
{
    size_t room = 0, used = 0;
    for (struct kserve_input *in = h->inputs; in < h->inputs + h->num_inputs; in++) {
        if (in->region == NULL || in->tensor.data != NULL)
            continue;
        if (__builtin_add_overflow(room, in->bytes, &room) ||
            __builtin_add_overflow(room, SHARED_ALIGNMENT, &room))
            return error_set(err, STATUS_TOO_LARGE, "too_large", "the inputs are larger than any memory");
    }
    if (room == 0)
        return STATUS_OK;
    char *loan = lender->lend(lender, room, err);
    if (loan == NULL)
        return err->status;
    for (struct kserve_input *in = h->inputs; in < h->inputs + h->num_inputs; in++) {
        if (in->region == NULL || in->tensor.data != NULL)
            continue;
        if (fetch(in, memory, loan + used, err) != STATUS_OK)
            return err->status;
        in->tensor.data = loan + used;
        used += (in->bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    }
    return STATUS_OK;
}

/* ---- the request ---- */

static size_t arena_bytes(const struct kserve_header *h)
{
    size_t bytes = query_arena_bytes(h->fields, h->num_fields);
    for (const struct kserve_input *in = h->inputs; in < h->inputs + h->num_inputs; in++) {
        bytes += tensors_arena_bytes(&in->tensor, 1);
        if (in->tensor.data == NULL)
            bytes += kserve_values_count(in->json, in->json_end) * sizeof(uint64_t) + ARENA_ALIGNMENT;
    }
    return bytes;
}

static enum status set_input(struct tensors *t, struct kserve_input *in, struct error *err)
{
    if (in->tensor.data == NULL) {
        size_t count = kserve_values_count(in->json, in->json_end);
        void *values = arena_alloc(t->params.arena, count, tensors_type_bytes(in->tensor.type));
        if (values == NULL)
            return error_set(err, STATUS_INTERNAL, "internal",
                             "data has more values than were reckoned with");
        if (kserve_values_read(in->json, in->json_end, &in->tensor, values, err) != STATUS_OK)
            return err->status;
        in->tensor.data = values;
    }
    return tensors_set(t, &in->tensor, err);
}

static enum status set_all(struct kserve_header *h, struct arena *arena, struct lender *lender,
                           uint64_t fresh_seed, struct sample_request *out, struct error *err)
{
    struct tensors t;
    if (arena_reserve(arena, arena_bytes(h), err) != STATUS_OK)
        return err->status;
    tensors_begin(&t, arena, lender);
    for (size_t i = 0; i < h->num_inputs; i++)
        if (set_input(&t, &h->inputs[i], err) != STATUS_OK)
            return err->status;
    for (size_t i = 0; i < h->num_fields; i++)
        if (tensors_set_text(&t, h->fields[i].key, h->fields[i].value, err) != STATUS_OK)
            return err->status;
    return tensors_finish(&t, fresh_seed, out, err);
}

/* ---- what to answer ---- */

static void add_output(const struct kserve_header *h, struct kserve_plan *plan, enum kserve_output output)
{
    plan->binary[plan->count] = h->binary_output;
    plan->outputs[plan->count++] = output;
}

static void choose_implied(const struct kserve_header *h, const struct sample_request *r,
                           struct kserve_plan *plan)
{
    add_output(h, plan, KSERVE_TOKEN_IDS);
    add_output(h, plan, KSERVE_SEED);
    if (r->logprobs)
        add_output(h, plan, KSERVE_LOGPROBS);
    if (r->top_candidates > 0) {
        add_output(h, plan, KSERVE_TOP_TOKEN_IDS);
        add_output(h, plan, KSERVE_TOP_PROBS);
    }
    if (chain_runs(&r->chain, RULE_mirostat))
        add_output(h, plan, KSERVE_MIROSTAT_MU);
    if (chain_runs(&r->chain, RULE_adaptive_p))
        add_output(h, plan, KSERVE_ADAPTIVE_STATE);
}

/* A state is there where a row runs the rule that it is of. */
static enum status check_state(const struct sample_request *r, enum kserve_output output, struct error *err)
{
    bool mirostat = output == KSERVE_MIROSTAT_MU, adaptive = output == KSERVE_ADAPTIVE_STATE;
    if ((!mirostat && !adaptive) || chain_runs(&r->chain, mirostat ? RULE_mirostat : RULE_adaptive_p))
        return STATUS_OK;
    const char *param = mirostat ? "mirostat" : "adaptive_target";
    error_set(err, STATUS_INVALID, "missing_parameter",
              "the output %s is asked for and %s, which makes it, is not set", kserve_output_name(output),
              param);
    return error_at(err, param, ERROR_NO_ROW);
}

/* Outputs decide what is worked out: logprobs need no parameter, and nothing is done for what is not asked.
 */
static enum status choose_outputs(const struct kserve_header *h, struct sample_request *r,
                                  struct kserve_plan *plan, struct error *err)
{
    bool wanted[KSERVE_OUTPUTS] = {false};
    if (h->num_asked == 0) {
        choose_implied(h, r, plan);
        return STATUS_OK;
    }
    for (const struct kserve_asked *asked = h->asked; asked < h->asked + h->num_asked; asked++) {
        enum kserve_output output = kserve_find_output(asked->name);
        wanted[output] = true;
        if (check_state(r, output, err) != STATUS_OK)
            return err->status;
        add_output(h, plan, output);
        if (asked->says)
            plan->binary[plan->count - 1] = asked->binary;
    }
    bool candidates = wanted[KSERVE_TOP_TOKEN_IDS] || wanted[KSERVE_TOP_PROBS];
    if (candidates && r->top_candidates == 0) {
        error_set(err, STATUS_INVALID, "missing_parameter",
                  "the output %s is asked for and top_candidates, which says how many, is 0",
                  kserve_output_name(wanted[KSERVE_TOP_TOKEN_IDS] ? KSERVE_TOP_TOKEN_IDS : KSERVE_TOP_PROBS));
        return error_at(err, "top_candidates", ERROR_NO_ROW);
    }
    r->logprobs = wanted[KSERVE_LOGPROBS];
    r->top_candidates = candidates ? r->top_candidates : 0;
    return STATUS_OK;
}

/* Take the places into use that outputs go to, each of which has room for its output. */
static enum status pin_outputs(const struct kserve_header *h, struct kserve_memory *memory,
                               const struct sample_request *r, struct kserve_plan *plan, struct error *err)
{
    for (size_t i = 0; i < h->num_asked; i++) {
        const struct kserve_place *place = &h->asked[i].place;
        size_t bytes = kserve_output_bytes(r, plan->outputs[i]);
        if (place->region == NULL)
            continue;
        if (memory == NULL)
            return no_memory_shared(h->asked[i].name, err);
        if (bytes > place->bytes)
            return error_set(err, STATUS_INVALID, "out_of_range",
                             "the output %.64s has %zu bytes; its shared_memory_byte_size is %zu",
                             h->asked[i].name, bytes, place->bytes);
        if (memory->pin(memory, place, &plan->shared[i], err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}

enum status kserve_check_logits(const struct kserve_plan *plan, struct kserve_memory *memory,
                                struct error *err)
{
    return plan->logits.region == NULL ? STATUS_OK : memory->check(&plan->logits, err);
}

void kserve_unpin(struct kserve_plan *plan, struct kserve_memory *memory)
{
    if (plan->logits.region != NULL)
        memory->unpin(memory, &plan->logits);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->shared[i].region != NULL)
            memory->unpin(memory, &plan->shared[i]);
    plan->count = 0;
}

enum status kserve_decode(const struct kserve_body *body, struct arena *arena, struct lender *lender,
                          uint64_t fresh_seed, struct sample_request *out, struct kserve_plan *plan,
                          struct error *err)
{
    *plan = (struct kserve_plan){.count = 0};
    size_t length = body->length, bytes = body->header_length;
    if (bytes == KSERVE_ALL_JSON)
        bytes = length;
    if (bytes > length)
        return error_set(err, STATUS_INVALID, "malformed_kserve",
                         "Inference-Header-Content-Length is %zu; the body has %zu bytes", bytes, length);
    size_t room = (bytes < MAX_TEXTS ? bytes : MAX_TEXTS) + 1;
    struct kserve_header *h = malloc(sizeof *h);
    char *texts = malloc(room);
    enum status status = STATUS_NO_MEMORY;
    if (h == NULL || texts == NULL) {
        error_set(err, status, "no_memory", "cannot allocate memory for the request");
        goto free_header;
    }
    status = kserve_header_read(body->bytes, body->bytes + bytes, texts, room, lender, h, err);
    if (status == STATUS_OK)
        status = place_inputs(h, body->bytes + bytes, length - bytes, err);
    if (status == STATUS_OK)
        status = find_logits(h, body->memory, plan, err);
    if (status == STATUS_OK)
        status = fetch_inputs(h, body->memory, lender, err);
    if (status == STATUS_OK)
        status = set_all(h, arena, lender, fresh_seed, out, err);
    if (status == STATUS_OK) {
        out->logits_are_shared = plan->logits.region != NULL;
        status = choose_outputs(h, out, plan, err);
    }
    if (status == STATUS_OK)
        status = pin_outputs(h, body->memory, out, plan, err);

free_header:
    free(texts);
    free(h);
    return status;
}
