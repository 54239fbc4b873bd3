/* libFuzzer target of proto/safetensors.c and proto/tensors.c: the input is a body. */
#include "proto/tensors/safetensors.h"
#include "tests/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct arena arena = {0};
    struct sample_request request;
    struct fuzz_lender lender = {.lender.lend = fuzz_lend};
    char *body = fuzz_copy(data, size);
    enum status status = safetensors_decode(body, size, &arena, &lender.lender, 1, &request, &err);
    fuzz_require(lender.bytes <= 2 * size, "copies of the body's tensors, and halves as float32");
    fuzz_check_outcome(status, &request, &err);
    arena_fini(&arena);
    fuzz_return_loans(&lender);
    free(body);
    return 0;
}
