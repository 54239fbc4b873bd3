#include "server/request/call.h"

#include "server/net/framing.h"
#include "server/request/admission.h"
#include "server/request/pages.h"
#include "server/request/placement.h"
#include "server/request/respond.h"

#include <stdlib.h>
#include <string.h>

/* ---- the body ---- */

static void refuse(struct call *call)
{
    call->refused = true;
    buffers_give(call->x.buffers, &call->x.body);
    exchange_answer_error(&call->x);
}

static enum status append(struct call *call, const char *data, size_t size)
{
    struct exchange *x = &call->x;
    size_t limit = shared_parts(call->shared)->config->max_body_bytes, needed = x->length + size;
    if (needed > limit)
        return error_set(&x->error, STATUS_TOO_LARGE, "too_large",
                         "the body has more than %zu bytes, which is max_body_bytes", limit);
    if (needed > x->body.capacity) {
        size_t doubled = 2 * needed < limit ? 2 * needed : limit;
        if (buffers_grow(x->buffers, doubled, x->length, &x->body, &x->error) != STATUS_OK)
            return x->error.status;
    }
    memcpy(x->body.data + x->length, data, size);
    x->length = needed;
    return STATUS_OK;
}

/* Read past a piece of a body that nobody needs. */
static enum status swallow(struct call *call, size_t size)
{
    size_t limit = admission_swallow_bytes(shared_parts(call->shared)->config);
    call->swallowed += size;
    if (call->swallowed <= limit)
        return STATUS_OK;
    if (call->refused)
        return call->x.error.status;
    return error_set(&call->x.error, STATUS_TOO_LARGE, "too_large",
                     "%.80s takes no body; this one has more than %zu bytes", call->url, limit);
}

/* How much of a body in chunks is to come nobody knows: one that is too large is answered in its midst. */
enum MHD_Result call_take(struct call *call, const char *data, size_t *size)
{
    bool kept = !call->refused && call->takes_body;
    call->record.request_bytes += *size;
    enum status status = kept ? append(call, data, *size) : swallow(call, *size);
    if (status != STATUS_OK)
        refuse(call);
    if (status == STATUS_TOO_LARGE || (status != STATUS_OK && !kept))
        return respond_early(call);
    *size = 0;
    return MHD_YES;
}

/* ---- sampling ---- */

static void exchange_done(struct exchange *x)
{
    struct call *call = x->owner;
    MHD_resume_connection(call->connection);
}

static enum MHD_Result collect_field(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    struct exchange *x = cls;
    struct query_field field = {key, value};
    if (!query_is_empty(&field))
        x->fields[x->num_fields++] = field;
    return MHD_YES;
}

/* The query, as loans of the connection that live until the answer is sent. */
static enum status collect_query(struct call *call)
{
    struct exchange *x = &call->x;
    int count = MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, NULL, NULL);
    x->fields = calloc(count > 0 ? (size_t)count : 1, sizeof *x->fields);
    if (x->fields == NULL)
        return error_set(&x->error, STATUS_NO_MEMORY, "no_memory", "cannot allocate %d query fields", count);
    MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, collect_field, x);
    return STATUS_OK;
}

static double budget_us(struct shared *shared)
{
    const struct shared_parts *parts = shared_parts(shared);
    struct placement placement = {
        .cpus = parts->cpus,
        .io_threads = parts->io_threads,
        .in_flight = shared_in_flight(shared),
        .busy_workers = pool_busy(parts->pool),
    };
    return placement_budget_us(&placement);
}

/* Answer where we stand if that is quick. */
static bool try_here(struct call *call)
{
    struct sampler *sampler = shared_borrow_sampler(call->shared);
    if (sampler == NULL)
        return false;
    bool ready = exchange_try(&call->x, sampler, budget_us(call->shared));
    shared_return_sampler(call->shared, sampler);
    return ready;
}

/* On the watch's thread; the call lives as long as its connection is in CONN_SAMPLING. */
static void call_expire(void *argument)
{
    struct call *call = argument;
    if (exchange_expire(&call->x, shared_parts(call->shared)->pool))
        MHD_resume_connection(call->connection);
}

/*
 * A worker may finish before this returns, so the connection is suspended first; and what is not in the queue
 * cannot be taken out of it, so the deadline comes last.
 */
static enum MHD_Result submit(struct call *call)
{
    struct exchange *x = &call->x;
    call->submitted = true;
    if (!conn_enter(call->conn, CONN_SAMPLING))
        return MHD_NO;
    timeline_end(&x->timeline, STAGE_READ);
    if (collect_query(call) != STATUS_OK) {
        refuse(call);
        return respond_answer(call);
    }
    if (try_here(call))
        return respond_answer(call);
    x->done = exchange_done;
    x->owner = call;
    MHD_suspend_connection(call->connection);
    if (exchange_submit(x, shared_parts(call->shared)->pool, &x->error) != STATUS_OK) {
        refuse(call);
        MHD_resume_connection(call->connection);
    } else
        conn_set_deadline(call->conn, call->timeout_ms, call_expire, call);
    return MHD_YES;
}

/* ---- from headers to answer ---- */

static struct call *call_create(struct shared *shared, struct MHD_Connection *connection)
{
    struct conn *conn = conn_of(connection);
    struct call *call = conn != NULL && conn_enter(conn, CONN_BODY) ? calloc(1, sizeof *call) : NULL;
    if (call == NULL)
        return NULL;
    call->shared = shared;
    call->connection = connection;
    call->route_place = pages_place(NULL);
    call->conn = conn;
    call->timeout_ms = shared_parts(shared)->config->request_timeout_ms;
    exchange_init(&call->x, shared_parts(shared)->buffers, shared_parts(shared)->config->max_answer_bytes);
    shared_count(shared, 1);
    return call;
}

void call_destroy(struct call *call)
{
    struct shared *shared = call->shared;
    record_end(call);
    free(call->x.fields);
    exchange_fini(&call->x);
    free(call);
    shared_count(shared, -1);
}

enum MHD_Result call_begin(struct shared *shared, bool admin, struct MHD_Connection *connection,
                           const char *target, const char *method, const char *version, struct call **out)
{
    struct call *call = call_create(shared, connection);
    if (call == NULL)
        return MHD_NO;
    *out = call;
    call->admin = admin;
    call->url = framing_path(target);
    call->x.memory = shm_memory(shared_parts(shared)->shm);
    call->x.plain_errors = pages_is_kserve(call->url);
    conn_set_kserve(call->conn, call->x.plain_errors);
    record_begin(call, method);
    bool framed = framing_judge(connection, method, version, &call->close, &call->x.error) == STATUS_OK;
    call->close = call->close || conn_is_last(call->conn);
    if (!framed || admission_judge(call, method) != STATUS_OK)
        refuse(call);
    if (!call->refused || (framed && !admission_answers_at_once(call)))
        return MHD_YES;
    call->close = true;
    conn_linger(call->conn);
    return respond_answer(call);
}

enum MHD_Result call_continue(struct call *call)
{
    if (call->refused || call->submitted)
        return respond_answer(call);
    if (call->preflight)
        return respond_nothing(call);
    return call->sample ? submit(call) : call->route->page(call);
}
