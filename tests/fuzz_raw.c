/* libFuzzer target of proto/raw.c: the input is a query and a body (struct fuzz_query). */
#include "proto/tensors/raw.h"
#include "tests/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_view(const struct sample_request *r, const struct fuzz_query *q)
{
    size_t numbers = r->num_stacks * r->batch_size * r->vocab_size;
    fuzz_require(r->logits == q->body, "the body itself");
    fuzz_require(numbers * dtype_bytes(r->dtype) == q->length, "all of the body");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct arena arena;
    struct sample_request request;
    struct fuzz_query q;
    fuzz_query_init(&q, data, size);
    fuzz_require(arena_init(&arena, query_arena_bytes(q.fields, q.count), &err) == STATUS_OK, "arena");
    enum status status = raw_decode(q.fields, q.count, q.body, q.length, &arena, 1, &request, &err);
    if (status == STATUS_OK)
        check_view(&request, &q);
    fuzz_require(status != STATUS_TOO_LARGE, "nothing is larger than the body");
    fuzz_check_outcome(status, &request, &err);
    arena_fini(&arena);
    fuzz_query_fini(&q);
    return 0;
}
