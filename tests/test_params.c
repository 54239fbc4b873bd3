/* The parameter table, and that documents show it and the rules as they are. */
#include "core/rules/rule.h"
#include "proto/params/params.h"

#include "tests/support.h"

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s; run from the top folder", path);
    char *text = calloc(1, 1 << 20);
    ck_assert_uint_gt(fread(text, 1, (1 << 20) - 1, file), 0);
    fclose(file);
    return text;
}

static const struct {
    const char *path;
    void (*print)(FILE *out);
} tables[] = {{"docs/api.md", params_print}, {"docs/rules.md", params_print_rules}};

START_TEST(documents_show_the_tables)
{
    char *table = NULL, *document = read_text(tables[_i].path);
    size_t length;
    FILE *out = open_memstream(&table, &length);
    tables[_i].print(out);
    fclose(out);
    if (strstr(document, table) == NULL) {
        fputs(table, stderr);
        ck_abort_msg("%s must hold this table", tables[_i].path);
    }
    free(table);
    free(document);
}
END_TEST

/* Each rule has a section with its picture. */
START_TEST(rules_are_documented)
{
    char *document = read_text("docs/rules.md"), section[64], picture[64];
    for (size_t i = 0; i < NUM_RULES; i++) {
        if (rules[i]->place == PLACE_NOWHERE)
            continue;
        snprintf(section, sizeof section, "\n### %s\n", rules[i]->name);
        snprintf(picture, sizeof picture, "(rules/%s.svg)", rules[i]->name);
        ck_assert_msg(strstr(document, section) != NULL && strstr(document, picture) != NULL, "%s",
                      rules[i]->name);
    }
    free(document);
}
END_TEST

START_TEST(names_are_unique)
{
    for (size_t i = 0; i < params_count; i++)
        for (size_t j = i + 1; j < params_count; j++)
            ck_assert_str_ne(params_table[i].name, params_table[j].name);
}
END_TEST

static const struct {
    const char *typed, *meant; /* NULL: near none */
} typos[] = {
    {"top_pp", "top_p"},
    {"Top_P", "top_p"},
    {"top-k", "top_k"},
    {"temprature", "temperature"},
    {"TEMPERATURE", "temperature"},
    {"seeds", "seed"},
    {"log_probs", "logprobs"},
    {"logit", "logits"},
    {"top_candidate", "top_candidates"},
    {"frequncy_penalty", "frequency_penalty"},
    {"zzz", NULL},
    {"", NULL},
};

START_TEST(a_typo_is_told_the_nearest_name)
{
    struct error err;
    struct arena arena;
    ck_assert_int_eq(arena_init(&arena, 4096, &err), STATUS_OK);
    struct params p;
    const struct param *param;
    params_init(&p, &arena, PARAM_IN_JSON);
    ck_assert_int_eq(params_begin(&p, typos[_i].typed, strlen(typos[_i].typed), &param, &err),
                     STATUS_INVALID);
    ck_assert_str_eq(err.code, "unknown_parameter");
    ck_assert_str_eq(err.param, typos[_i].typed);
    char expected[64] = "";
    if (typos[_i].meant != NULL)
        snprintf(expected, sizeof expected, "did you mean %s?", typos[_i].meant);
    const char *asked = strstr(err.message, "did you mean");
    ck_assert_str_eq(asked == NULL ? "" : asked, expected);
    arena_fini(&arena);
}
END_TEST

START_TEST(a_long_name_is_cut_between_characters)
{
    struct error err;
    struct arena arena;
    ck_assert_int_eq(arena_init(&arena, 4096, &err), STATUS_OK);
    char name[200];
    for (size_t i = 0; i < 198; i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    struct params p;
    const struct param *param;
    params_init(&p, &arena, PARAM_IN_JSON);
    for (size_t shift = 0; shift < 2; shift++) {
        memmove(name + shift, name, 190);
        name[0] = shift ? 'x' : name[0];
        ck_assert_int_eq(params_begin(&p, name, 190, &param, &err), STATUS_INVALID);
        ck_assert_uint_eq(strlen(err.param) % 2, shift);
        ck_assert_uint_le(strlen(err.param), 64);
    }
    arena_fini(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("params");
    TCase *tcase = tcase_create("table");
    tcase_add_loop_test(tcase, documents_show_the_tables, 0, sizeof tables / sizeof tables[0]);
    tcase_add_test(tcase, rules_are_documented);
    tcase_add_test(tcase, names_are_unique);
    tcase_add_loop_test(tcase, a_typo_is_told_the_nearest_name, 0, sizeof typos / sizeof typos[0]);
    tcase_add_test(tcase, a_long_name_is_cut_between_characters);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
