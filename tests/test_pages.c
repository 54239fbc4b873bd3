#include "server/request/pages.h"

#include "proto/openapi/openapi.h"
#include "tests/support.h"

/* A path of the document: what is * in a route is {name} there. */
static void write_path(const char *route, char *out, size_t size)
{
    size_t before = strcspn(route, "*");
    bool named = route[before] == '*';
    snprintf(out, size, "%.*s%s%s", (int)before, route, named ? "{name}" : "",
             named ? route + before + 1 : "");
}

/* Every route is in the OpenAPI document, by its method, and nothing else is. */
START_TEST(the_document_has_the_routes)
{
    char *text = openapi_document(), path[128];
    cJSON *document = cJSON_Parse(text);
    const cJSON *paths = cJSON_GetObjectItem(document, "paths");
    ck_assert_ptr_nonnull(paths);
    size_t place = 0;
    for (; pages_path(place) != NULL; place++) {
        write_path(pages_path(place), path, sizeof path);
        const struct route *route = pages_find(path, false, false);
        ck_assert_msg(route != NULL && pages_place(route) == place, "%s", path);
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(paths, path);
        ck_assert_msg(cJSON_GetArraySize(item) == 1, "%s", path);
        ck_assert_str_eq(item->child->string, strcmp(route->allow, "POST") == 0 ? "post" : "get");
    }
    ck_assert_uint_eq((size_t)cJSON_GetArraySize(paths), place);
    cJSON_Delete(document);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pages");
    TCase *tcase = tcase_create("routes");
    tcase_add_test(tcase, the_document_has_the_routes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
