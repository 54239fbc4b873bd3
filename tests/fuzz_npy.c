/* libFuzzer target of proto/npy.c: the input is a query, in lines as in fuzz_raw.c, and then the body. */
#include "proto/npy.h"
#include "tests/fuzz.h"

#define MAX_FIELDS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct arena arena;
    struct sample_request request;
    struct query_field fields[MAX_FIELDS];
    struct fuzz_lender lender = {.lender.lend = fuzz_lend};
    char *text = malloc(size + 1), *begin;
    memcpy(text, data, size);
    text[size] = '\0';
    size_t count = fuzz_split(text, fields, MAX_FIELDS, &begin);
    size_t length = begin < text + size ? (size_t)(text + size - begin) : 0;
    char *body = fuzz_copy((const uint8_t *)begin, length);
    fuzz_require(arena_init(&arena, query_arena_bytes(fields, count), &err) == STATUS_OK, "arena");
    enum status status = npy_decode(fields, count, body, length, &arena, &lender.lender, 1, &request, &err);
    fuzz_require(lender.bytes <= length, "a copy of the body's numbers");
    if (status == STATUS_OK) {
        fuzz_check_request(&request);
        fuzz_check_logits(&request);
    } else {
        fuzz_require(status == STATUS_INVALID, "status");
        fuzz_check_error(&err, status);
    }
    arena_fini(&arena);
    fuzz_return_loans(&lender);
    free(body);
    free(text);
    return 0;
}
