/*
 * The least that libmicrohttpd can do with a request: take the body into a recycled buffer and answer a
 * constant.  What samplerd's throughput is measured against: same flags, same memory a connection, one
 * thread.
 *
 *   sink PORT    serves on 127.0.0.1 until it is killed
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTION_MEMORY (128u << 10) /* as server/http.c has it */

static const char answer[] = "{\"token_ids\":[[100000]],\"seed\":7}"; /* as long as samplerd's */

/* A body on its way.  Those that are through wait in a list: one thread, so no lock. */
struct upload {
    struct upload *next;
    char *data;
    size_t capacity, length;
};

static struct upload *spare;
static struct MHD_Response *response; /* one for all */

static struct upload *upload_take(size_t capacity)
{
    struct upload *upload = spare;
    if (upload != NULL)
        spare = upload->next;
    else if ((upload = calloc(1, sizeof *upload)) == NULL)
        return NULL;
    upload->length = 0;
    if (capacity > upload->capacity) {
        free(upload->data);
        upload->data = malloc(capacity);
        upload->capacity = upload->data != NULL ? capacity : 0;
    }
    return upload;
}

static void upload_give(struct upload *upload)
{
    upload->next = spare;
    spare = upload;
}

static size_t content_length(struct MHD_Connection *connection)
{
    const char *text =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *size,
                                  void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version;
    struct upload *upload = *con_cls;
    if (upload == NULL) {
        *con_cls = upload_take(content_length(connection));
        return *con_cls != NULL ? MHD_YES : MHD_NO;
    }
    if (*size == 0)
        return MHD_queue_response(connection, MHD_HTTP_OK, response);
    if (*size > upload->capacity - upload->length)
        return MHD_NO;
    memcpy(upload->data + upload->length, data, *size);
    upload->length += *size;
    *size = 0;
    return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    (void)cls, (void)connection, (void)code;
    if (*con_cls != NULL)
        upload_give(*con_cls);
    *con_cls = NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: sink PORT\n");
        return EXIT_FAILURE;
    }
    signal(SIGPIPE, SIG_IGN);
    response =
        MHD_create_response_from_buffer(sizeof answer - 1, (void *)(uintptr_t)answer, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(argv[1])),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL, on_request,
        NULL, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
    if (daemon == NULL) {
        fprintf(stderr, "sink: cannot listen on port %s\n", argv[1]);
        return EXIT_FAILURE;
    }
    for (;;)
        pause();
}
