#include "server/request/access.h"

#include "server/config/tokens.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct access {
    const char *token_file; /* NULL: anybody may call */
    pthread_mutex_t mutex;
    struct tokens *tokens; /* guarded by mutex */
};

enum status access_create(const struct config *config, struct access **out, struct error *err)
{
    struct access *access = calloc(1, sizeof *access);
    if (access == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the tokens");
    pthread_mutex_init(&access->mutex, NULL);
    access->token_file = config->token_file[0] == '\0' ? NULL : config->token_file;
    if (access_reload(access, err) != STATUS_OK) {
        access_destroy(access);
        return err->status;
    }
    *out = access;
    return STATUS_OK;
}

enum status access_reload(struct access *access, struct error *err)
{
    struct tokens *tokens;
    if (access->token_file == NULL)
        return STATUS_OK;
    if (tokens_load(access->token_file, &tokens, err) != STATUS_OK)
        return err->status;
    pthread_mutex_lock(&access->mutex);
    struct tokens *old = access->tokens;
    access->tokens = tokens;
    pthread_mutex_unlock(&access->mutex);
    tokens_destroy(old);
    return STATUS_OK;
}

/* The token of "Bearer TOKEN", the scheme in any case; NULL if it is nothing of the kind. */
static const char *bearer_token(const char *authorization, size_t *length)
{
    static const char scheme[] = "Bearer ";
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return NULL;
    const char *token = authorization + sizeof scheme - 1;
    token += strspn(token, " ");
    *length = strlen(token);
    while (*length > 0 && token[*length - 1] == ' ')
        (*length)--;
    return token;
}

enum status access_judge(struct access *access, const char *authorization, struct error *err)
{
    size_t length;
    if (access->token_file == NULL)
        return STATUS_OK;
    const char *token = bearer_token(authorization, &length);
    if (token == NULL)
        return error_set(
            err, STATUS_UNAUTHORIZED, "unauthorized",
            "a token is needed; send Authorization: Bearer and a token of the server's token_file");
    pthread_mutex_lock(&access->mutex);
    bool known = tokens_match(access->tokens, token, length);
    pthread_mutex_unlock(&access->mutex);
    if (!known)
        return error_set(err, STATUS_UNAUTHORIZED, "unauthorized",
                         "the token is not one of the server's token_file");
    return STATUS_OK;
}

enum status access_check_address(const struct config *config, const struct address *address,
                                 struct error *err)
{
    if (address_is_local(address) || config->token_file[0] != '\0' || config->tls_client_ca_file[0] != '\0' ||
        config->allow_anonymous)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "unsafe_address",
                     "listen is %s, where anybody on the network could call: set token_file, or "
                     "tls_client_ca_file, or allow_anonymous = on",
                     address->text);
}

void access_destroy(struct access *access)
{
    if (access == NULL)
        return;
    tokens_destroy(access->tokens);
    pthread_mutex_destroy(&access->mutex);
    free(access);
}
