#include "server/observe/record.h"

#include "server/observe/log.h"
#include "server/observe/metrics.h"
#include "server/request/call.h"

#include <string.h>

#define NS_PER_MS 1e6

static const char *header(const struct call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

void record_begin(struct call *call, const char *method)
{
    struct record *r = &call->record;
    timeline_begin(&call->x.timeline);
    r->method = metrics_label(LABEL_METHOD, method);
    r->id = header(call, "X-Request-Id");
    if (r->id != NULL && trace_id_usable(r->id))
        return;
    trace_make_id(r->made_id);
    r->id = r->made_id;
}

/* ---- the answer's headers ---- */

/* "read;dur=0.012, queue;dur=0.034, ..." in milliseconds; what is yet to be written is not known here. */
static void add_server_timing(const struct call *call, struct MHD_Response *response)
{
    const struct metrics *m = shared_parts(call->shared)->metrics;
    const struct timeline *t = &call->x.timeline;
    char text[256] = "";
    size_t used = 0;
    for (unsigned stage = 0; stage < STAGE_WRITE; stage++) {
        if (!timeline_has(t, (enum stage)stage))
            continue;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s;dur=%.3f", used > 0 ? ", " : "",
                             metrics_label_value(m, LABEL_STAGE, stage), (double)t->spent[stage] / NS_PER_MS);
    }
    if (used > 0)
        MHD_add_response_header(response, "Server-Timing", text);
}

void record_answer(struct call *call, unsigned code, size_t bytes, struct MHD_Response *response)
{
    struct record *r = &call->record;
    r->code = code;
    r->answer_bytes = r->method == metrics_label(LABEL_METHOD, MHD_HTTP_METHOD_HEAD) ? 0 : bytes;
    MHD_add_response_header(response, "X-Request-Id", r->id);
    if (call->sample && shared_parts(call->shared)->config->server_timing)
        add_server_timing(call, response);
}

void record_timeout(struct call *call)
{
    if (call->record.code != 0)
        return;
    call->record.code = MHD_HTTP_REQUEST_TIMEOUT;
    call->x.status = error_set(&call->x.error, STATUS_TIMEOUT, "timeout", "the body did not come in time");
}

/* ---- metrics ---- */

static void count_sampling(struct metrics *m, const struct exchange *x)
{
    size_t batch_size = x->request.batch_size, media = (size_t)(x->media - MEDIA_JSON);
    metrics_add(m, METRIC_ROWS, metrics_series(m, METRIC_ROWS, media, x->request.dtype, 0), batch_size);
    metrics_observe(m, METRIC_BATCH_ROWS, 0, batch_size);
    for (size_t i = 0; i < x->request.chain.num_rules; i++)
        metrics_add(m, METRIC_RULE_ROWS, x->request.chain.rules[i], batch_size);
    metrics_add(m, METRIC_TOKENS, 0, (uint64_t)batch_size * x->request.n);
}

static void count(const struct call *call, uint64_t duration_ns)
{
    struct metrics *m = shared_parts(call->shared)->metrics;
    const struct record *r = &call->record;
    const struct exchange *x = &call->x;
    size_t route = call->route_place;
    size_t series = metrics_series(m, METRIC_HTTP_REQUESTS, route, r->method, metrics_code(r->code));
    metrics_add(m, METRIC_HTTP_REQUESTS, series, 1);
    metrics_observe(m, METRIC_HTTP_REQUEST_DURATION, series, duration_ns);
    metrics_observe(m, METRIC_HTTP_REQUEST_BODY, route, r->request_bytes);
    metrics_observe(m, METRIC_HTTP_RESPONSE_BODY, route, r->answer_bytes);
    for (unsigned stage = 0; stage < NUM_STAGES; stage++)
        if (timeline_has(&x->timeline, (enum stage)stage))
            metrics_observe(m, METRIC_STAGE_DURATION, stage, x->timeline.spent[stage]);
    if (x->status != STATUS_OK)
        metrics_add(m, METRIC_REJECTIONS, metrics_label(LABEL_REASON, x->error.code), 1);
    else if (timeline_has(&x->timeline, STAGE_SAMPLE))
        count_sampling(m, x);
}

/* ---- the log ---- */

static bool is_logged(const struct call *call)
{
    unsigned code = call->record.code, wanted = shared_parts(call->shared)->config->log_requests;
    bool failed = code == 0 || code >= 400;
    return wanted == CONFIG_LOG_ALL || (wanted == CONFIG_LOG_ERRORS && failed);
}

static const char *const stage_keys[NUM_STAGES] = {"read_ms", "queue_ms", "parse_ms", "sample_ms",
                                                   "write_ms"};

/* Fields that only some requests have; returns how many there are now. */
static size_t add_particulars(const struct call *call, struct log_field *fields, size_t used)
{
    const struct exchange *x = &call->x;
    if (x->status != STATUS_OK) {
        fields[used++] = log_text("error", x->error.code);
        fields[used++] = log_text("message", x->error.message);
    }
    if (timeline_has(&x->timeline, STAGE_PARSE)) {
        fields[used++] = log_uint("rows", x->request.batch_size);
        fields[used++] = log_uint("vocab_size", x->request.vocab_size);
    }
    for (unsigned stage = 0; stage < NUM_STAGES; stage++)
        if (timeline_has(&x->timeline, (enum stage)stage))
            fields[used++] = log_real(stage_keys[stage], (double)x->timeline.spent[stage] / NS_PER_MS);
    return used;
}

static void write_line(const struct call *call, uint64_t duration_ns)
{
    const struct record *r = &call->record;
    const struct metrics *m = shared_parts(call->shared)->metrics;
    const char *parent = header(call, "traceparent");
    char trace_id[TRACE_ID_LENGTH + 1];
    struct log_field fields[24];
    size_t used = 0;
    fields[used++] = log_text("id", r->id);
    if (parent != NULL && trace_parse_parent(parent, trace_id))
        fields[used++] = log_text("trace_id", trace_id);
    fields[used++] = log_text("method", metrics_label_value(m, LABEL_METHOD, r->method));
    fields[used++] = log_text("route", metrics_label_value(m, LABEL_ROUTE, call->route_place));
    fields[used++] = log_uint("code", r->code);
    fields[used++] = log_uint("request_bytes", r->request_bytes);
    fields[used++] = log_uint("answer_bytes", r->answer_bytes);
    fields[used++] = log_real("duration_ms", (double)duration_ns / NS_PER_MS);
    used = add_particulars(call, fields, used);
    bool failed = r->code == 0 || r->code >= 400;
    log_write(failed ? LOG_WARN : LOG_INFO, "request", fields, used);
}

void record_end(struct call *call)
{
    struct timeline *t = &call->x.timeline;
    uint64_t now = timeline_now();
    if (timeline_has(t, STAGE_SAMPLE))
        timeline_end_at(t, STAGE_WRITE, now);
    count(call, now - t->begun);
    if (is_logged(call))
        write_line(call, now - t->begun);
}
