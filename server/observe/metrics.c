#include "server/observe/metrics.h"

#include "core/rules/list.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the table ---- */

#define US UINT64_C(1000)
#define MS (1000 * US)
#define S  (1000 * MS)

static const uint64_t seconds[] = {25 * US,   50 * US,  100 * US, 250 * US,  500 * US, 1 * MS,
                                   2500 * US, 5 * MS,   10 * MS,  25 * MS,   50 * MS,  100 * MS,
                                   250 * MS,  500 * MS, 1 * S,    2500 * MS, 5 * S,    10 * S};
static const uint64_t bytes[] = {256,       1 << 10, 4 << 10, 16 << 10, 64 << 10,
                                 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
static const uint64_t rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

#define BOUNDS(array) (array), sizeof(array) / sizeof((array)[0])

/* clang-format off */
const struct metric_family metrics_table[NUM_METRICS] = {
    [METRIC_HTTP_REQUESTS] = {
        "samplerd_http_requests_total", METRIC_COUNTER, METRIC_PLAIN, {LABEL_ROUTE, LABEL_METHOD, LABEL_CODE}, true,
        NULL, 0, "Requests that ended; code=none: the client left before it was answered."},
    [METRIC_HTTP_REQUEST_DURATION] = {
        "samplerd_http_request_duration_seconds", METRIC_HISTOGRAM, METRIC_NANOSECONDS,
        {LABEL_ROUTE, LABEL_METHOD, LABEL_CODE}, true,
        BOUNDS(seconds), "Time from a request's headers to the last byte of its answer."},
    [METRIC_HTTP_REQUEST_BODY] = {
        "samplerd_http_request_body_bytes", METRIC_HISTOGRAM, METRIC_PLAIN, {LABEL_ROUTE}, true,
        BOUNDS(bytes), "Size of request bodies, as far as they were received."},
    [METRIC_HTTP_RESPONSE_BODY] = {
        "samplerd_http_response_body_bytes", METRIC_HISTOGRAM, METRIC_PLAIN, {LABEL_ROUTE}, true,
        BOUNDS(bytes), "Size of answers' bodies."},
    [METRIC_STAGE_DURATION] = {
        "samplerd_stage_duration_seconds", METRIC_HISTOGRAM, METRIC_NANOSECONDS, {LABEL_STAGE}, false,
        BOUNDS(seconds), "Time of each stage of a sampling request; one answered where it stands has no queue stage."},
    [METRIC_ROWS] = {
        "samplerd_rows_total", METRIC_COUNTER, METRIC_PLAIN, {LABEL_MEDIA, LABEL_DTYPE}, false,
        NULL, 0, "Rows of logits sampled."},
    [METRIC_RULE_ROWS] = {
        "samplerd_rule_rows_total", METRIC_COUNTER, METRIC_PLAIN, {LABEL_RULE}, false,
        NULL, 0, "Rows of requests that set a rule, for any of them, by the rule."},
    [METRIC_BATCH_ROWS] = {
        "samplerd_batch_rows", METRIC_HISTOGRAM, METRIC_PLAIN, {LABEL_NONE}, false,
        BOUNDS(rows), "Rows of each sampled request."},
    [METRIC_TOKENS] = {
        "samplerd_tokens_total", METRIC_COUNTER, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Token ids drawn."},
    [METRIC_REJECTIONS] = {
        "samplerd_rejections_total", METRIC_COUNTER, METRIC_PLAIN, {LABEL_REASON}, false,
        NULL, 0, "Requests answered with an error, by its code."},
    [METRIC_CONNECTIONS_REFUSED] = {
        "samplerd_connections_refused_total", METRIC_COUNTER, METRIC_PLAIN, {LABEL_LIMIT}, false,
        NULL, 0, "Connections that were turned away, by the limit that was reached."},
    [METRIC_TLS_FAILURES] = {
        "samplerd_tls_handshake_failures_total", METRIC_COUNTER, METRIC_PLAIN, {LABEL_TLS_REASON}, false,
        NULL, 0, "TLS handshakes that were begun and not finished, by the reason."},
    [METRIC_IN_FLIGHT] = {
        "samplerd_http_requests_in_flight", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Requests begun and not yet answered in full, the one that asks included."},
    [METRIC_CONNECTIONS] = {
        "samplerd_connections", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Open connections, those of admin_listen left out."},
    [METRIC_CONNECTIONS_LIMIT] = {
        "samplerd_connections_limit", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Most that may be open: max_connections, or what the limit of open files leaves of it."},
    [METRIC_QUEUE] = {
        "samplerd_queue_requests", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Requests waiting for a worker."},
    [METRIC_QUEUE_LIMIT] = {
        "samplerd_queue_limit_requests", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Most requests that may wait for a worker (queue_depth)."},
    [METRIC_BUFFERS] = {
        "samplerd_buffers_in_use_bytes", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Memory lent to bodies, decoded logits and answers."},
    [METRIC_BUFFERS_LIMIT] = {
        "samplerd_buffers_limit_bytes", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Most memory that may be lent to them (max_inflight_bytes)."},
    [METRIC_REGIONS] = {
        "samplerd_shared_memory_regions", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Regions of shared memory that are registered; absent while system_shared_memory is off."},
    [METRIC_REGIONS_LIMIT] = {
        "samplerd_shared_memory_limit_regions", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Most regions that may be registered (max_shared_memory_regions); absent as well."},
    [METRIC_BUILD_INFO] = {
        "samplerd_build_info", METRIC_GAUGE, METRIC_PLAIN, {LABEL_VERSION, LABEL_KERNELS, LABEL_COMPILER}, false,
        NULL, 0, "Always 1; its labels say which program this is."},
    [METRIC_PROCESS_CPU] = {
        "process_cpu_seconds_total", METRIC_COUNTER, METRIC_NANOSECONDS, {LABEL_NONE}, false,
        NULL, 0, "Processor time of all threads, user and system."},
    [METRIC_PROCESS_MEMORY] = {
        "process_resident_memory_bytes", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Resident memory."},
    [METRIC_PROCESS_OPEN_FDS] = {
        "process_open_fds", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Open file descriptors."},
    [METRIC_PROCESS_MAX_FDS] = {
        "process_max_fds", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Most file descriptors that may be open."},
    [METRIC_PROCESS_START] = {
        "process_start_time_seconds", METRIC_GAUGE, METRIC_NANOSECONDS, {LABEL_NONE}, false,
        NULL, 0, "When the process began to serve, since 1970."},
    [METRIC_PROCESS_THREADS] = {
        "process_threads", METRIC_GAUGE, METRIC_PLAIN, {LABEL_NONE}, false,
        NULL, 0, "Threads."},
};
/* clang-format on */

#if defined __clang__
#define COMPILER __VERSION__ /* says its name */
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Names as the exposition has them, and every value there can be, NULL last.  metrics_create() is told those
 * of route and kernels. */
#define NAME_OF(rule) #rule,

static const struct {
    const char *name;
    const char *const *values;
} labels[NUM_LABELS] = {
    [LABEL_ROUTE] = {"route", NULL},
    [LABEL_METHOD] = {"method", (const char *const[]){"GET", "HEAD", "POST", "other", NULL}},
    [LABEL_CODE] = {"code", (const char *const[]){"200", "400", "401", "403", "404", "405", "406", "408",
                                                  "413", "415", "422", "429", "431", "500", "503", "504",
                                                  "none", "other", NULL}},
    [LABEL_STAGE] = {"stage", (const char *const[]){"read", "queue", "parse", "sample", "write", NULL}},
    [LABEL_MEDIA] = {"media", (const char *const[]){"json", "raw", "npy", "safetensors", "kserve", NULL}},
    [LABEL_DTYPE] = {"dtype", (const char *const[]){"f32", "f16", "bf16", "f64", NULL}},
    [LABEL_RULE] = {"rule", (const char *const[]){RULE_LIST(NAME_OF, LIST_NOTHING) NULL}},
    [LABEL_REASON] = {"reason", (const char *const[]){"conflicting_parameters",
                                                      "deadline_exceeded",
                                                      "duplicate_id",
                                                      "duplicate_parameter",
                                                      "fully_masked",
                                                      "internal",
                                                      "invalid_logits",
                                                      "malformed_base64",
                                                      "malformed_header",
                                                      "malformed_json",
                                                      "malformed_kserve",
                                                      "malformed_npy",
                                                      "malformed_safetensors",
                                                      "method_not_allowed",
                                                      "missing_parameter",
                                                      "no_entropy",
                                                      "no_memory",
                                                      "not_acceptable",
                                                      "not_found",
                                                      "out_of_range",
                                                      "overloaded",
                                                      "queue_full",
                                                      "timeout",
                                                      "too_large",
                                                      "unauthorized",
                                                      "unexpected_query",
                                                      "unknown_parameter",
                                                      "unsupported_dtype",
                                                      "unsupported_media_type",
                                                      "unsupported_order",
                                                      "wrong_length",
                                                      "wrong_type",
                                                      "other",
                                                      NULL}},
    [LABEL_TLS_REASON] = {"reason",
                          (const char *const[]){"client_certificate", "not_tls", "nothing_in_common",
                                                "refused_by_client", "timeout", NULL}},
    [LABEL_LIMIT] = {"limit",
                     (const char *const[]){"max_connections", "max_connections_per_ip", "memory", NULL}},
    [LABEL_VERSION] = {"version", (const char *const[]){SAMPLERD_VERSION, NULL}},
    [LABEL_KERNELS] = {"kernels", NULL},
    [LABEL_COMPILER] = {"compiler", (const char *const[]){COMPILER, NULL}},
};

/* ---- where the numbers are ---- */

/*
 * Every stripe has all cells: a counter has one a series, a histogram one a bucket (the last is above every
 * bound) and one for the sum.  A thread keeps to one stripe, so additions of two threads seldom meet.  Pages
 * of series that never come are never touched, and take no memory.
 */
#define STRIPES    8
#define LINE_CELLS (64 / sizeof(atomic_uint_fast64_t))

struct metrics {
    const char *routes[METRICS_MAX_ROUTES + 1]; /* "other" last */
    const char *kernels;
    const char *const *values[NUM_LABELS];
    size_t num_values[NUM_LABELS]; /* 1 for LABEL_NONE */
    size_t first_cell[NUM_METRICS];
    size_t num_series[NUM_METRICS];
    size_t stripe_cells;
    atomic_uint_fast64_t *cells; /* [STRIPES, stripe_cells] */
    uint64_t started;            /* nanoseconds since 1970 */
};

static atomic_size_t threads_seen;
static _Thread_local size_t stripe_of_thread = STRIPES; /* STRIPES: has none yet */

static atomic_uint_fast64_t *stripe(struct metrics *m)
{
    if (stripe_of_thread == STRIPES)
        stripe_of_thread = atomic_fetch_add_explicit(&threads_seen, 1, memory_order_relaxed) % STRIPES;
    return m->cells + stripe_of_thread * m->stripe_cells;
}

static size_t cells_per_series(const struct metric_family *family)
{
    return family->type == METRIC_HISTOGRAM ? family->num_bounds + 2 : 1;
}

static void set_values(struct metrics *m, size_t num_routes)
{
    for (size_t label = 0; label < NUM_LABELS; label++) {
        m->values[label] = labels[label].values;
        while (m->values[label] != NULL && m->values[label][m->num_values[label]] != NULL)
            m->num_values[label]++;
    }
    m->values[LABEL_ROUTE] = m->routes;
    m->num_values[LABEL_ROUTE] = num_routes + 1;
    m->values[LABEL_KERNELS] = &m->kernels;
    m->num_values[LABEL_NONE] = m->num_values[LABEL_KERNELS] = 1;
}

static void lay_out(struct metrics *m)
{
    size_t cells = 0;
    for (size_t i = 0; i < NUM_METRICS; i++) {
        const struct metric_family *family = &metrics_table[i];
        m->num_series[i] = 1;
        for (size_t l = 0; l < METRICS_MAX_LABELS; l++)
            m->num_series[i] *= m->num_values[family->labels[l]];
        m->first_cell[i] = cells;
        cells += m->num_series[i] * cells_per_series(family);
    }
    m->stripe_cells = (cells + LINE_CELLS - 1) / LINE_CELLS * LINE_CELLS + LINE_CELLS; /* no line is shared */
}

static uint64_t nanoseconds_since_1970(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * S + (uint64_t)now.tv_nsec;
}

enum status metrics_create(const char *(*route_at)(size_t place), const char *kernels, struct metrics **out,
                           struct error *err)
{
    struct metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the metrics");
    size_t num_routes = 0;
    for (; num_routes < METRICS_MAX_ROUTES && route_at(num_routes) != NULL; num_routes++)
        m->routes[num_routes] = route_at(num_routes);
    m->routes[num_routes] = "other";
    m->kernels = kernels;
    m->started = nanoseconds_since_1970();
    set_values(m, num_routes);
    lay_out(m);
    m->cells = calloc(STRIPES * m->stripe_cells, sizeof *m->cells);
    if (m->cells == NULL) {
        free(m);
        return error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate the metrics");
    }
    *out = m;
    return STATUS_OK;
}

void metrics_destroy(struct metrics *m)
{
    if (m == NULL)
        return;
    free(m->cells);
    free(m);
}

/* ---- recording ---- */

size_t metrics_label(enum metric_label label, const char *value)
{
    const char *const *values = labels[label].values;
    size_t i = 0;
    while (values[i + 1] != NULL && strcmp(values[i], value) != 0)
        i++;
    return i;
}

size_t metrics_code(unsigned code)
{
    char text[12];
    if (code == 200)
        return 0;
    snprintf(text, sizeof text, "%u", code);
    return metrics_label(LABEL_CODE, code == 0 ? "none" : text);
}

size_t metrics_series(const struct metrics *m, enum metric metric, size_t first, size_t second, size_t third)
{
    const enum metric_label *label = metrics_table[metric].labels;
    size_t series = (first * m->num_values[label[1]] + second) * m->num_values[label[2]] + third;
    assert(series < m->num_series[metric]);
    return series;
}

static void add(atomic_uint_fast64_t *cell, uint64_t amount)
{
    atomic_fetch_add_explicit(cell, amount, memory_order_relaxed);
}

void metrics_add(struct metrics *m, enum metric metric, size_t series, uint64_t amount)
{
    assert(metrics_table[metric].type == METRIC_COUNTER);
    add(stripe(m) + m->first_cell[metric] + series, amount);
}

void metrics_observe(struct metrics *m, enum metric metric, size_t series, uint64_t value)
{
    const struct metric_family *family = &metrics_table[metric];
    assert(family->type == METRIC_HISTOGRAM);
    size_t bucket = 0;
    while (bucket < family->num_bounds && value > family->bounds[bucket])
        bucket++;
    atomic_uint_fast64_t *cells = stripe(m) + m->first_cell[metric] + series * cells_per_series(family);
    add(&cells[bucket], 1);
    add(&cells[family->num_bounds + 1], value);
}

/* ---- reading ---- */

const char *metrics_label_name(enum metric_label label)
{
    return labels[label].name;
}

const char *metrics_label_value(const struct metrics *m, enum metric_label label, size_t place)
{
    assert(place < m->num_values[label]);
    return m->values[label][place];
}

size_t metrics_num_values(const struct metrics *m, enum metric_label label)
{
    return m->num_values[label];
}

size_t metrics_num_series(const struct metrics *m, enum metric metric)
{
    return m->num_series[metric];
}

uint64_t metrics_value(const struct metrics *m, enum metric metric, size_t series, size_t which)
{
    size_t width = cells_per_series(&metrics_table[metric]);
    assert(series < m->num_series[metric] && which < width);
    size_t cell = m->first_cell[metric] + series * width + which;
    uint64_t sum = 0;
    for (size_t s = 0; s < STRIPES; s++)
        sum += atomic_load_explicit(&m->cells[s * m->stripe_cells + cell], memory_order_relaxed);
    return sum;
}

uint64_t metrics_started(const struct metrics *m)
{
    return m->started;
}
