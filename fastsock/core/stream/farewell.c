/* Leaving in good order: what was sent is read before anybody is told that nobody is there.
 *
 * A UNIX socket says HUP as soon as its peer is closed, TCP only when both halves are shut; and programs take HUP for the
 * end, whatever is unread.  So an end that closes lets its own descriptor travel, with some bytes more over the doorbell:
 * it lives in the other end's queue, and a shut writing half shows what TCP shows, IN and RDHUP.  Those bytes are
 * announced, but not as tokens, so exact eating leaves them there.  They are taken off, and the HUP shows, when the other
 * end sends to nobody, as a reset would show it, or shuts its own writing half; or they go with the other end.
 *
 * Behind a shutdown of the writing half no byte can be sent any more.  So a lifeline travels right before it, one end of
 * a fresh socket pair, into whose queue the closing end later puts its descriptor.
 *
 * With the descriptor lives its registration with a poller that was not told of the close.  Such a one must report
 * nothing any more: the bytes fill the send buffer, and nothing comes in.
 *
 * An end that a pump serves leaves as a UNIX socket does: the pump goes by the HUP.
 * So does one whose other end shut its writing half before: both halves are shut, and TCP says HUP too.
 *
 * A process that is killed says nothing: the kernel closes its end, and the other one shows HUP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "end.h"
#include "system.h"

#define PATIENCE_NS 50000000ull
#define MOST_CALLS 64

/* Some bytes with `descriptor` over the UNIX stream `stream`.  Whoever reads the first without asking closes it. */
static int put_into(int stream, int descriptor)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    static char block[FS_FAREWELL_BYTES];
    struct iovec one = {block, sizeof block};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    memset(&control, 0, sizeof control);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(stream, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof block;
}

/* Announced first: other bytes are payload of code that knows nothing of the ring. */
static int send_over_doorbell(struct fs_end *end, int doorbell, int descriptor)
{
    _Atomic uint32_t *state = &end->out.shared->farewell;
    atomic_store(state, FS_FAREWELL_UNDER_WAY);
    int sent = put_into(doorbell, descriptor);
    atomic_store(state, sent ? FS_FAREWELL_SENT : FS_FAREWELL_NONE);
    return sent;
}

static ino_t file_of(int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

/* A program may close every number that it does not know, and use it again. */
static int has_lifeline(const struct fs_end *end)
{
    return end->lifeline >= 0 && file_of(end->lifeline) == end->lifeline_file;
}

void fs_farewell_drop_lifeline(struct fs_end *end)
{
    if (has_lifeline(end)) close(end->lifeline);
    end->lifeline = -1;
}

static void throw_lifeline(struct fs_end *end, int doorbell)
{
    int pair[2];
    if (end->lifeline >= 0 || fs_end_other_left(end)) return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return; /* then HUP shows at the close */
    if (send_over_doorbell(end, doorbell, pair[1])) {
        end->lifeline = pair[0];
        end->lifeline_file = file_of(pair[0]);
    } else {
        close(pair[0]);
    }
    close(pair[1]);
}

/* With the consumer's lock. */
static void take_off(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    struct pollfd one = {doorbell, 0, 0};
    char drop[4096];
    if (end->buried || !fs_end_other_left(end)) return;
    for (int i = 0; i < MOST_CALLS && poll(&one, 1, 0) == 0; i++)
        if (recv(doorbell, drop, sizeof drop, MSG_DONTWAIT) <= 0) break;
    end->buried = poll(&one, 1, 0) > 0;
    atomic_store(&in->eaten, atomic_load(&in->bell) >> FS_BELL_SHIFT);
}

/* As a reset would: the other end is gone, and its descriptor with it.  A byte that nobody reads leaves the error. */
void fs_farewell_bury(struct fs_end *end, int doorbell, int with_error)
{
    if (end->buried) return;
    if (!fs_end_other_left(end)) { /* killed; or it shut both halves: TCP answers that by a reset too */
        end->buried = shutdown(doorbell, SHUT_RDWR) == 0;
        return;
    }
    if (fs_lock(end->exclusion.receiver, PATIENCE_NS) != 0) return;
    if (fs_doorbell_foreign(end, doorbell) == 0) { /* else payload is unread before the farewell */
        if (with_error) send(doorbell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        take_off(end, doorbell);
    }
    fs_unlock(end->exclusion.receiver);
}

static int carries_payload(const struct fs_end *end)
{
    return end->raw_in || end->raw_out || fs_is_raw(end->in.shared) || fs_is_raw(end->out.shared);
}

/* Whether the other end would lose something by a HUP. */
static int has_unread(const struct fs_end *end) { return !fs_end_other_left(end) && fs_ring_unread(&end->out) != 0; }

/* The kernel's shutdown of the reading half also shuts the other end's writing half, and both halves shut say HUP there.
 * So it is only told to whoever could not hear of it otherwise: foreign pollers, sleepers, forked processes. */
static int must_show_reading(const struct fs_end *end)
{
    return atomic_load(&end->in.shared->watched) != FS_WATCHED_NOT || fs_end_shared(end) ||
           atomic_load(&end->sleepers) != 0;
}

static int shut_kernel(struct fs_end *end, int doorbell, int writes)
{
    struct fs_direction *out = end->out.shared;
    int reads = !end->kernel_reading_shut && atomic_load(&end->in.shared->reading_shut) && must_show_reading(end);
    if (writes && (reads || end->kernel_reading_shut) && has_unread(end)) {
        atomic_store(&out->producer_shut, FS_SHUT_UNSHOWN);
        writes = 0;
    }
    if (!reads && !writes) return 0;
    if (writes && fs_end_other_left(end)) fs_farewell_bury(end, doorbell, 0); /* both halves are shut now */
    if (reads) end->kernel_reading_shut = 1;
    return shutdown(doorbell, reads && writes ? SHUT_RDWR : reads ? SHUT_RD : SHUT_WR) == 0 ? 0 : -errno;
}

void fs_farewell_show(struct fs_end *end, int doorbell)
{
    if (atomic_load(&end->in.shared->reading_shut) && !carries_payload(end)) shut_kernel(end, doorbell, 0);
}

int fs_farewell_shut(struct fs_end *end, int doorbell, int how, int locked)
{
    struct fs_direction *out = end->out.shared;
    int writes = 0;
    if (carries_payload(end)) {
        if (how != SHUT_RD) atomic_store(&out->producer_shut, FS_SHUT_RAW);
        return shutdown(doorbell, how) == 0 ? 0 : -errno;
    }
    if (end->abrupt) {
        if (how != SHUT_RD) atomic_store(&out->producer_shut, FS_SHUT);
        if (how != SHUT_WR) end->kernel_reading_shut = 1;
        return shutdown(doorbell, how) == 0 ? 0 : -errno;
    }
    if (how != SHUT_WR) {
        atomic_store(&end->in.shared->reading_shut, 1);
        atomic_fetch_add(&end->in.shared->notice, 1);
    }
    if (how != SHUT_RD) {
        uint32_t open = FS_SHUT_NOT;
        writes = atomic_compare_exchange_strong(&out->producer_shut, &open, FS_SHUT);
        if (writes && locked && fs_ring_say_farewell(&end->out)) throw_lifeline(end, doorbell);
    }
    return shut_kernel(end, doorbell, writes);
}

/* The reader's half of a shutdown that the other end could not show: everything was read. */
void fs_farewell_read_to_the_end(struct fs_end *end, int doorbell)
{
    if (atomic_load(&end->in.shared->producer_shut) != FS_SHUT_UNSHOWN) return;
    shutdown(doorbell, SHUT_RD);
    take_off(end, doorbell);
}

/* A poller that still has it hears nothing more; none has what nobody asked the number of. */
static void quieten(struct fs_end *end, int doorbell, int shut)
{
    int least = 1;
    if (fs_end_is_watched(end)) setsockopt(doorbell, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
    if (!shut) shut_kernel(end, doorbell, 1);
}

/* Bytes left behind, such as the other end's lifeline, would make the kernel tell it of a reset. */
static void leave_nothing(int doorbell)
{
    char drop[4096];
    for (int i = 0; i < MOST_CALLS && recv(doorbell, drop, sizeof drop, MSG_DONTWAIT) > 0; i++) {}
}

void fs_farewell_close_raw(struct fs_end *end, int doorbell)
{
    if (atomic_load(&end->in.shared->head) & FS_FAREWELL && fs_doorbell_foreign(end, doorbell) == 0)
        leave_nothing(doorbell);
}

void fs_farewell_close(struct fs_end *end, int doorbell)
{
    struct fs_direction *out = end->out.shared;
    if (end->abrupt || fs_lock(end->exclusion.sender, PATIENCE_NS) != 0) return;
    if (!carries_payload(end)) {
        /* two descriptors that lie in each other's queues would be garbage: only the first that leaves sends its own */
        uint32_t before = atomic_fetch_or(&end->header->left, fs_side_mark(end->side));
        int shut = atomic_load(&out->producer_shut) != FS_SHUT_NOT;
        /* where the other end shut its half before, TCP says HUP too; and a poller that still has this one would hear of it */
        int both_shut = atomic_load(&end->in.shared->producer_shut) != FS_SHUT_NOT;
        if (both_shut) leave_nothing(doorbell);
        if (!(before & fs_side_mark(!end->side))) {
            int sent = !both_shut && fs_ring_say_farewell(&end->out) && fs_ring_unread(&end->in) == 0;
            if (sent && shut) sent = has_lifeline(end) && put_into(end->lifeline, doorbell);
            else if (sent) sent = send_over_doorbell(end, doorbell, doorbell);
            if (!sent) atomic_fetch_and(&end->header->left, ~fs_side_mark(end->side)); /* no room for it: HUP shows */
            else quieten(end, doorbell, shut);
        }
    }
    fs_unlock(end->exclusion.sender);
    fs_farewell_drop_lifeline(end);
}
