/* A link over the descriptor of a connected stream: TCP, or a UNIX socket. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "copy.h"
#include "link.h"

#define STAGE (64u * 1024) /* short messages come in together */
#define LONG (16u * 1024)  /* and long ones straight to their place */
#define DROPPED (16 << 20) /* at most so much at the close: the other end may never stop sending */

static ssize_t descriptor_write(struct fs_link *link, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(link->descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -EPIPE;
}

static ssize_t receive(struct fs_link *link, void *target, size_t length)
{
    if (link->drained) return 0;
    ssize_t got = recv(link->descriptor, target, length, MSG_DONTWAIT);
    if (got == 0) return -EPIPE;
    if (got < 0 && errno != EAGAIN && errno != EINTR) return -EPIPE;
    link->drained = got < (ssize_t)length; /* for this round */
    return got < 0 ? 0 : got;
}

/* How much to take in at once.  Behind a message that fills the stage another one is likely.  Then its header is read
 * alone: another call costs less than another copy. */
static size_t to_stage(struct fs_link *link)
{
    if (link->leaving) return STAGE; /* all of it is dropped */
    if (!link->in_payload) return link->long_ones ? sizeof link->frame : STAGE;
    return link->long_ones && link->in_left < STAGE ? link->in_left : STAGE;
}

static ssize_t descriptor_read(struct fs_link *link, void *target, size_t length)
{
    if (link->in_payload) link->long_ones = link->frame.length >= STAGE;
    int whole = link->in_payload && link->long_ones && length == link->in_left;
    if (link->staged == 0 && target && (length >= LONG || whole)) return receive(link, target, length);
    if (link->staged == 0) {
        ssize_t got = receive(link, link->staging, to_stage(link));
        if (got <= 0) return got;
        link->staged_from = 0;
        link->staged = (size_t)got;
    }
    if (length > link->staged) length = link->staged;
    if (target) fs_copy(target, link->staging + link->staged_from, length);
    link->staged_from += length;
    link->staged -= length;
    return (ssize_t)length;
}

static void descriptor_taken(struct fs_link *link) { link->drained = 0; }

/* the kernel knows */
static int descriptor_has_input(const struct fs_link *link)
{
    (void)link;
    return 1;
}

static int descriptor_has_room(const struct fs_link *link)
{
    (void)link;
    return 1;
}

static int descriptor_watch(struct fs_link *link, struct pollfd *one)
{
    *one = (struct pollfd){link->descriptor, POLLIN | POLLRDHUP, 0};
    if (atomic_load(&link->pending)) one->events |= POLLOUT;
    return link->staged != 0;
}

/* TCP's close becomes a reset where bytes are unread, or come later.  A reset drops what the other end's kernel has not
 * taken yet.  So the end of the stream is sent, and all before it must be acknowledged.  A UNIX socket's bytes are in the
 * other end's queue at once, and stay there. */
static int descriptor_delivered(struct fs_link *link)
{
    int unacknowledged = 0; /* the end of the stream counts as a byte, and its acknowledgement is often put off */
    if (!link->is_shut) shutdown(link->descriptor, SHUT_WR);
    link->is_shut = 1;
    return link->is_local || ioctl(link->descriptor, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged <= 1;
}

static void descriptor_close(struct fs_link *link)
{
    /* who did not wait leaves at least no reset for what is here */
    for (ssize_t left = DROPPED, got = 1; left > 0 && got > 0; left -= got)
        got = recv(link->descriptor, link->staging, STAGE, MSG_DONTWAIT);
    close(link->descriptor);
}

static const struct fs_link_calls calls = {
    .path = "a stream socket",
    .write = descriptor_write,
    .read = descriptor_read,
    .taken = descriptor_taken,
    .has_input = descriptor_has_input,
    .has_room = descriptor_has_room,
    .watch = descriptor_watch,
    .delivered = descriptor_delivered,
    .close = descriptor_close,
};

int fs_engine_attach_descriptor(struct fs_engine *engine, int peer, int descriptor)
{
    int type = 0, domain = 0, on = 1;
    socklen_t size = sizeof type;
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return -errno;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return -errno;
    if (type != SOCK_STREAM) return -EINVAL;
    struct fs_link *link = fs_link_new(peer, &calls, descriptor);
    if (link) link->staging = malloc(STAGE);
    if (!link || !link->staging) {
        free(link);
        return -ENOMEM;
    }
    link->is_local = domain == AF_UNIX;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* where it is TCP, or falls back to it */
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0) fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
    int error = fs_link_attach(engine, link);
    if (error) fs_link_free(link);
    return error;
}
