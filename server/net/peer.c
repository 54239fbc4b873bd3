#include "server/net/peer.h"

#include <linux/tcp.h> /* whose tcp_info goes further than that of netinet/tcp.h */
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

size_t peer_unread(int fd)
{
    int unread = 0;
    return ioctl(fd, FIONREAD, &unread) == 0 && unread > 0 ? (size_t)unread : 0;
}

uint64_t peer_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

bool peer_has_left(int fd)
{
    struct pollfd socket = {.fd = fd, .events = POLLRDHUP};
    return poll(&socket, 1, 0) == 1 && (socket.revents & POLLRDHUP) != 0 && peer_unread(fd) == 0;
}
