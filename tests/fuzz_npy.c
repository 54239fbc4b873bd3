/* libFuzzer target of proto/npy.c: the input is a query and a body (struct fuzz_query). */
#include "proto/tensors/npy.h"
#include "tests/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct arena arena;
    struct sample_request request;
    struct fuzz_query q;
    struct fuzz_lender lender = {.lender.lend = fuzz_lend};
    fuzz_query_init(&q, data, size);
    fuzz_require(arena_init(&arena, query_arena_bytes(q.fields, q.count), &err) == STATUS_OK, "arena");
    enum status status =
        npy_decode(q.fields, q.count, q.body, q.length, &arena, &lender.lender, 1, &request, &err);
    fuzz_require(lender.bytes <= q.length, "a copy of the body's numbers");
    fuzz_require(status != STATUS_TOO_LARGE, "nothing is larger than the body");
    fuzz_check_outcome(status, &request, &err);
    arena_fini(&arena);
    fuzz_return_loans(&lender);
    fuzz_query_fini(&q);
    return 0;
}
