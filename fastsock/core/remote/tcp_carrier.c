#define _GNU_SOURCE
#include "tcp_carrier.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_BYTES (FS_FRAMES / 2 * FS_FRAME_ROOM) /* a power of two */
#define IN_BYTES ((size_t)16 * FS_FRAME_ROOM)
#define SENT_FROM (OUT_BYTES / 4) /* fewer bytes wait for the end of the turn */

struct tcp_carrier {
    struct fs_carrier carrier;
    int tcp;
    uint32_t events; /* that its epoll waits for */
    int ended;       /* the other end has sent all that it will send */
    int error;
    uint64_t posted, given; /* bytes; given: to the kernel */
    uint64_t arrived, released;
    uint64_t with_bytes; /* of those that arrived */
    size_t first, count; /* bytes in `in` */
    unsigned char out[OUT_BYTES];
    unsigned char in[IN_BYTES];
    unsigned char slots[FS_FRAMES][FS_FRAME_PAYLOAD];
};

static struct tcp_carrier *of(const struct fs_carrier *carrier) { return (struct tcp_carrier *)(uintptr_t)carrier; }

static int fail(struct tcp_carrier *tcp, int error)
{
    if (tcp->error == 0) tcp->error = error;
    return -tcp->error;
}

/* ---- outwards ---- */

static void put(struct tcp_carrier *tcp, const void *data, size_t length)
{
    size_t at = tcp->posted % OUT_BYTES, together = OUT_BYTES - at;
    if (length == 0) return;
    if (together > length) together = length;
    memcpy(tcp->out + at, data, together);
    memcpy(tcp->out, (const unsigned char *)data + together, length - together);
    tcp->posted += length;
}

static void give(struct tcp_carrier *tcp)
{
    while (tcp->given < tcp->posted && tcp->error == 0) {
        size_t at = tcp->given % OUT_BYTES, length = tcp->posted - tcp->given;
        if (length > OUT_BYTES - at) length = OUT_BYTES - at;
        ssize_t sent = send(tcp->tcp, tcp->out + at, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) tcp->given += (uint64_t)sent;
        else if (errno == EAGAIN) return;
        else if (errno != EINTR) fail(tcp, errno);
    }
}

static unsigned room(const struct fs_carrier *carrier)
{
    const struct tcp_carrier *tcp = of(carrier);
    return (unsigned)((OUT_BYTES - (tcp->posted - tcp->given)) / FS_FRAME_ROOM);
}

static int64_t post(struct fs_carrier *carrier, const struct fs_frame *frame, const void *data, size_t length,
                    int signaled)
{
    struct tcp_carrier *tcp = of(carrier);
    unsigned char head[FS_FRAME_BYTES];
    (void)signaled; /* nothing of the caller's is under way */
    if (tcp->error != 0) return -tcp->error;
    fs_frame_put(head, frame);
    put(tcp, head, sizeof head);
    put(tcp, data, length);
    if (tcp->posted - tcp->given >= SENT_FROM) give(tcp);
    return (int64_t)tcp->posted;
}

/* Only the other host's acknowledgement tells that it has the bytes: a reset drops what waits here. */
static int64_t done(const struct fs_carrier *carrier)
{
    const struct tcp_carrier *tcp = of(carrier);
    int unacknowledged = 0;
    if (tcp->ended || ioctl(tcp->tcp, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged < 0) return (int64_t)tcp->given;
    return (uint64_t)unacknowledged > tcp->given ? 0 : (int64_t)(tcp->given - (uint64_t)unacknowledged);
}

static void farewell(struct fs_carrier *carrier)
{
    struct tcp_carrier *tcp = of(carrier);
    give(tcp);
    if (tcp->given == tcp->posted) shutdown(tcp->tcp, SHUT_WR); /* again: it is nothing */
}

/* ---- inwards ---- */

/* 1: `arrival` is the next frame.  0: not all of it is here.  Or -EPROTO. */
static int take(struct tcp_carrier *tcp, struct fs_arrival *arrival)
{
    if (tcp->count < FS_FRAME_BYTES) return 0;
    const unsigned char *head = tcp->in + tcp->first;
    arrival->frame = fs_frame_get(head);
    size_t length = arrival->frame.kind == FS_FRAME_DATA ? arrival->frame.length : 0;
    if (arrival->frame.length > FS_FRAME_PAYLOAD || arrival->frame.kind == FS_FRAME_WRITTEN ||
        arrival->frame.kind == FS_FRAME_OFFERED)
        return fail(tcp, EPROTO);
    if (tcp->count < FS_FRAME_BYTES + length) return 0;
    if (tcp->arrived - tcp->released == FS_FRAMES) return fail(tcp, EPROTO); /* more than it had credit for */
    arrival->slot = (uint32_t)(tcp->with_bytes % FS_FRAMES);
    arrival->data = tcp->slots[arrival->slot];
    memcpy(tcp->slots[arrival->slot], head + FS_FRAME_BYTES, length);
    tcp->with_bytes += length > 0;
    tcp->arrived++;
    tcp->first += FS_FRAME_BYTES + length;
    tcp->count -= FS_FRAME_BYTES + length;
    return 1;
}

/* 1: there are more bytes than before. */
static int hear(struct tcp_carrier *tcp)
{
    if (tcp->ended) return 0;
    memmove(tcp->in, tcp->in + tcp->first, tcp->count);
    tcp->first = 0;
    for (;;) {
        ssize_t got = recv(tcp->tcp, tcp->in + tcp->count, IN_BYTES - tcp->count, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) {
            tcp->count += (size_t)got;
            return 1;
        }
        if (got == 0 || errno != EAGAIN) {
            tcp->ended = got == 0;
            fail(tcp, got == 0 ? ECONNRESET : errno);
        }
        return 0;
    }
}

static int poll_frames(struct fs_carrier *carrier, struct fs_arrival *arrivals, int most)
{
    struct tcp_carrier *tcp = of(carrier);
    int found = 0;
    give(tcp);
    while (found < most) {
        int taken = take(tcp, &arrivals[found]);
        if (taken < 0) break;
        found += taken;
        if (taken == 0 && !hear(tcp)) break;
    }
    return found > 0 || tcp->error == 0 ? found : -tcp->error;
}

static int release(struct fs_carrier *carrier, uint32_t slot)
{
    (void)slot; /* those with bytes are released in order */
    of(carrier)->released++;
    return 0;
}

/* ---- readiness ---- */

static int arm(struct fs_carrier *carrier)
{
    struct tcp_carrier *tcp = of(carrier);
    give(tcp);
    uint32_t wanted = (tcp->ended ? 0u : EPOLLIN) | (tcp->given < tcp->posted ? EPOLLOUT : 0u);
    struct epoll_event event = {wanted, {.ptr = NULL}};
    if (tcp->error == 0 && wanted != tcp->events) {
        if (epoll_ctl(carrier->descriptor, EPOLL_CTL_MOD, tcp->tcp, &event) != 0) fail(tcp, errno);
        tcp->events = wanted;
    }
    return -tcp->error;
}

static void close_carrier(struct fs_carrier *carrier)
{
    if (carrier->descriptor >= 0) close(carrier->descriptor);
    free(of(carrier));
}

static const struct fs_carrier_calls calls = {
    .room = room,
    .post = post,
    .done = done,
    .poll = poll_frames,
    .release = release,
    .arm = arm,
    .farewell = farewell,
    .close = close_carrier,
};

struct fs_carrier *fs_tcp_carrier_make(int tcp, uint64_t window_bytes, int *error)
{
    const int one = 1;
    struct epoll_event event = {EPOLLIN, {.ptr = NULL}};
    struct tcp_carrier *made = calloc(1, sizeof *made);
    *error = -ENOMEM;
    if (made == NULL) return NULL;
    made->tcp = tcp;
    made->events = EPOLLIN;
    made->carrier.calls = &calls;
    made->carrier.window_bytes = window_bytes;
    made->carrier.descriptor = epoll_create1(EPOLL_CLOEXEC);
    /* what the program asked of its own bytes holds for frames no more */
    setsockopt(tcp, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (made->carrier.descriptor >= 0 && epoll_ctl(made->carrier.descriptor, EPOLL_CTL_ADD, tcp, &event) == 0)
        return &made->carrier;
    *error = -errno;
    close_carrier(&made->carrier);
    return NULL;
}
