#include "server/config/origins.h"

#include <stdlib.h>
#include <string.h>

#define SEPARATORS ", "

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

/* The first word at or behind text: *length is 0 where there is none. */
static const char *next_word(const char *text, size_t *length)
{
    text += strspn(text, SEPARATORS);
    *length = strcspn(text, SEPARATORS);
    return text;
}

static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

/* How many bytes a host takes: a name, an IPv4 address, or an IPv6 address in brackets; 0: it is none. */
static size_t host_length(const char *text)
{
    if (text[0] != '[')
        return strspn(text, LETTERS DIGITS "-._");
    size_t inside = strspn(text + 1, "abcdef" DIGITS ":.");
    return inside > 0 && text[1 + inside] == ']' ? inside + 2 : 0;
}

static bool is_usual_port(const char *scheme, size_t length, long port)
{
    return (is_word(scheme, length, "http") && port == 80) ||
           (is_word(scheme, length, "https") && port == 443);
}

/* What is wrong with the digits behind the colon, where the origin ends with them; NULL: nothing. */
static const char *judge_port(const char *scheme, size_t scheme_length, const char *port, const char *end)
{
    size_t digits = strspn(port, DIGITS);
    long number = digits > 0 && digits <= 5 && port[0] != '0' ? strtol(port, NULL, 10) : 0;
    if (port + digits != end || number < 1 || number > 65535)
        return "its port must be from 1 to 65535, and its end";
    return is_usual_port(scheme, scheme_length, number) ? "browsers leave out the scheme's usual port" : NULL;
}

/* What is wrong with an origin, NULL: nothing. */
static const char *judge_origin(const char *origin, size_t length)
{
    const char *end = origin + length;
    if (is_word(origin, length, "*"))
        return "* stands alone, for every origin";
    if (is_word(origin, length, "null"))
        return "any sandboxed frame and local file has it";
    size_t scheme = strspn(origin, LETTERS DIGITS "+-.");
    if (scheme == 0 || strchr(LETTERS, origin[0]) == NULL || strncmp(origin + scheme, "://", 3) != 0)
        return "it must be scheme://host or scheme://host:port, in small letters";
    const char *host = origin + scheme + 3;
    size_t host_bytes = host_length(host);
    if (host_bytes == 0)
        return "it has no host, in small letters, behind ://";
    const char *behind = host + host_bytes;
    if (behind == end)
        return NULL;
    if (*behind != ':')
        return "its host, in small letters, must be followed by :port or nothing";
    return judge_port(origin, scheme, behind + 1, end);
}

enum status origins_check(const char *list, struct error *err)
{
    size_t length;
    if (origins_is_every(list))
        return STATUS_OK;
    for (const char *word = next_word(list, &length); length > 0; word = next_word(word + length, &length)) {
        const char *fault = judge_origin(word, length);
        if (fault != NULL)
            return error_set(err, STATUS_INVALID, "out_of_range", "\"%.*s\" cannot be an origin: %s",
                             length < 60 ? (int)length : 60, word, fault);
    }
    return STATUS_OK;
}

bool origins_is_every(const char *list)
{
    size_t length, more;
    const char *word = next_word(list, &length);
    next_word(word + length, &more);
    return is_word(word, length, "*") && more == 0;
}

bool origins_has(const char *list, const char *origin)
{
    size_t length;
    if (origins_is_every(list))
        return true;
    for (const char *word = next_word(list, &length); length > 0; word = next_word(word + length, &length))
        if (is_word(word, length, origin))
            return true;
    return false;
}
