#include "server/shm/shm.h"

#include "tests/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES       ((size_t)8192)
#define MAX_REGIONS ((size_t)64)

static char key[64];
static int object;
static struct shm *shm;
static struct kserve_memory *memory;
static struct error err;

/* An object of bytes that say where they are. */
static void setup(void)
{
    unsigned char bytes[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i * 7);
    snprintf(key, sizeof key, "/samplerd-test-%d", (int)getpid());
    object = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(object, 0);
    ck_assert_int_eq(write(object, bytes, BYTES), (int)BYTES);
    ck_assert_int_eq(shm_create(MAX_REGIONS, &shm, &err), STATUS_OK);
    memory = shm_memory(shm);
}

static void teardown(void)
{
    shm_destroy(shm);
    shm_unlink(key);
    close(object);
}

static enum status add(const char *name, const char *object_key, size_t offset, size_t bytes)
{
    return shm_register(shm, name, &(struct kserve_region){object_key, offset, bytes}, &err);
}

static enum status take(const char *name, size_t offset, size_t bytes, struct kserve_pin *pin)
{
    return memory->pin(memory, &(struct kserve_place){name, offset, bytes}, pin, &err);
}

START_TEST(reads_and_writes)
{
    struct kserve_pin pin;
    unsigned char bytes[4];
    ck_assert_int_eq(add("a", key, 100, 50), STATUS_OK);
    ck_assert_int_eq(take("a", 10, 4, &pin), STATUS_OK);
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq(((const unsigned char *)pin.data)[i], (unsigned char)((110 + i) * 7));
    ck_assert_int_eq(memory->check(&pin, &err), STATUS_OK);
    ck_assert_int_eq(memory->write(&pin, "xy", 2, &err), STATUS_OK);
    ck_assert_int_eq(pread(object, bytes, 4, 110), 4);
    ck_assert_mem_eq(bytes, "xy", 2);
    memory->unpin(memory, &pin);
    ck_assert_ptr_null(pin.region);
}
END_TEST

static const struct {
    const char *key; /* NULL: that of the object */
    size_t offset, bytes;
    const char *message;
} refused[] = {
    {"", 0, 1, "it must be"},
    {"/", 0, 1, "it must be"},
    {"/.", 0, 1, "it must be"},
    {"/..", 0, 1, "it must be"},
    {".", 0, 1, "it must be"},
    {"..", 0, 1, "it must be"},
    {"a/", 0, 1, "it must be"},
    {"a/b", 0, 1, "it must be"},
    {"samplerd-no-such-object", 0, 1, "cannot open"},
    {"/../etc/passwd", 0, 1, "it must be"},
    {"/a/b", 0, 1, "it must be"},
    {"//a", 0, 1, "it must be"},
    {"/samplerd-no-such-object", 0, 1, "cannot open"},
    {NULL, 0, BYTES + 1, "has 8192 bytes"},
    {NULL, BYTES, 1, "has 8192 bytes"},
    {NULL, SIZE_MAX, 2, "has 8192 bytes"},
    {NULL, 1, SIZE_MAX, "has 8192 bytes"},
};

START_TEST(refuses)
{
    const char *name = refused[_i].key == NULL ? key : refused[_i].key;
    ck_assert_int_eq(add("a", name, refused[_i].offset, refused[_i].bytes), STATUS_INVALID);
    ck_assert_msg(strstr(err.message, refused[_i].message) != NULL, "%s", err.message);
}
END_TEST

START_TEST(refuses_places_outside)
{
    struct kserve_pin pin;
    ck_assert_int_eq(add("a", key, 0, 50), STATUS_OK);
    ck_assert_int_eq(add("a", key, 0, 50), STATUS_INVALID);
    ck_assert_int_eq(take("b", 0, 1, &pin), STATUS_INVALID);
    ck_assert_int_eq(take("a", 0, 51, &pin), STATUS_INVALID);
    ck_assert_int_eq(take("a", 50, 1, &pin), STATUS_INVALID);
    ck_assert_int_eq(take("a", SIZE_MAX, 2, &pin), STATUS_INVALID);
}
END_TEST

START_TEST(survives_truncation)
{
    struct kserve_pin pin;
    unsigned char bytes[BYTES] = {0};
    struct stat now;
    ck_assert_int_eq(add("a", key, 0, BYTES), STATUS_OK);
    ck_assert_int_eq(take("a", 0, BYTES, &pin), STATUS_OK);
    ck_assert_int_eq(ftruncate(object, 4096), 0);
    memcpy(bytes, pin.data, BYTES);
    ck_assert_int_eq(memory->check(&pin, &err), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "has become too small"));
    ck_assert_int_eq(memory->write(&pin, bytes, BYTES, &err), STATUS_INVALID);
    ck_assert_int_eq(fstat(object, &now), 0);
    ck_assert_int_eq((int)now.st_size, 4096);
    memory->unpin(memory, &pin);
    shm_unregister(shm, "a");
    ck_assert_int_eq(add("a", key, 0, 4096), STATUS_OK);
    ck_assert_int_eq(take("a", 0, 4096, &pin), STATUS_OK);
    ck_assert_int_eq(memory->check(&pin, &err), STATUS_OK);
    memory->unpin(memory, &pin);
}
END_TEST

/* root may write to anything, so an object is made that nobody may, and root gives itself up. */
START_TEST(what_may_not_be_written_can_be_read)
{
    struct kserve_pin pin;
    ck_assert_int_eq(fchmod(object, 0444), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_int_eq(add("a", key, 0, BYTES), STATUS_OK);
    ck_assert_int_eq(take("a", 1, 1, &pin), STATUS_OK);
    ck_assert_uint_eq(*(const unsigned char *)pin.data, 7);
    ck_assert_int_eq(memory->write(&pin, "x", 1, &err), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "cannot write"));
    ck_assert_uint_eq(*(const unsigned char *)pin.data, 7);
    memory->unpin(memory, &pin);
    ck_assert_int_eq(seteuid(getuid()), 0);
}
END_TEST

/* One that can only be read would wait for a writer; as above, so that it is tried. */
START_TEST(a_fifo_is_no_object)
{
    char path[80], fifo[72];
    snprintf(fifo, sizeof fifo, "%s-fifo", key);
    snprintf(path, sizeof path, "/dev/shm%s", fifo);
    ck_assert_int_eq(mkfifo(path, 0444), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
    enum status status = add("a", fifo, 0, 1);
    ck_assert_int_eq(seteuid(getuid()), 0);
    unlink(path);
    ck_assert_int_eq(status, STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "has 0 bytes"));
}
END_TEST

START_TEST(a_pinned_region_outlives_its_name)
{
    struct kserve_pin pin;
    ck_assert_int_eq(add("a", key, 0, BYTES), STATUS_OK);
    ck_assert_int_eq(take("a", 2, 1, &pin), STATUS_OK);
    shm_unregister(shm, "a");
    shm_unregister(shm, "a");
    ck_assert_int_eq(add("a", key, 0, 1), STATUS_OK);
    ck_assert_uint_eq(*(const unsigned char *)pin.data, 14);
    ck_assert_int_eq(memory->check(&pin, &err), STATUS_OK);
    ck_assert_str_eq(pin.place.region, "a");
    memory->unpin(memory, &pin);
}
END_TEST

/* shm_open() takes both, and so do the libraries of clients. */
START_TEST(the_slash_of_a_key_may_be_missing)
{
    struct kserve_pin pin;
    ck_assert_msg(add("a", key + 1, 1, 1) == STATUS_OK, "%s", err.message);
    ck_assert_int_eq(take("a", 0, 1, &pin), STATUS_OK);
    ck_assert_uint_eq(*(const unsigned char *)pin.data, 7);
    memory->unpin(memory, &pin);
}
END_TEST

START_TEST(regions_are_few)
{
    char name[16];
    for (size_t i = 0; i <= MAX_REGIONS; i++) {
        ck_assert_uint_eq(shm_count(shm), i);
        snprintf(name, sizeof name, "r%zu", i);
        ck_assert_int_eq(add(name, key, 0, 1), i < MAX_REGIONS ? STATUS_OK : STATUS_INVALID);
    }
    ck_assert_str_eq(err.message,
                     "there are 64 shared memory regions, as many as max_shared_memory_regions allows");
    shm_unregister(shm, NULL);
    ck_assert_uint_eq(shm_count(shm), 0);
    ck_assert_int_eq(add(name, key, 0, 1), STATUS_OK);
}
END_TEST

START_TEST(tells_its_regions)
{
    char *text = NULL, expected[256];
    size_t length;
    FILE *out = open_memstream(&text, &length);
    ck_assert_int_eq(add("a\"", key, 3, 5), STATUS_OK);
    ck_assert_int_eq(add("b", key, 0, 1), STATUS_OK);
    ck_assert_int_eq(shm_write_status(shm, "a\"", out, &err), STATUS_OK);
    fclose(out);
    snprintf(expected, sizeof expected, "[{\"name\":\"a\\\"\",\"key\":\"%s\",\"offset\":3,\"byte_size\":5}]",
             key);
    ck_assert_str_eq(text, expected);
    free(text);
}
END_TEST

static void *churn(void *argument)
{
    (void)argument;
    for (int i = 0; i < 2000; i++) {
        struct kserve_pin pin;
        struct error ignored;
        unsigned char bytes[16];
        shm_register(shm, "a", &(struct kserve_region){key, 0, BYTES}, &ignored);
        if (memory->pin(memory, &(struct kserve_place){"a", 0, 16}, &pin, &ignored) == STATUS_OK) {
            memcpy(bytes, pin.data, sizeof bytes);
            memory->check(&pin, &ignored);
            memory->unpin(memory, &pin);
        }
        shm_unregister(shm, i % 2 == 0 ? "a" : NULL);
    }
    return NULL;
}

START_TEST(threads_may_meet)
{
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm");
    TCase *tcase = tcase_create("regions");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, reads_and_writes);
    tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tcase, refuses_places_outside);
    tcase_add_test(tcase, survives_truncation);
    tcase_add_test(tcase, what_may_not_be_written_can_be_read);
    tcase_add_test(tcase, a_fifo_is_no_object);
    tcase_add_test(tcase, a_pinned_region_outlives_its_name);
    tcase_add_test(tcase, the_slash_of_a_key_may_be_missing);
    tcase_add_test(tcase, regions_are_few);
    tcase_add_test(tcase, tells_its_regions);
    tcase_add_test(tcase, threads_may_meet);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
