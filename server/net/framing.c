#include "server/net/framing.h"

#include <string.h>
#include <strings.h>

/*
 * libmicrohttpd takes a bare LF for a line's end, white space before a colon for a part of the name, and
 * joins folded lines; MHD_OPTION_STRICT_FOR_CLIENT changes none of it in 0.9.75.  But it parses in place: the
 * strings it hands out lie where the bytes came in, cut by zeros.  So the head is laid out again from them,
 *
 *     ... version CR LF (name ":" OWS value CR LF)* CR LF
 *
 * and must fill, to the byte, what the head took.  A bare LF is one byte less than CR LF, a folded line or
 * a zero byte leaves a gap, and a string that was copied elsewhere lies outside; all are refused.  (What this
 * cannot tell from CR LF is a zero byte before a bare LF.)
 */
#define KNOWN_LAYOUT                                                                                         \
    "0.9.7" /* versions 0.9.70 to 0.9.79; later ones are strict by themselves, and lay out otherwise */

bool framing_is_in_place(void)
{
    return strncmp(MHD_get_version(), KNOWN_LAYOUT, strlen(KNOWN_LAYOUT)) == 0;
}

struct walk {
    bool known;       /* the layout is */
    const char *next; /* where the next line must begin */
    const char *end;  /* of the head, its empty line included */
    const char *fault;
    const char *length, *coding, *host; /* Content-Length, Transfer-Encoding, Host */
    int num_lengths, num_codings, num_hosts;
};

/* Whether all characters are letters, digits or of these marks. */
static bool is_made_of(const char *text, const char *marks)
{
    for (const char *s = text; *s != '\0'; s++) {
        bool alphanumeric = (*s >= '0' && *s <= '9') || ((*s | 32) >= 'a' && (*s | 32) <= 'z');
        if (!alphanumeric && strchr(marks, *s) == NULL)
            return false;
    }
    return true;
}

/* tchar of RFC 9110, section 5.6.2 */
static bool is_token(const char *name)
{
    return *name != '\0' && is_made_of(name, "!#$%&'*+-.^_`|~");
}

/* uri-host [ ":" port ], as far as its characters go (RFC 3986, section 3.2.2); empty is a host */
static bool is_host(const char *value)
{
    return is_made_of(value, "-._~!$&'()*+,;=%:[]");
}

/* field-value: visible characters, spaces, tabs, and bytes above ASCII */
static bool is_value(const char *value)
{
    for (const unsigned char *s = (const unsigned char *)value; *s != '\0'; s++)
        if ((*s < ' ' && *s != '\t') || *s == 127)
            return false;
    return true;
}

static bool is_white(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    return from == to;
}

static const char *fault_of_line(const struct walk *w, const char *name, const char *value)
{
    if (name != w->next)
        return "a line does not end in CR LF, or is folded";
    if (!is_token(name))
        return "a header's name has white space or another character that no name has";
    const char *behind_colon = name + strlen(name) + 1;
    if (value < behind_colon || value >= w->end || !is_white(behind_colon, value))
        return "a header is folded";
    if (!is_value(value))
        return "a header's value has a control character";
    return NULL;
}

static enum MHD_Result visit(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct walk *w = cls;
    if (w->known)
        w->fault = fault_of_line(w, name, value);
    if (w->fault != NULL)
        return MHD_NO;
    w->next = value + strlen(value) + 2;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        w->length = value;
        w->num_lengths++;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        w->coding = value;
        w->num_codings++;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        w->host = value;
        w->num_hosts++;
    }
    return MHD_YES;
}

static enum status refuse(struct error *err, const char *why)
{
    return error_set(err, STATUS_INVALID, "malformed_header", "%s", why);
}

/* RFC 9112, section 6.3: what may say how long the body is. */
static enum status judge_length(const struct walk *w, const char *version, struct error *err)
{
    if (w->num_lengths > 1)
        return refuse(err, "there is more than one Content-Length");
    if (w->num_codings == 0)
        return STATUS_OK;
    if (w->num_lengths > 0)
        return refuse(err, "there is a Content-Length and a Transfer-Encoding");
    if (w->num_codings > 1 || strcasecmp(w->coding, "chunked") != 0)
        return error_set(err, STATUS_INVALID, "malformed_header",
                         "Transfer-Encoding is \"%.40s\"%s; it must be chunked, once", w->coding,
                         w->num_codings > 1 ? " and more" : "");
    if (strcmp(version, MHD_HTTP_VERSION_1_1) != 0)
        return refuse(err, "Transfer-Encoding is of HTTP/1.1");
    return STATUS_OK;
}

/* RFC 9112, section 3.2: who is asked must be said, once. */
static enum status judge_host(const struct walk *w, const char *version, struct error *err)
{
    if (w->num_hosts > 1)
        return refuse(err, "there is more than one Host");
    if (w->num_hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        return refuse(err, "there is no Host, without which HTTP/1.1 is not to be answered");
    if (w->num_hosts == 0 || is_host(w->host))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "malformed_header",
                     "Host is \"%.60s\"; it must be HOST or HOST:PORT", w->host);
}

const char *framing_path(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t length = strlen(schemes[i]);
        if (strncasecmp(target, schemes[i], length) != 0)
            continue;
        const char *path = target + length + strcspn(target + length, "/");
        if (path == target + length)
            return target; /* nobody is asked */
        return *path == '\0' ? "/" : path;
    }
    return target;
}

enum status framing_judge(struct MHD_Connection *connection, const char *method, const char *version,
                          bool *chunked, struct error *err)
{
    size_t size = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    bool known = framing_is_in_place();
    struct walk w = {.known = known, .end = method + size};
    if (known && (version <= method || version >= w.end))
        return refuse(err, "the request line has no version");
    w.next = version + strlen(version) + 2;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, visit, &w);
    if (w.fault != NULL)
        return refuse(err, w.fault);
    if (known && w.next + 2 != w.end)
        return refuse(err, "a line does not end in CR LF, or has a zero byte");
    *chunked = w.num_codings > 0;
    if (judge_host(&w, version, err) != STATUS_OK)
        return err->status;
    return judge_length(&w, version, err);
}
