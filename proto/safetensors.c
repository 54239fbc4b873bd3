#include "proto/safetensors.h"

#include "proto/json_scan.h"
#include "proto/query.h"
#include "proto/tensors.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8 /* of the header's length, before it */

struct entry {
    struct tensor tensor;
    bool has_type, has_shape, has_offsets;
    size_t begin, end; /* of its bytes, from the end of the header */
};

struct header {
    struct json_scan scan; /* of the header; start is that of the body */
    char *texts;           /* [length of the header] unescaped strings, each with a NUL */
    size_t used;
    struct entry entries[PARAMS_MAX];
    size_t num_entries;
    struct query_field fields[PARAMS_MAX]; /* of __metadata__ */
    size_t num_fields;
    bool has_metadata;
    struct error *err;
};

static enum status fail(struct header *h, const char *reason)
{
    return error_set(h->err, STATUS_INVALID, "malformed_safetensors",
                     "the body is no safetensors file: %s at byte %zu", reason,
                     (size_t)(h->scan.p - h->scan.start));
}

static enum status fail_at(struct header *h, const struct entry *e, const char *reason)
{
    return error_set(h->err, STATUS_INVALID, "malformed_safetensors",
                     "the body is no safetensors file: the tensor %.64s %s", e->tensor.name, reason);
}

/* ---- strings, sizes, objects ---- */

/* The text of a string with escapes, as cJSON has it. */
static enum status unescape(struct header *h, const char *start, char *out)
{
    cJSON *item = cJSON_ParseWithLength(start, (size_t)(h->scan.p - start));
    if (item == NULL)
        return error_set(h->err, STATUS_NO_MEMORY, "no_memory", "cannot allocate memory for the request");
    memcpy(out, item->valuestring, strlen(item->valuestring) + 1); /* no longer than with its escapes */
    cJSON_Delete(item);
    return STATUS_OK;
}

static enum status read_string(struct header *h, const char **out)
{
    const char *start = h->scan.p;
    if (json_scan_string(&h->scan) != STATUS_OK)
        return h->err->status;
    size_t length = (size_t)(h->scan.p - start) - 2;
    char *text = h->texts + h->used;
    if (json_has_zero_byte(start, h->scan.p))
        return fail(h, "a string with a zero byte");
    memcpy(text, start + 1, length);
    text[length] = '\0';
    if (memchr(text, '\\', length) != NULL && unescape(h, start, text) != STATUS_OK)
        return h->err->status;
    h->used += strlen(text) + 1;
    *out = text;
    return STATUS_OK;
}

static char peek(struct header *h)
{
    json_scan_space(&h->scan);
    return h->scan.p < h->scan.end ? *h->scan.p : '\0';
}

static enum status read_size(struct header *h, size_t *out)
{
    struct json_scan *s = &h->scan;
    const char *first = s->p;
    for (*out = 0; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (size_t)(*s->p - '0'), out))
            return fail(h, "a number that is too large");
    bool plain = s->p - first == 1 || (s->p > first && *first != '0');
    return plain ? STATUS_OK : fail(h, "a whole number is missing");
}

/* A list of at most `most` sizes. */
static enum status read_sizes(struct header *h, size_t most, size_t *out, size_t *count)
{
    *count = 0;
    if (json_scan_expect(&h->scan, '[', "'['") != STATUS_OK)
        return h->err->status;
    if (peek(h) == ']') {
        h->scan.p++;
        return STATUS_OK;
    }
    for (;; h->scan.p++) {
        peek(h);
        if (*count == most)
            return fail(h, "a list that is too long");
        if (read_size(h, &out[(*count)++]) != STATUS_OK)
            return h->err->status;
        if (peek(h) != ',')
            return json_scan_expect(&h->scan, ']', "',' or ']'");
    }
}

/* Read an object; `member` is called for each key with p on its value. */
static enum status read_object(struct header *h, void *out,
                               enum status (*member)(struct header *h, const char *key, void *out))
{
    if (json_scan_expect(&h->scan, '{', "'{'") != STATUS_OK)
        return h->err->status;
    if (peek(h) == '}') {
        h->scan.p++;
        return STATUS_OK;
    }
    for (;; h->scan.p++) {
        const char *key = "";
        peek(h);
        if (read_string(h, &key) != STATUS_OK)
            return h->err->status;
        peek(h);
        if (json_scan_expect(&h->scan, ':', "':'") != STATUS_OK)
            return h->err->status;
        peek(h);
        if (member(h, key, out) != STATUS_OK)
            return h->err->status;
        if (peek(h) != ',')
            return json_scan_expect(&h->scan, '}', "',' or '}'");
    }
}

/* ---- what the header has ---- */

static enum status read_type(struct header *h, struct entry *e)
{
    const char *name = "";
    if (read_string(h, &name) != STATUS_OK)
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
    if (read_sizes(h, 2, offsets, &count) != STATUS_OK)
        return h->err->status;
    if (count != 2)
        return fail(h, "data_offsets are not two");
    e->begin = offsets[0];
    e->end = offsets[1];
    return STATUS_OK;
}

static enum status read_entry_member(struct header *h, const char *key, void *out)
{
    struct entry *e = out;
    bool *seen = strcmp(key, "dtype") == 0          ? &e->has_type
                 : strcmp(key, "shape") == 0        ? &e->has_shape
                 : strcmp(key, "data_offsets") == 0 ? &e->has_offsets
                                                    : NULL;
    if (seen == NULL)
        return fail(h, "a tensor has dtype, shape and data_offsets and nothing else;");
    if (*seen)
        return fail(h, "a name comes twice");
    *seen = true;
    if (seen == &e->has_type)
        return read_type(h, e);
    return seen == &e->has_shape ? read_sizes(h, TENSOR_MAX_RANK, e->tensor.dims, &e->tensor.rank)
                                 : read_offsets(h, e);
}

static enum status read_field(struct header *h, const char *key, void *out)
{
    (void)out;
    if (h->num_fields == PARAMS_MAX)
        return fail(h, "__metadata__ has more names than there are parameters");
    struct query_field *field = &h->fields[h->num_fields++];
    field->key = key;
    if (peek(h) != '"')
        return fail(h, "a value of __metadata__ is no string");
    return read_string(h, &field->value);
}

static enum status read_member(struct header *h, const char *key, void *out)
{
    (void)out;
    if (strcmp(key, "__metadata__") == 0) {
        if (h->has_metadata)
            return fail(h, "__metadata__ comes twice");
        h->has_metadata = true;
        return read_object(h, NULL, read_field);
    }
    if (h->num_entries == PARAMS_MAX)
        return fail(h, "more tensors than there are parameters");
    struct entry *e = &h->entries[h->num_entries++];
    *e = (struct entry){.tensor = {.name = key, .name_length = strlen(key)}};
    if (read_object(h, e, read_entry_member) != STATUS_OK)
        return h->err->status;
    bool complete = e->has_type && e->has_shape && e->has_offsets;
    return complete ? STATUS_OK : fail(h, "a tensor without dtype, shape or data_offsets");
}

/* The object, and nothing but spaces to the end of the header. */
static enum status read_header(struct header *h)
{
    if (h->scan.p == h->scan.end || *h->scan.p != '{')
        return fail(h, "the header does not begin with '{'");
    if (read_object(h, NULL, read_member) != STATUS_OK)
        return h->err->status;
    while (h->scan.p < h->scan.end && *h->scan.p == ' ')
        h->scan.p++;
    return h->scan.p == h->scan.end ? STATUS_OK : fail(h, "more than spaces behind the header's object");
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
    h->scan = (struct json_scan){.start = body, .end = data, .p = start, .err = err, .subject = "the header"};
    h->texts = texts;
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
