#include "proto/tensors/safetensors.h"

#include "proto/json/json_reader.h"
#include "proto/params/query.h"
#include "proto/tensors/tensors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8 /* of the header's length, before it */

struct entry {
    struct tensor tensor;
    bool has_type, has_shape, has_offsets;
    size_t begin, end; /* of its bytes, from the end of the header */
};

struct header {
    struct json_reader reader; /* first: its members are called with it; start is that of the body */
    struct entry entries[PARAMS_MAX];
    size_t num_entries;
    struct query_field fields[PARAMS_MAX]; /* of __metadata__, those that are parameters */
    size_t num_fields;
    bool has_metadata;
    struct error *err;
};

static enum status fail_at(struct header *h, const struct entry *e, const char *reason)
{
    return error_set(h->err, STATUS_INVALID, "malformed_safetensors",
                     "the body is no safetensors file: the tensor %.64s %s", e->tensor.name, reason);
}

/* ---- what the header has ---- */

static enum status read_type(struct header *h, struct entry *e)
{
    const char *name = "";
    if (json_reader_string(&h->reader, &name) != STATUS_OK)
        return h->err->status;
    e->tensor.type = tensors_find_type(name, strlen(name));
    if (e->tensor.type < TENSOR_TYPES)
        return STATUS_OK;
    return error_set(
        h->err, STATUS_INVALID, "unsupported_dtype",
        "the tensor %.64s is of dtype \"%.32s\"; it must be BOOL, F16, BF16, F32, F64, or U or I with 8 to "
        "64 bits",
        e->tensor.name, name);
}

static enum status read_offsets(struct header *h, struct entry *e)
{
    size_t offsets[2], count;
    if (json_reader_sizes(&h->reader, 2, offsets, &count) != STATUS_OK)
        return h->err->status;
    if (count != 2)
        return json_reader_fail(&h->reader, "data_offsets are not two");
    e->begin = offsets[0];
    e->end = offsets[1];
    return STATUS_OK;
}

static enum status read_entry_member(struct json_reader *reader, const char *key, void *out)
{
    struct header *h = (struct header *)reader;
    struct entry *e = out;
    bool *seen = strcmp(key, "dtype") == 0          ? &e->has_type
                 : strcmp(key, "shape") == 0        ? &e->has_shape
                 : strcmp(key, "data_offsets") == 0 ? &e->has_offsets
                                                    : NULL;
    if (seen == NULL)
        return json_reader_fail(&h->reader, "a tensor has dtype, shape and data_offsets and nothing else;");
    if (*seen)
        return json_reader_fail(&h->reader, "a name comes twice");
    *seen = true;
    if (seen == &e->has_type)
        return read_type(h, e);
    return seen == &e->has_shape
               ? json_reader_sizes(&h->reader, TENSOR_MAX_RANK, e->tensor.dims, &e->tensor.rank)
               : read_offsets(h, e);
}

/*
 * Other entries are their writers' own: {"format":"pt"}.  One that is nearly a parameter's name, an edit in
 * four letters, was meant to be it.
 */
static bool is_meant(const char *key)
{
    size_t length = strlen(key);
    return params_nearest(PARAM_IN_TENSORS, key, length, length / 4) != NULL;
}

static enum status read_field(struct json_reader *reader, const char *key, void *out)
{
    struct header *h = (struct header *)reader;
    (void)out;
    if (json_reader_peek(&h->reader) != '"')
        return json_reader_fail(&h->reader, "a value of __metadata__ is no string");
    if (!is_meant(key))
        return json_scan_string(&h->reader.scan);
    if (h->num_fields == PARAMS_MAX)
        return json_reader_fail(&h->reader, "__metadata__ has more names of parameters than there are");
    struct query_field *field = &h->fields[h->num_fields++];
    field->key = key;
    return json_reader_string(&h->reader, &field->value);
}

static enum status read_member(struct json_reader *reader, const char *key, void *out)
{
    struct header *h = (struct header *)reader;
    (void)out;
    if (strcmp(key, "__metadata__") == 0) {
        if (h->has_metadata)
            return json_reader_fail(&h->reader, "__metadata__ comes twice");
        h->has_metadata = true;
        return json_reader_null(reader) ? STATUS_OK : json_reader_object(&h->reader, NULL, read_field);
    }
    if (h->num_entries == PARAMS_MAX)
        return json_reader_fail(&h->reader, "more tensors than there are parameters");
    struct entry *e = &h->entries[h->num_entries++];
    *e = (struct entry){.tensor = {.name = key, .name_length = strlen(key)}};
    if (json_reader_object(&h->reader, e, read_entry_member) != STATUS_OK)
        return h->err->status;
    bool complete = e->has_type && e->has_shape && e->has_offsets;
    return complete ? STATUS_OK
                    : json_reader_fail(&h->reader, "a tensor without dtype, shape or data_offsets");
}

/* The object, and nothing but spaces to the end of the header. */
static enum status read_header(struct header *h)
{
    if (h->reader.scan.p == h->reader.scan.end || *h->reader.scan.p != '{')
        return json_reader_fail(&h->reader, "the header does not begin with '{'");
    if (json_reader_object(&h->reader, NULL, read_member) != STATUS_OK)
        return h->err->status;
    while (h->reader.scan.p < h->reader.scan.end && *h->reader.scan.p == ' ')
        h->reader.scan.p++;
    return h->reader.scan.p == h->reader.scan.end
               ? STATUS_OK
               : json_reader_fail(&h->reader, "more than spaces behind the header's object");
}

/* ---- the tensors' bytes ---- */

/* By where they begin; the few there are were mostly written in that order. */
static void sort_entries(struct entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct entry e = entries[i];
        size_t j = i;
        for (; j > 0 && (entries[j - 1].begin > e.begin ||
                         (entries[j - 1].begin == e.begin && entries[j - 1].end > e.end));
             j--)
            entries[j] = entries[j - 1];
        entries[j] = e;
    }
}

/* Give each tensor its bytes of data[length], all of which are some tensor's. */
static enum status place_tensors(struct header *h, const char *data, size_t length)
{
    size_t at = 0, bytes;
    sort_entries(h->entries, h->num_entries);
    for (struct entry *e = h->entries; e < h->entries + h->num_entries; e++) {
        if (e->begin != at)
            return fail_at(h, e, e->begin < at ? "overlaps another" : "begins behind a hole");
        if (e->end < e->begin || e->end > length)
            return fail_at(h, e, e->end < e->begin ? "ends before it begins" : "ends behind the body");
        if (!tensors_bytes(&e->tensor, &bytes) || bytes != e->end - e->begin)
            return fail_at(h, e, "has not the bytes that its dtype and shape say");
        e->tensor.data = data + at;
        at = e->end;
    }
    if (at != length)
        return error_set(h->err, STATUS_INVALID, "malformed_safetensors",
                         "the body is no safetensors file: its tensors end at byte %zu of %zu", at, length);
    return STATUS_OK;
}

/* ---- the request ---- */

static enum status set_all(struct header *h, struct arena *arena, struct lender *lender, uint64_t fresh_seed,
                           struct sample_request *out)
{
    struct tensors t;
    size_t bytes = query_arena_bytes(h->fields, h->num_fields);
    for (size_t i = 0; i < h->num_entries; i++)
        bytes += tensors_arena_bytes(&h->entries[i].tensor, 1);
    if (arena_reserve(arena, bytes, h->err) != STATUS_OK)
        return h->err->status;
    tensors_begin(&t, arena, lender);
    for (size_t i = 0; i < h->num_entries; i++)
        if (tensors_set(&t, &h->entries[i].tensor, h->err) != STATUS_OK)
            return h->err->status;
    for (size_t i = 0; i < h->num_fields; i++)
        if (tensors_set_text(&t, h->fields[i].key, h->fields[i].value, h->err) != STATUS_OK)
            return h->err->status;
    return tensors_finish(&t, fresh_seed, out, h->err);
}

size_t safetensors_header_bytes(const char *body, size_t length)
{
    uint64_t bytes = 0;
    if (length >= LENGTH_BYTES)
        memcpy(&bytes, body, sizeof bytes);
    return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

/* The same, if the body can have such a header. */
static enum status header_length(const char *body, size_t length, size_t *out, struct error *err)
{
    size_t bytes = safetensors_header_bytes(body, length);
    if (bytes > SAFETENSORS_MAX_HEADER_BYTES)
        return error_set(err, STATUS_TOO_LARGE, "too_large",
                         "the safetensors header has %zu bytes; at most %zu are read", bytes,
                         SAFETENSORS_MAX_HEADER_BYTES);
    if (length < LENGTH_BYTES || bytes > length - LENGTH_BYTES)
        return error_set(err, STATUS_INVALID, "malformed_safetensors",
                         "the body is no safetensors file: it has %zu bytes, fewer than its header says",
                         length);
    *out = bytes;
    return STATUS_OK;
}

enum status safetensors_decode(const char *body, size_t length, struct arena *arena, struct lender *lender,
                               uint64_t fresh_seed, struct sample_request *out, struct error *err)
{
    size_t bytes = 0;
    if (header_length(body, length, &bytes, err) != STATUS_OK)
        return err->status;
    const char *start = body + LENGTH_BYTES, *data = start + bytes;
    struct header *h = calloc(1, sizeof *h);
    char *texts = malloc(bytes + 1);
    enum status status = STATUS_NO_MEMORY;
    if (h == NULL || texts == NULL) {
        error_set(err, status, "no_memory", "cannot allocate memory for the request");
        goto free_header;
    }
    h->reader.scan =
        (struct json_scan){.start = body, .end = data, .p = start, .err = err, .subject = "the header"};
    h->reader.texts = texts;
    h->reader.room = bytes + 1;
    h->reader.code = "malformed_safetensors";
    h->reader.complaint = "the body is no safetensors file";
    h->err = err;
    status = read_header(h);
    if (status == STATUS_OK)
        status = place_tensors(h, data, (size_t)(body + length - data));
    if (status == STATUS_OK)
        status = set_all(h, arena, lender, fresh_seed, out);

free_header:
    free(texts);
    free(h);
    return status;
}
