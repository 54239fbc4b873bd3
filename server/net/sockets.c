#include "server/net/sockets.h"

#include "server/request/access.h"

#include <limits.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

static enum status open_at(const struct config *config, const char *text, struct address *address, int *fd,
                           struct error *err)
{
    if (address_parse(text, address, err) != STATUS_OK)
        return err->status;
    address->mode = config->unix_socket_mode;
    return address_listen(address, fd, err);
}

static enum status check_handed_over(const struct config *config, struct sockets *s, struct error *err)
{
    for (size_t i = 0; i < s->num_main; i++)
        if (address_of_socket(s->main_fds[i], &s->main[i], err) != STATUS_OK ||
            access_check_address(config, &s->main[i], err) != STATUS_OK)
            return err->status;
    return STATUS_OK;
}

static enum status open_main(const struct config *config, struct sockets *s, struct error *err)
{
    struct address wanted;
    if (address_parse(config->listen, &wanted, err) != STATUS_OK ||
        access_check_address(config, &wanted, err) != STATUS_OK ||
        open_at(config, config->listen, &s->main[0], &s->main_fds[0], err) != STATUS_OK)
        return err->status;
    s->num_main = 1;
    return STATUS_OK;
}

enum status sockets_open(const struct config *config, struct sockets *out, struct error *err)
{
    *out = (struct sockets){.admin_fd = -1};
    if (systemd_take_sockets(out->main_fds, &out->num_main, err) != STATUS_OK)
        return err->status;
    out->handed_over = out->num_main > 0;
    enum status status = out->handed_over ? check_handed_over(config, out, err) : open_main(config, out, err);
    if (status == STATUS_OK && config->admin_listen[0] != '\0')
        status = open_at(config, config->admin_listen, &out->admin, &out->admin_fd, err);
    if (status != STATUS_OK) {
        sockets_cleanup(out);
        sockets_close(out);
    }
    return status;
}

/*
 * A listening socket that is closed resets who has connected but is not accepted yet, so those must stop
 * coming before it can be: a filter passes over every segment that would begin a connection.  The client
 * sends it again, and is then refused.
 */
static void drop_beginnings(int fd)
{
    const unsigned FLAGS_OFFSET = 13, SYN = 0x02, NOTHING = 0, ALL = UINT_MAX;
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_OFFSET), /* of the TCP header, RFC 9293, section 3.1 */
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, NOTHING),
        BPF_STMT(BPF_RET | BPF_K, ALL),
    };
    struct sock_fprog filter = {sizeof steps / sizeof steps[0], steps};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

void sockets_withdraw(struct sockets *sockets)
{
    if (sockets->handed_over || sockets->withdrawn)
        return;
    if (address_is_unix(&sockets->main[0]))
        address_cleanup(&sockets->main[0]);
    else
        drop_beginnings(sockets->main_fds[0]);
    sockets->withdrawn = true;
}

void sockets_close(const struct sockets *sockets)
{
    for (size_t i = 0; i < sockets->num_main; i++)
        close(sockets->main_fds[i]);
    if (sockets->admin_fd != -1)
        close(sockets->admin_fd);
}

void sockets_cleanup(const struct sockets *sockets)
{
    if (!sockets->handed_over && !sockets->withdrawn && sockets->num_main > 0)
        address_cleanup(&sockets->main[0]);
    if (sockets->admin_fd != -1)
        address_cleanup(&sockets->admin);
}
