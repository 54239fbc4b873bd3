#include "server/config/tokens.h"

#include "server/observe/log.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((size_t)1 << 20)
#define HASH_PREFIX    "sha256:"

struct digest {
    uint8_t bytes[SHA256_DIGEST_SIZE];
};

struct tokens {
    size_t count;
    struct digest digests[]; /* [count] */
};

static struct digest digest_of(const char *token, size_t length)
{
    struct sha256_ctx context;
    struct digest digest;
    sha256_init(&context);
    sha256_update(&context, length, (const uint8_t *)token);
    sha256_digest(&context, sizeof digest.bytes, digest.bytes);
    return digest;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hex(const char *text, size_t length, struct digest *out)
{
    if (length != 2 * sizeof out->bytes)
        return false;
    for (size_t i = 0; i < sizeof out->bytes; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The one word of a line: *word[*length], which is empty for a comment.  False when there are two. */
static bool find_word(const char *line, const char *end, const char **word, size_t *length)
{
    while (line < end && is_blank(*line))
        line++;
    *word = line;
    if (line < end && *line == '#')
        line = end;
    *length = 0;
    while (line < end && !is_blank(*line)) {
        line++;
        (*length)++;
    }
    while (line < end && is_blank(*line))
        line++;
    return line == end || *line == '#';
}

/* One line; *found says whether it held a token. */
static bool parse_line(const char *line, const char *end, struct digest *out, bool *found)
{
    const char *word;
    size_t length, prefix = sizeof HASH_PREFIX - 1;
    if (!find_word(line, end, &word, &length))
        return false;
    *found = length > 0;
    if (length > prefix && memcmp(word, HASH_PREFIX, prefix) == 0)
        return read_hex(word + prefix, length - prefix, out);
    for (size_t i = 0; i < length; i++)
        if (word[i] <= ' ' || word[i] > '~')
            return false;
    *out = digest_of(word, length);
    return true;
}

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

static enum status parse_lines(const char *text, size_t length, const char *name, struct tokens *out,
                               struct error *err)
{
    const char *end = text + length, *line_end;
    unsigned number = 1;
    for (const char *line = text; line < end; line = line_end + 1, number++) {
        bool found = false;
        line_end = memchr(line, '\n', (size_t)(end - line));
        if (line_end == NULL)
            line_end = end;
        if (!parse_line(line, line_end, &out->digests[out->count], &found))
            return error_set(err, STATUS_INVALID, "malformed_token",
                             "%.120s:%u: neither a token of visible ASCII nor sha256: and 64 hex digits",
                             name, number);
        out->count += found;
    }
    if (out->count == 0)
        return error_set(err, STATUS_INVALID, "no_token", "%.120s has no token, so nobody could call", name);
    return STATUS_OK;
}

enum status tokens_parse(char *text, size_t length, const char *name, struct tokens **out, struct error *err)
{
    size_t lines = count_lines(text, length);
    struct tokens *tokens = calloc(1, sizeof *tokens + lines * sizeof tokens->digests[0]);
    if (tokens == NULL) {
        explicit_bzero(text, length);
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate %zu tokens", lines);
    }
    enum status status = parse_lines(text, length, name, tokens, err);
    explicit_bzero(text, length);
    if (status != STATUS_OK) {
        tokens_destroy(tokens);
        return status;
    }
    *out = tokens;
    return STATUS_OK;
}

static void warn_if_others_can_read(int fd, const char *path)
{
    struct stat file;
    if (fstat(fd, &file) == 0 && (file.st_mode & S_IROTH) != 0)
        log_warn("every user of this machine can read the tokens", log_text("token_file", path));
}

/* Up to size bytes; -1 with errno. */
static ssize_t read_whole(int fd, char *text, size_t size)
{
    size_t length = 0;
    while (length < size) {
        ssize_t n = read(fd, text + length, size - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        length += (size_t)n;
    }
    return (ssize_t)length;
}

enum status tokens_load(const char *path, struct tokens **out, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return error_set(err, STATUS_INVALID, "unreadable_file", "token_file: cannot open %.160s: %s", path,
                         strerror(errno));
    warn_if_others_can_read(fd, path);
    char *text = malloc(MAX_FILE_BYTES + 1);
    if (text == NULL) {
        close(fd);
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate room for %.160s", path);
    }
    ssize_t length = read_whole(fd, text, MAX_FILE_BYTES + 1);
    if (length < 0)
        error_set(err, STATUS_INVALID, "unreadable_file", "token_file: cannot read %.160s: %s", path,
                  strerror(errno));
    else if ((size_t)length > MAX_FILE_BYTES)
        error_set(err, STATUS_INVALID, "too_large", "token_file: %.160s has more than %zu bytes", path,
                  MAX_FILE_BYTES);
    else
        err->status = tokens_parse(text, (size_t)length, path, out, err);
    close(fd);
    explicit_bzero(text, MAX_FILE_BYTES + 1);
    free(text);
    return err->status;
}

size_t tokens_count(const struct tokens *tokens)
{
    return tokens->count;
}

bool tokens_match(const struct tokens *tokens, const char *token, size_t length)
{
    struct digest digest = digest_of(token, length);
    int found = 0;
    for (size_t i = 0; i < tokens->count; i++) /* every one, whichever matches */
        found |= memeql_sec(digest.bytes, tokens->digests[i].bytes, sizeof digest.bytes);
    return found != 0;
}

void tokens_destroy(struct tokens *tokens)
{
    free(tokens);
}
