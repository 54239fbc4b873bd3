#include "proto/openapi/openapi.h"

#include "proto/params/params.h"
#include "tests/support.h"

START_TEST(the_copy_is_the_document)
{
    char *document = openapi_document();
    ck_assert_ptr_nonnull(document);
    FILE *file = fopen("proto/openapi/openapi.json", "rb");
    ck_assert_msg(file != NULL, "cannot open proto/openapi/openapi.json; run from the top folder");
    char *copy = calloc(1, 1 << 20);
    size_t length = fread(copy, 1, (1 << 20) - 1, file);
    fclose(file);
    bool same = length == strlen(document) + 1 && memcmp(copy, document, length - 1) == 0;
    ck_assert_msg(
        same, "proto/openapi/openapi.json is out of date; curl http://127.0.0.1:8090/openapi.json gives it");
    free(copy);
    free(document);
}
END_TEST

START_TEST(every_parameter_is_in_it)
{
    char *text = openapi_document();
    cJSON *document = cJSON_Parse(text);
    ck_assert_ptr_nonnull(document);
    const cJSON *schemas = cJSON_GetObjectItem(cJSON_GetObjectItem(document, "components"), "schemas");
    const cJSON *fields = cJSON_GetObjectItem(cJSON_GetObjectItem(schemas, "SampleRequest"), "properties");
    for (size_t i = 0; i < params_count; i++) {
        bool in_json = (params_table[i].forms & PARAM_IN_JSON) != 0;
        ck_assert_msg(cJSON_HasObjectItem(fields, params_table[i].name) == in_json, "%s",
                      params_table[i].name);
    }
    cJSON_Delete(document);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("openapi");
    TCase *tcase = tcase_create("openapi");
    tcase_add_test(tcase, the_copy_is_the_document);
    tcase_add_test(tcase, every_parameter_is_in_it);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
