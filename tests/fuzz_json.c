/*
 * libFuzzer target of proto/json.c and proto/encode.c: the input is a body.
 *
 * The text ends where the heap block does, padding apart.  What is accepted must keep what request.h promises
 * and be valid for cJSON, and its answer must fit its bound and be JSON; a refusal must be a whole error.
 */
#include "proto/answer/encode.h"
#include "proto/json/json.h"
#include "proto/json/json_scan.h"
#include "tests/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An accepted body, logits too, must be JSON for the scanner and, but for its short numbers, for cJSON. */
static void check_body(const char *body, size_t size)
{
    struct error err;
    struct json_scan scan = {.start = body, .end = body + size, .p = body, .err = &err};
    json_scan_mark(&scan);
    const char *text = scan.p; /* cJSON has its own idea of the mark */
    json_scan_space(&scan);
    if (json_scan_value(&scan) != STATUS_OK) {
        fuzz_require(strcmp(err.code, "out_of_range") == 0, "accepted, but no JSON");
        return;
    }
    json_scan_space(&scan);
    fuzz_require(scan.p == scan.end, "nothing behind it");
    cJSON *root = cJSON_ParseWithLength(text, (size_t)(scan.end - text));
    fuzz_require(root != NULL, "accepted, but not by cJSON");
    cJSON_Delete(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct arena arena;
    struct sample_request request;
    char *body = malloc(size + NUMBERS_PADDING);
    memcpy(body, data, size);
    memset(body + size, size % 2 == 0 ? '7' : ']', NUMBERS_PADDING);
    struct fuzz_lender lender = {.lender.lend = fuzz_lend};
    fuzz_require(arena_init(&arena, json_arena_bytes(size), &err) == STATUS_OK, "arena");
    enum status status = json_decode(body, size, &arena, &lender.lender, 1, &request, &err);
    fuzz_require(lender.bytes <= 16 * size + 64, /* a list is two brackets, and has 16 bytes of places */
                 "no more lent than the body can need");
    if (status == STATUS_OK)
        check_body(body, size);
    fuzz_check_outcome(status, &request, &err);
    arena_fini(&arena);
    fuzz_return_loans(&lender);
    free(body);
    return 0;
}
