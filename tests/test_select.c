/* The rules against the plainest reading of them: sort everything, walk down. */
#include "core/row/select.h"

#include "tests/support.h"

#define LONGEST 12000

static const struct kernels *table;
static struct arena scratch;

struct token {
    float z;
    int32_t id;
};

static int by_rank(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    if (x->z != y->z)
        return x->z < y->z ? 1 : -1;
    return x->id - y->id;
}

static struct token sorted[LONGEST];

static void sort_row(const float *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct token){z[i], (int32_t)i};
    qsort(sorted, n, sizeof *sorted, by_rank);
}

static struct support whole_row(const float *z, size_t n)
{
    static struct support_room room;
    struct error err;
    arena_reset(&scratch);
    ck_assert_int_eq(arena_reserve(&scratch, support_room_bytes(n) + select_scratch_bytes(n), &err),
                     STATUS_OK);
    room = support_room_lend(n, &scratch);
    return (struct support){.z = z, .n = n, .max = table->max(z, n), .room = &room};
}

/* A rule may leave a list of what it kept, or mask the rest: make it a list. */
static void drop_masked(struct support *s)
{
    static float z[LONGEST];
    static int32_t ids[LONGEST];
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->z[i] > -INFINITY) {
            z[n] = s->z[i];
            ids[n++] = support_id(s, i);
        }
    }
    *s = (struct support){.z = z, .ids = ids, .n = n, .max = s->max};
}

enum row_kind {
    KIND_NORMAL,
    KIND_TIES,
    KIND_EQUAL,
    KIND_MASKED,
    KIND_PEAKED,
    KIND_FLAT,
    KIND_TINY,
    KIND_LANES,
    NUM_KINDS
};

static void fill_row(float *z, size_t n, enum row_kind kind, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        float x = next_logit(&seed, 3.0);
        switch (kind) {
        case KIND_TIES:
            z[i] = (float)(int)(x * 4) / 4;
            break;
        case KIND_EQUAL:
            z[i] = 1.5f;
            break;
        case KIND_MASKED:
            z[i] = next_word(&seed) % 4 ? -INFINITY : x;
            break;
        case KIND_PEAKED:
            z[i] = x + (i % 997 == 5 ? 20.0f : 0.0f);
            break;
        case KIND_FLAT:
            z[i] = x * 0.01f;
            break;
        case KIND_TINY: /* spread over many binades below 1 */
            z[i] = ldexpf((float)next_uniform(&seed), -(int)(next_word(&seed) % 140));
            break;
        case KIND_LANES: /* lanes whose maxima say nothing: two in three hold one value alone */
            z[i] = i % 64 < 43 ? 0.25f : 1.0f + (float)(i % 7);
            break;
        default:
            z[i] = x;
        }
    }
    z[seed % n] = 2.0f;
}

static void check_top_k(const float *z, size_t n, size_t k, bool lower_id)
{
    struct support s = whole_row(z, n);
    select_top_k(&s, k, lower_id, table, &scratch);
    struct token end = sorted[(k < n ? k : n) - 1];
    drop_masked(&s);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool inside = z[i] > end.z || (z[i] == end.z && (!lower_id || (int32_t)i <= end.id));
        if (inside && z[i] > -INFINITY) {
            ck_assert_msg(kept < s.n && support_id(&s, kept) == (int32_t)i,
                          "n=%zu k=%zu: token %zu is not kept", n, k, i);
            ck_assert(s.z[kept] == z[i]);
            kept++;
        }
    }
    ck_assert_msg(kept == s.n, "n=%zu k=%zu: %zu kept, not %zu", n, k, s.n, kept);
}

START_TEST(top_k_keeps_what_sorting_keeps)
{
    static float z[LONGEST];
    static const size_t lengths[] = {1, 2, 63, 64, 65, 257, 300, 2047, 2048, 2049, 5000, LONGEST};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        size_t n = lengths[l];
        size_t ks[] = {1, 2, 3, 17, 40, 64, 100, 600, 700, n / 2 + 1, n - (n > 1), n, n + 5};
        for (int kind = 0; kind < NUM_KINDS; kind++) {
            fill_row(z, n, (enum row_kind)kind, n + (size_t)kind);
            sort_row(z, n);
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
                check_top_k(z, n, ks[i], false);
                check_top_k(z, n, ks[i], true);
            }
        }
    }
}
END_TEST

/*
 * The nucleus in float64.  Weights here are the kernel's, so that only the order of sums differs; a token
 * within 1e-6 of the border may go either way.
 */
static void check_top_p(const float *z, size_t n, struct nucleus nucleus, double temperature)
{
    double top_p = nucleus.top_p;
    static float w[LONGEST];
    struct support s = whole_row(z, n);
    struct weight_scale scale = weight_scale_make(s.max, temperature);
    table->weights(z, n, scale, w);
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        total += w[i];
    total *= nucleus.of_mass > 0 ? nucleus.of_mass : 1;
    nucleus.of_mass = nucleus.of_mass > 0 ? total : 0;
    select_top_p(&s, &nucleus, scale, table, &scratch);
    drop_masked(&s);

    static bool kept[LONGEST];
    memset(kept, 0, n);
    for (size_t i = 0; i < s.n; i++)
        kept[support_id(&s, i)] = true;
    bool prefix = true;
    for (size_t i = 0; i < n; i++) {
        double before = sum;
        sum += w[sorted[i].id];
        double edge = nucleus.keeps_crossing ? before : sum;
        bool inside = i == 0 || (nucleus.keeps_crossing ? before < top_p * total : sum <= top_p * total);
        bool border = fabs(edge / total - top_p) < 1e-6 || w[sorted[i].id] == 0;
        bool is_kept = kept[sorted[i].id];
        ck_assert_msg(is_kept == inside || border || sorted[i].z == -INFINITY,
                      "n=%zu p=%g T=%g: rank %zu (id %d) %s", n, top_p, temperature, i, sorted[i].id,
                      is_kept ? "is kept" : "is not kept");
        ck_assert_msg(prefix || !is_kept, "n=%zu p=%g: rank %zu is kept but one above is not", n, top_p, i);
        prefix = is_kept;
    }
    for (size_t i = 1; i < s.n; i++)
        ck_assert_int_lt(support_id(&s, i - 1), support_id(&s, i));
}

START_TEST(top_p_keeps_what_sorting_keeps)
{
    static float z[LONGEST];
    static const size_t lengths[] = {1, 2, 65, 1000, 1024, 1025, 5000, LONGEST};
    static const double ps[] = {1e-9, 0.5, 0.95, 0.999999, 1 - 1e-12};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (int kind = 0; kind < NUM_KINDS; kind++) {
            fill_row(z, lengths[l], (enum row_kind)kind, lengths[l] + 7 * (size_t)kind);
            sort_row(z, lengths[l]);
            for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
                for (int crossing = 0; crossing < 2; crossing++) {
                    check_top_p(z, lengths[l], (struct nucleus){ps[i], 0, crossing}, 1.0);
                    check_top_p(z, lengths[l], (struct nucleus){ps[i], 0, crossing}, 0.3);
                    check_top_p(z, lengths[l], (struct nucleus){ps[i], 0, crossing}, 40.0);
                    check_top_p(z, lengths[l], (struct nucleus){ps[i], 1.03, crossing}, 1.0);
                }
            }
        }
    }
}
END_TEST

START_TEST(above_keeps_what_reaches_it)
{
    static float z[LONGEST];
    static const size_t lengths[] = {1, 65, 5000, LONGEST};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (int kind = 0; kind < NUM_KINDS; kind++) {
            size_t n = lengths[l], kept = 0;
            fill_row(z, n, (enum row_kind)kind, n + 31 * (size_t)kind);
            sort_row(z, n);
            float cut = sorted[n / (kind % 2 ? 3 : 50)].z;
            if (cut == -INFINITY)
                continue;
            struct support s = whole_row(z, n);
            select_above(&s, cut, table, &scratch);
            drop_masked(&s);
            for (size_t i = 0; i < n; i++)
                if (z[i] >= cut)
                    ck_assert_int_eq(support_id(&s, kept++), (int32_t)i);
            ck_assert_uint_eq(kept, s.n);
        }
    }
}
END_TEST

/* 20 equal logits: the weights are 1 exactly, so the running sum may touch top_p and still be kept. */
START_TEST(top_p_keeps_a_sum_that_equals_it)
{
    float z[20];
    for (size_t i = 0; i < 20; i++)
        z[i] = -3.25f;
    struct support s = whole_row(z, 20);
    select_top_p(&s, &(struct nucleus){.top_p = 0.5}, weight_scale_make(-3.25f, 1.0), table, &scratch);
    drop_masked(&s);
    ck_assert_uint_eq(s.n, 10);
    ck_assert_int_eq(support_id(&s, 9), 9);
    s = whole_row(z, 20);
    select_top_p(&s, &(struct nucleus){.top_p = 0.5, .keeps_crossing = true}, weight_scale_make(-3.25f, 1.0),
                 table, &scratch);
    ck_assert_uint_eq(s.n, 10); /* they reach it, and none crosses */
}
END_TEST

START_TEST(rules_follow_each_other)
{
    static float z[5000];
    fill_row(z, 5000, KIND_NORMAL, 3);
    struct support s = whole_row(z, 5000);
    select_top_k(&s, 600, false, table, &scratch);
    ck_assert_uint_eq(s.n, 600);
    select_top_k(&s, 40, false, table, &scratch);
    ck_assert_uint_eq(s.n, 40);
    sort_row(z, 5000);
    for (size_t i = 0; i < 40; i++)
        ck_assert(z[support_id(&s, i)] == s.z[i] && s.z[i] >= sorted[39].z);
}
END_TEST

static void setup(void)
{
    const char *why;
    struct error err;
    table = kernels_select("auto", &why);
    ck_assert_int_eq(arena_init(&scratch, 4096, &err), STATUS_OK);
}

static void teardown(void)
{
    arena_fini(&scratch);
}

int main(void)
{
    Suite *suite = suite_create("select");
    TCase *tcase = tcase_create("rules");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, top_k_keeps_what_sorting_keeps);
    tcase_add_test(tcase, above_keeps_what_reaches_it);
    tcase_add_test(tcase, top_p_keeps_what_sorting_keeps);
    tcase_add_test(tcase, top_p_keeps_a_sum_that_equals_it);
    tcase_add_test(tcase, rules_follow_each_other);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
