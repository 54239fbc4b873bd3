#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "core/pool.h"
#include "proto/kserve/kserve.h"
#include "proto/tensors/lender.h"
#include "proto/tensors/raw.h"
#include "server/request/buffers.h"
#include "server/request/negotiation.h"
#include "server/request/timeline.h"

#include <pthread.h>
#include <stdatomic.h>

/* What a body is, by its Content-Type or its path; the label `media` of the metrics has the same order. */
enum media { MEDIA_NONE, MEDIA_JSON, MEDIA_RAW, MEDIA_NPY, MEDIA_SAFETENSORS, MEDIA_KSERVE };

/*
 * One POST /sample from its first byte to its last: the body, what was decoded from it, its rows as a pool
 * job, and the answer.  Owned by the connection until submitted, by the pool until `done` is called, then by
 * the connection again.
 */
struct exchange {
    struct pool_job job;
    struct timeline timeline;
    struct buffers *buffers;
    size_t max_answer_bytes;
    enum media media;
    enum answer_form form; /* of the answer; an error is JSON */
    bool plain_errors;     /* an error is {"error":"message"}, as KServe's clients read it */
    struct buffer body;
    size_t length;              /* bytes of the body so far */
    struct query_field *fields; /* [num_fields] of the query; loans of the connection */
    size_t num_fields;

    /* of MEDIA_KSERVE: how much of the body is JSON, what is asked for, and how much of the answer is JSON */
    size_t header_length;
    struct kserve_memory *memory; /* NULL when system_shared_memory is off */
    struct kserve_plan plan;
    size_t answer_header_length; /* 0: all of it */

    struct lender lender;             /* lends decoders what follows */
    struct buffer loans[LENDER_MOST]; /* numbers that are not as they lie in the body */
    size_t num_loans;
    struct arena arena; /* all else that was decoded */
    struct sample_request request;
    struct sample_result result;

    bool decoded;        /* request and result are set, or status says why not */
    atomic_bool expired; /* nobody waits for the answer any more: rows that have not begun are left out */

    pthread_mutex_t mutex; /* guards error while rows run */
    enum status status;    /* STATUS_OK, or error says what is wrong */
    struct error error;    /* of the first bad row, when several are */

    struct buffer answer; /* from the buffers; or, for an error, */
    char *error_answer;   /* from malloc: it must be told when the budget is spent, too */
    size_t answer_length;

    void (*done)(struct exchange *exchange); /* called on a worker when the answer is ready */
    void *owner;                             /* for done */
};

void exchange_init(struct exchange *exchange, struct buffers *buffers, size_t max_answer_bytes);
void exchange_fini(struct exchange *exchange);

/* Make the answer the error that is set in exchange->error. */
void exchange_answer_error(struct exchange *exchange);

/*
 * Decode, sample and encode on the pool; `done` is called once, from a worker, with status and answer set.
 * Errors: STATUS_OVERLOADED when the queue is full; `done` is then not called.
 */
enum status exchange_submit(struct exchange *exchange, struct pool *pool, struct error *err);

/*
 * Do the same on the calling thread, where that takes about budget_us at most; `done` is not called.
 *
 * Returns false when it takes more: then submit it.  What is done by then is not done again.
 */
bool exchange_try(struct exchange *exchange, struct sampler *sampler, double budget_us);

/*
 * The deadline has passed.  Returns true when the exchange waited for a worker: its answer is the error then,
 * and `done` is not called.  Otherwise a worker is at it, and skips what it can; `done` is called as before,
 * from then on or already.  From any thread.
 */
bool exchange_expire(struct exchange *exchange, struct pool *pool);

#endif
