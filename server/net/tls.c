#include "server/net/tls.h"

#include "server/observe/log.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* TLS 1.2 and 1.3, and of 1.2 only suites with forward secrecy and authenticated encryption. */
#define TLS_PRIORITIES                                                                                       \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA:-AES-128-CBC:-AES-256-CBC:-AES-128-CCM:"       \
    "-AES-256-CCM:%SERVER_PRECEDENCE"

#define MAX_CHAIN 16u /* certificates of one chain */

/* What was read of one set of files. */
struct material {
    gnutls_x509_crt_t *chain; /* [num_certs], from gnutls_malloc() */
    unsigned num_certs;
    gnutls_x509_privkey_t key;
    gnutls_x509_trust_list_t client_ca; /* NULL: no client certificates */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct material in_force; /* guarded by mutex */

bool tls_is_on(const struct config *config)
{
    return config->tls_cert_file[0] != '\0';
}

/* ---- files ---- */

static enum status refuse(const char *key, const char *path, int failure, struct error *err)
{
    enum status status = failure == GNUTLS_E_MEMORY_ERROR ? STATUS_NO_MEMORY : STATUS_INVALID;
    return error_set(err, status, "unreadable_file", "%s: %.160s: %s", key, path, gnutls_strerror(failure));
}

static void material_fini(struct material *m)
{
    for (unsigned i = 0; i < m->num_certs; i++)
        gnutls_x509_crt_deinit(m->chain[i]);
    gnutls_free(m->chain);
    if (m->key != NULL)
        gnutls_x509_privkey_deinit(m->key);
    if (m->client_ca != NULL)
        gnutls_x509_trust_list_deinit(m->client_ca, 1);
    memset(m, 0, sizeof *m);
}

static enum status read_chain(struct material *m, const char *path, struct error *err)
{
    gnutls_datum_t file;
    int failure = gnutls_load_file(path, &file);
    if (failure < 0)
        return refuse("tls_cert_file", path, failure, err);
    failure = gnutls_x509_crt_list_import2(&m->chain, &m->num_certs, &file, GNUTLS_X509_FMT_PEM,
                                           GNUTLS_X509_CRT_LIST_SORT);
    gnutls_free(file.data);
    if (failure < 0) {
        m->num_certs = 0; /* GnuTLS has freed what it began */
        m->chain = NULL;
        return refuse("tls_cert_file", path, failure, err);
    }
    if (m->num_certs > MAX_CHAIN)
        return error_set(err, STATUS_INVALID, "too_large",
                         "tls_cert_file: %.160s has %u certificates, not %u", path, m->num_certs, MAX_CHAIN);
    return STATUS_OK;
}

static void warn_if_others_can_read(const char *path)
{
    struct stat file;
    if (stat(path, &file) == 0 && (file.st_mode & S_IROTH) != 0)
        log_warn("every user of this machine can read the key", log_text("tls_key_file", path));
}

static enum status read_key(struct material *m, const char *path, struct error *err)
{
    gnutls_datum_t file;
    int failure = gnutls_load_file(path, &file);
    if (failure < 0)
        return refuse("tls_key_file", path, failure, err);
    failure = gnutls_x509_privkey_init(&m->key);
    if (failure == 0)
        failure = gnutls_x509_privkey_import2(m->key, &file, GNUTLS_X509_FMT_PEM, NULL, 0);
    explicit_bzero(file.data, file.size);
    gnutls_free(file.data);
    if (failure < 0)
        return refuse("tls_key_file", path, failure, err);
    warn_if_others_can_read(path);
    return STATUS_OK;
}

/* A certificate and its key have the same public key. */
static enum status check_pair(const struct material *m, const struct config *config, struct error *err)
{
    unsigned char of_cert[64], of_key[64];
    size_t cert_size = sizeof of_cert, key_size = sizeof of_key;
    if (m->num_certs == 0 ||
        gnutls_x509_crt_get_key_id(m->chain[0], GNUTLS_KEYID_USE_SHA256, of_cert, &cert_size) != 0 ||
        gnutls_x509_privkey_get_key_id(m->key, GNUTLS_KEYID_USE_SHA256, of_key, &key_size) != 0 ||
        cert_size != key_size || memcmp(of_cert, of_key, cert_size) != 0)
        return error_set(err, STATUS_INVALID, "wrong_key", "the key of %.100s is not that of %.100s",
                         config->tls_key_file, config->tls_cert_file);
    return STATUS_OK;
}

static enum status read_client_ca(struct material *m, const char *path, struct error *err)
{
    int count = gnutls_x509_trust_list_init(&m->client_ca, 0);
    if (count == 0)
        count = gnutls_x509_trust_list_add_trust_file(m->client_ca, path, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    if (count < 0)
        return refuse("tls_client_ca_file", path, count, err);
    if (count == 0)
        return error_set(err, STATUS_INVALID, "no_certificate",
                         "tls_client_ca_file: %.160s has no certificate, so nobody could call", path);
    return STATUS_OK;
}

static enum status material_read(struct material *m, const struct config *config, struct error *err)
{
    if (read_chain(m, config->tls_cert_file, err) != STATUS_OK ||
        read_key(m, config->tls_key_file, err) != STATUS_OK || check_pair(m, config, err) != STATUS_OK)
        return err->status;
    if (config->tls_client_ca_file[0] != '\0')
        return read_client_ca(m, config->tls_client_ca_file, err);
    return STATUS_OK;
}

enum status tls_load(const struct config *config, struct error *err)
{
    struct material fresh = {0};
    if (!tls_is_on(config))
        return STATUS_OK;
    if (material_read(&fresh, config, err) != STATUS_OK) {
        material_fini(&fresh);
        return err->status;
    }
    pthread_mutex_lock(&mutex);
    struct material old = in_force;
    in_force = fresh;
    pthread_mutex_unlock(&mutex);
    material_fini(&old);
    return STATUS_OK;
}

void tls_unload(void)
{
    pthread_mutex_lock(&mutex);
    material_fini(&in_force);
    pthread_mutex_unlock(&mutex);
}

/* ---- handshakes ---- */

/* Judge the client's chain[count]; the mutex is held. */
static int verify_chain(gnutls_x509_crt_t *chain, unsigned count)
{
    unsigned faults = GNUTLS_CERT_INVALID;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    if (in_force.client_ca == NULL || gnutls_x509_trust_list_verify_crt2(in_force.client_ca, chain, count,
                                                                         &purpose, 1, 0, &faults, NULL) < 0)
        return GNUTLS_E_CERTIFICATE_ERROR;
    return faults == 0 ? 0 : GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

/* GnuTLS asks when the client's certificate has come; anything but 0 ends the handshake. */
static int verify_client(gnutls_session_t session)
{
    gnutls_x509_crt_t chain[MAX_CHAIN];
    unsigned count = 0, have = 0;
    int result = GNUTLS_E_NO_CERTIFICATE_FOUND;
    const gnutls_datum_t *peers = gnutls_certificate_get_peers(session, &count);
    if (peers == NULL || count == 0 || count > MAX_CHAIN)
        return result;
    for (; have < count; have++) {
        if ((result = gnutls_x509_crt_init(&chain[have])) != 0)
            break;
        if ((result = gnutls_x509_crt_import(chain[have], &peers[have], GNUTLS_X509_FMT_DER)) != 0) {
            have++;
            break;
        }
    }
    if (result == 0) {
        pthread_mutex_lock(&mutex);
        result = verify_chain(chain, count);
        pthread_mutex_unlock(&mutex);
    }
    while (have > 0)
        gnutls_x509_crt_deinit(chain[--have]);
    return result;
}

/* Copies, which the session frees when it has done with them: the originals may be replaced meanwhile. */
static int copy_chain(gnutls_pcert_st **certs, unsigned *num_certs)
{
    gnutls_pcert_st *copies = gnutls_calloc(in_force.num_certs, sizeof *copies);
    if (copies == NULL)
        return GNUTLS_E_MEMORY_ERROR;
    for (unsigned i = 0; i < in_force.num_certs; i++) {
        int failure = gnutls_pcert_import_x509(&copies[i], in_force.chain[i], 0);
        if (failure < 0) {
            while (i > 0)
                gnutls_pcert_deinit(&copies[--i]);
            gnutls_free(copies);
            return failure;
        }
    }
    *certs = copies;
    *num_certs = in_force.num_certs;
    return 0;
}

static void free_chain(gnutls_pcert_st *certs, unsigned num_certs)
{
    for (unsigned i = 0; i < num_certs; i++)
        gnutls_pcert_deinit(&certs[i]);
    gnutls_free(certs);
}

static int copy_key(gnutls_privkey_t *key)
{
    int failure = gnutls_privkey_init(key);
    if (failure < 0)
        return failure;
    failure = gnutls_privkey_import_x509(*key, in_force.key, GNUTLS_PRIVKEY_IMPORT_COPY);
    if (failure < 0)
        gnutls_privkey_deinit(*key);
    return failure;
}

/* GnuTLS asks which certificate to show; of the type gnutls_certificate_retrieve_function3. */
static int retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certs,
                    unsigned *num_certs, gnutls_ocsp_data_st **ocsp, unsigned *num_ocsp,
                    gnutls_privkey_t *key, unsigned *flags)
{
    (void)info;
    *ocsp = NULL;
    *num_ocsp = 0;
    *flags = GNUTLS_CERT_RETR_DEINIT_ALL;
    pthread_mutex_lock(&mutex);
    int failure = copy_chain(certs, num_certs);
    if (failure == 0 && (failure = copy_key(key)) != 0)
        free_chain(*certs, *num_certs);
    bool demand = in_force.client_ca != NULL;
    pthread_mutex_unlock(&mutex);
    if (demand) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_function(session, verify_client);
    }
    return failure == 0 ? 0 : -1;
}

struct MHD_OptionItem *tls_options(const struct config *config)
{
    static struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    static struct MHD_OptionItem some[] = {{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
                                           {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)retrieve},
                                           {MHD_OPTION_END, 0, NULL}};
    return tls_is_on(config) ? some : none;
}
