/*
 * One step of decoding, with libcurl: the answer is asked for as int32, so no JSON needs to be read.
 *
 *     cc -o sample sample.c -lcurl && ./sample [http://HOST:PORT]
 *
 * For a little-endian machine: logits go out, and token ids come in, as they lie in memory.
 */
#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_SIZE = 2, VOCAB_SIZE = 8, DRAWS = 4 };

/* Keeps what fits: token ids, or the text of an error. */
struct answer {
    union {
        int32_t token_ids[BATCH_SIZE][DRAWS];
        char text[1024];
    };
    size_t length;
};

static size_t take(char *data, size_t size, size_t count, void *cls)
{
    struct answer *answer = cls;
    size_t room = sizeof answer->text - 1 - answer->length, bytes = size * count;
    size_t kept = bytes < room ? bytes : room;
    memcpy(answer->text + answer->length, data, kept);
    answer->length += kept;
    return bytes;
}

int main(int argc, char **argv)
{
    /* The last position's logits of two sequences; here: made up. */
    float logits[BATCH_SIZE][VOCAB_SIZE];
    for (int token = 0; token < VOCAB_SIZE; token++) {
        logits[0][token] = (float)(token * 7 % 11) * 0.5f;
        logits[1][token] = (float)(token * 5 % 11) * 0.5f;
    }

    /* temperature and seed: one value for all rows, or one a row; offset: tokens drawn before this one */
    char url[512];
    snprintf(url, sizeof url,
             "%s/sample?vocab_size=%d&temperature=0.7,1.0&top_k=40&top_p=0.95&seed=11,12&offset=3&n=%d",
             argc > 1 ? argv[1] : "http://127.0.0.1:8090", VOCAB_SIZE, DRAWS);

    struct answer answer = {.length = 0};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL *curl = curl_easy_init(); /* keep it for the next request: it keeps the connection */
    if (curl == NULL)
        return 1;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/octet-stream");
    headers = curl_slist_append(headers, "Accept: application/octet-stream");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, (char *)logits);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)sizeof logits);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);

    long status = 0;
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    if (code != CURLE_OK) {
        fprintf(stderr, "%s\n", curl_easy_strerror(code));
        return 1;
    }
    if (status != 200 || answer.length != sizeof answer.token_ids) {
        fprintf(stderr, "%ld: %s\n", status, status == 200 ? "an answer of another length" : answer.text);
        return 1;
    }

    for (int row = 0; row < BATCH_SIZE; row++)
        for (int draw = 0; draw < DRAWS; draw++)
            printf("%d%c", (int)answer.token_ids[row][draw], draw + 1 < DRAWS ? ' ' : '\n');
    return 0;
}
