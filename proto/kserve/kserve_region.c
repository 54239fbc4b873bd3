#include "proto/kserve/kserve_region.h"

#include "proto/json/json_reader.h"

#include <stdbool.h>
#include <string.h>

enum { KEY, OFFSET, BYTE_SIZE, MEMBERS };

static const char *const members[MEMBERS] = {"key", "offset", "byte_size"};

struct reading {
    struct kserve_region *region;
    bool seen[MEMBERS];
};

static enum status read_member(struct json_reader *r, const char *key, void *out)
{
    struct reading *reading = out;
    size_t i = 0;
    while (i < MEMBERS && strcmp(members[i], key) != 0)
        i++;
    if (i == MEMBERS)
        return json_reader_fail(r, "it has key, offset and byte_size and nothing else;");
    if (reading->seen[i])
        return json_reader_fail(r, "a name comes twice");
    reading->seen[i] = true;
    return i == KEY
               ? json_reader_string(r, &reading->region->key)
               : json_reader_size(r, i == OFFSET ? &reading->region->offset : &reading->region->byte_size);
}

enum status kserve_region_decode(const char *body, size_t length, char *texts, struct kserve_region *out,
                                 struct error *err)
{
    struct json_reader r = {
        .scan = {.start = body, .end = body + length, .p = body, .err = err, .subject = "the request"},
        .texts = texts,
        .room = length + 1,
        .code = "malformed_kserve",
        .complaint = "the request is no region of shared memory"};
    *out = (struct kserve_region){0};
    json_scan_mark(&r.scan);
    if (json_reader_peek(&r) != '{')
        return json_reader_fail(&r, "the request is no JSON object");
    if (json_reader_object(&r, &(struct reading){.region = out}, read_member) != STATUS_OK)
        return err->status;
    json_reader_peek(&r);
    if (r.scan.p != r.scan.end)
        return json_reader_fail(&r, "more text after the object");
    return out->key != NULL && out->byte_size > 0 ? STATUS_OK
                                                  : json_reader_fail(&r, "key or byte_size is missing");
}
