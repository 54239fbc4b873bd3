/*
 * libFuzzer target of proto/raw.c: the input is a query, in lines `key=value` or `key` up to an empty line,
 * and then the body.
 */
#include "proto/raw.h"
#include "tests/fuzz.h"

#define MAX_FIELDS 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct arena arena;
    struct sample_request request;
    struct query_field fields[MAX_FIELDS];
    char *text = malloc(size + 1), *begin;
    memcpy(text, data, size);
    text[size] = '\0';
    size_t count = fuzz_split(text, fields, MAX_FIELDS, &begin);
    size_t length = begin < text + size ? (size_t)(text + size - begin) : 0;
    char *body = fuzz_copy((const uint8_t *)begin, length);
    fuzz_require(arena_init(&arena, query_arena_bytes(fields, count), &err) == STATUS_OK, "arena");
    enum status status = raw_decode(fields, count, body, length, &arena, 1, &request, &err);
    if (status == STATUS_OK) {
        fuzz_require(request.logits == body, "the body itself");
        fuzz_require(request.num_stacks * request.batch_size * request.vocab_size *
                             dtype_bytes(request.dtype) ==
                         length,
                     "all of the body");
        fuzz_check_request(&request);
        fuzz_check_logits(&request);
    } else {
        fuzz_require(status == STATUS_INVALID, "status");
        fuzz_check_error(&err, status);
    }
    arena_fini(&arena);
    free(body);
    free(text);
    return 0;
}
