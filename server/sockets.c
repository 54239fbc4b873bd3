#include "server/sockets.h"

#include "server/access.h"
#include "server/systemd.h"

#include <unistd.h>

static enum status open_at(const struct config *config, const char *text, struct address *address, int *fd,
                           struct error *err)
{
    if (address_parse(text, address, err) != STATUS_OK)
        return err->status;
    address->mode = config->unix_socket_mode;
    return address_listen(address, fd, err);
}

static enum status open_main(const struct config *config, struct sockets *s, struct error *err)
{
    struct address wanted;
    if (s->handed_over) {
        if (address_of_socket(s->main_fd, &s->main, err) != STATUS_OK)
            return err->status;
        return access_check_address(config, &s->main, err);
    }
    if (address_parse(config->listen, &wanted, err) != STATUS_OK ||
        access_check_address(config, &wanted, err) != STATUS_OK)
        return err->status;
    return open_at(config, config->listen, &s->main, &s->main_fd, err);
}

enum status sockets_open(const struct config *config, struct sockets *out, struct error *err)
{
    *out = (struct sockets){.main_fd = -1, .admin_fd = -1};
    if (systemd_take_socket(&out->main_fd, err) != STATUS_OK)
        return err->status;
    out->handed_over = out->main_fd != -1;
    enum status status = open_main(config, out, err);
    if (status == STATUS_OK && config->admin_listen[0] != '\0')
        status = open_at(config, config->admin_listen, &out->admin, &out->admin_fd, err);
    if (status != STATUS_OK) {
        sockets_cleanup(out);
        sockets_close(out);
    }
    return status;
}

void sockets_close(const struct sockets *sockets)
{
    if (sockets->main_fd != -1)
        close(sockets->main_fd);
    if (sockets->admin_fd != -1)
        close(sockets->admin_fd);
}

void sockets_cleanup(const struct sockets *sockets)
{
    if (!sockets->handed_over && sockets->main_fd != -1)
        address_cleanup(&sockets->main);
    if (sockets->admin_fd != -1)
        address_cleanup(&sockets->admin);
}
