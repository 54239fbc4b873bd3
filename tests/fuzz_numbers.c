/*
 * libFuzzer target of proto/numbers.c: the input is the text of an array.
 *
 * What is accepted is compared with a grammar written here a second time, character by character, and
 * the values with strtod's and cJSON's.  The text ends where the heap block does, padding apart.
 */
#include "proto/numbers/numbers.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CJSON_MAX_NUMBER 62 /* cJSON copies a number to 64 bytes and cuts the rest */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reference {
    const char *text; /* NUL-terminated copy of the input */
    size_t at;
    float *values; /* [count] */
    size_t count;
    size_t longest; /* characters of the longest number */
    struct shape shape;
};

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "failed: %s\n", what);
    abort();
}

static bool take(struct reference *r, char c)
{
    if (c == '\0' || r->text[r->at] != c)
        return false;
    r->at++;
    return true;
}

static size_t take_digits(struct reference *r)
{
    size_t n = 0;
    while (r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        r->at++;
        n++;
    }
    return n;
}

static void take_space(struct reference *r)
{
    while (take(r, ' ') || take(r, '\t') || take(r, '\n') || take(r, '\r'))
        ;
}

/* number = [ "-" ] ( "0" / digit1-9 *digit ) [ "." 1*digit ] [ ("e" / "E") [ "+" / "-" ] 1*digit ] */
static bool take_number(struct reference *r)
{
    take(r, '-');
    if (!take(r, '0') && take_digits(r) == 0)
        return false;
    if (take(r, '.') && take_digits(r) == 0)
        return false;
    if (take(r, 'e') || take(r, 'E')) {
        if (!take(r, '-'))
            take(r, '+');
        return take_digits(r) > 0;
    }
    return true;
}

static bool take_value(struct reference *r)
{
    size_t start = r->at;
    if (take(r, 'n')) {
        r->values[r->count++] = -INFINITY;
        return take(r, 'u') && take(r, 'l') && take(r, 'l');
    }
    if (!take_number(r))
        return false;
    if (r->at - start > r->longest)
        r->longest = r->at - start;
    r->values[r->count++] = (float)strtod(r->text + start, NULL);
    return true;
}

static bool take_array(struct reference *r, size_t depth)
{
    size_t length = 0;
    if (depth == NUMBERS_MAX_RANK || !take(r, '['))
        return false;
    do {
        take_space(r);
        if (depth + 1 < r->shape.rank ? !take_array(r, depth + 1) : !take_value(r))
            return false;
        length++;
        take_space(r);
    } while (take(r, ','));
    if (r->shape.dims[depth] == 0)
        r->shape.dims[depth] = length;
    return take(r, ']') && r->shape.dims[depth] == length;
}

static bool accepts(struct reference *r)
{
    while (take(r, '[')) {
        r->shape.rank++;
        take_space(r);
    }
    r->at = 0;
    return r->shape.rank >= 1 && r->shape.rank <= NUMBERS_MAX_RANK && take_array(r, 0);
}

static void compare_values(const float *out, const struct reference *r)
{
    require(memcmp(out, r->values, r->count * sizeof *out) == 0, "every value is strtod's");
}

/* Walk cJSON's tree in the order of the text. */
static void compare_tree(const cJSON *item, const float *out, size_t *i)
{
    for (; item != NULL; item = item->next) {
        if (cJSON_IsArray(item)) {
            compare_tree(item->child, out, i);
            continue;
        }
        float value = cJSON_IsNull(item) ? -INFINITY : (float)item->valuedouble;
        require(memcmp(&value, &out[(*i)++], sizeof value) == 0, "every value is cJSON's");
    }
}

static void compare_cjson(const float *out, const struct reference *r)
{
    size_t count = 0;
    cJSON *tree = cJSON_ParseWithLength(r->text, r->at);
    require(tree != NULL, "cJSON accepts what is accepted");
    compare_tree(tree, out, &count);
    require(count == r->count, "cJSON counts as many");
    cJSON_Delete(tree);
}

static void read_doubles(const char *text, const char *end)
{
    double value;
    for (const char *p = text; p <= end && p < text + 64; p++) {
        const char *stop = numbers_read_double(p, end, &value);
        if (stop == NULL)
            continue;
        char *copy = strndup(p, (size_t)(stop - p));
        double expected = strtod(copy, NULL);
        free(copy);
        require(stop > p && stop <= end && memcmp(&value, &expected, sizeof value) == 0,
                "a double is strtod's");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + NUMBERS_PADDING), *copy = calloc(size + 1, 1);
    float *out = malloc((size + 1) * sizeof *out), *values = malloc((size + 1) * sizeof *values);
    require(text != NULL && copy != NULL && out != NULL && values != NULL, "memory");
    for (size_t i = 0; i < NUMBERS_PADDING; i++) /* goes on as the text began, or with digits */
        text[size + i] = size > 0 && data[0] != '[' ? (char)data[i % size] : (char)('0' + i % 10);
    if (size > 0) {
        memcpy(text, data, size);
        memcpy(copy, data, size);
    }
    const char *cursor = text, *end = text + size;
    struct reference reference = {.text = copy, .values = values};
    struct shape shape;
    struct error err;
    size_t capacity = numbers_count_bound(text, size);
    enum status status = numbers_read_array(&cursor, end, out, capacity, &shape, "logits", &err);
    require(cursor >= text && cursor <= end, "the cursor stays in the text");
    require(status == (accepts(&reference) ? STATUS_OK : STATUS_INVALID), "the grammar is the RFC's");
    if (status == STATUS_OK) {
        require((size_t)(cursor - text) == reference.at, "the cursor is after the array");
        require(shape.rank == reference.shape.rank, "the rank is as deep as the array");
        require(memcmp(shape.dims, reference.shape.dims, sizeof shape.dims) == 0,
                "the lengths are the array's");
        compare_values(out, &reference);
        if (reference.longest <= CJSON_MAX_NUMBER)
            compare_cjson(out, &reference);
    }
    read_doubles(text, end);
    free(text);
    free(copy);
    free(out);
    free(values);
    return 0;
}
