/*
 * How long cJSON takes to parse a file, the tree's release not counted: the yardstick of JSON bodies.
 *
 *   cjson_parse FILE    prints the median of ROUNDS parses in milliseconds
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 3

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*length + 1);
    if (text != NULL)
        *length = fread(text, 1, *length, file);
    fclose(file);
    return text;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    size_t length;
    char *text = argc == 2 ? read_file(argv[1], &length) : NULL;
    if (text == NULL) {
        fprintf(stderr, "usage: cjson_parse FILE\n");
        return EXIT_FAILURE;
    }
    double ms[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_ms();
        cJSON *tree = cJSON_ParseWithLength(text, length);
        ms[i] = now_ms() - start;
        if (tree == NULL) {
            fprintf(stderr, "cjson_parse: %s is no JSON\n", argv[1]);
            return EXIT_FAILURE;
        }
        cJSON_Delete(tree);
    }
    qsort(ms, ROUNDS, sizeof *ms, compare);
    printf("%.4f\n", ms[ROUNDS / 2]);
    free(text);
    return EXIT_SUCCESS;
}
