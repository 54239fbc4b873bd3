/*
 * Replays inputs through a fuzz target without libFuzzer: every file of the folders named on the command
 * line, and the empty input.  Each is in a heap block of its own length, so that a sanitizer sees its end.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char current[4096]; /* the path of the input that is replayed, told when the target ends the process */

static void name_input(void)
{
    fprintf(stderr, "while replaying %s\n", current);
}

static void on_signal(int number)
{
    name_input();
    signal(number, SIG_DFL); /* then it ends the process */
}

/* In the sanitizers' runtime, which ends a process without a signal. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void fail(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(EXIT_FAILURE);
}

static void replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail(path);
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(size + (size == 0));
    if (data == NULL || fread(data, 1, size, file) != size)
        fail(path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static size_t replay_folder(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    size_t replayed = 0;
    if (count < 0)
        fail(folder);
    for (int i = 0; i < count; i++) {
        snprintf(current, sizeof current, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            replay(current);
            replayed++;
        }
        free(entries[i]);
    }
    free(entries);
    return replayed;
}

int main(int argc, char **argv)
{
    size_t replayed = 0;
    signal(SIGABRT, on_signal);
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(name_input);
    else
        signal(SIGSEGV, on_signal);
    for (int i = 1; i < argc; i++)
        replayed += replay_folder(argv[i]);
    if (replayed == 0) {
        fprintf(stderr, "%s: no inputs to replay\n", argv[0]);
        return EXIT_FAILURE;
    }
    snprintf(current, sizeof current, "the empty input");
    LLVMFuzzerTestOneInput((const uint8_t *)current, 0);
    printf("%s: %zu inputs replayed\n", argv[0], replayed);
    return EXIT_SUCCESS;
}
