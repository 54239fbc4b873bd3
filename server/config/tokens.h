#ifndef SERVER_TOKENS_H
#define SERVER_TOKENS_H

#include "core/base/status.h"

#include <stdbool.h>

/*
 * A set of bearer tokens.  Only their SHA-256 digests are kept, and these are compared in a time that does
 * not depend on what they are: how long a refusal takes tells nothing of the tokens.
 *
 * Written one a line: the token itself (visible ASCII), or sha256: and the 64 hex digits of its digest. Blank
 * lines are skipped, and so is # with what follows it, at the beginning of a line or after a blank.
 */
struct tokens;

/*
 * Read the text of a token file.
 *
 *   text  [length] is overwritten with zeros as it is read
 *   name  of the file, for messages; they never quote a token
 *   out   the caller's to destroy
 *
 * Errors: STATUS_INVALID for a line that is no token, or when there is none at all; STATUS_NO_MEMORY.
 */
enum status tokens_parse(char *text, size_t length, const char *name, struct tokens **out, struct error *err);

/* Read a file of them.  Errors: as above, and STATUS_INVALID when it cannot be read or is larger than 1 MiB.
 */
enum status tokens_load(const char *path, struct tokens **out, struct error *err);

size_t tokens_count(const struct tokens *tokens);

/* Whether token[length] is one of them.  Thread-safe. */
bool tokens_match(const struct tokens *tokens, const char *token, size_t length);

void tokens_destroy(struct tokens *tokens);

#endif
