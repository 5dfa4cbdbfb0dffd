#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>

#include "answering.h"
#include "attach.h"
#include "carry.h"
#include "identity.h"
#include "kernel.h"
#include "stream/cma_offer.h"
#include "switch.h"
#include "tokens.h"

#define LOCK_PATIENCE_NS 50000000ull   /* then its owner is stopped */
#define LOOK_EVERY_US 1000.0           /* how old a sender's knowledge of the other end's life may be */
#define READER_PATIENCE_NS 20000000ull /* with a wake-up of a thread */
#define LEAST_REST 16u                 /* sends over TCP before the ring is tried again */
#define MOST_REST 4096u
#define LONG_SERVICE (1u << 20) /* bytes that the ring has carried meanwhile */
#define AGAIN SSIZE_MAX         /* of an inner function: the carrier has changed */
#define ONLY_TCP (MSG_OOB | MSG_ZEROCOPY)

static int lock(fs_lock_word *word, int flags)
{
    if (flags & FS_AT_ONCE) return fs_lock(word, 0);
    return fs_lock(word, LOCK_PATIENCE_NS) == 0 ? 0 : -EAGAIN;
}

static ssize_t kernel_send(int descriptor, struct fs_parts *parts, int flags, int kernel_flags)
{
    if (!(flags & FS_MAY_SLEEP)) kernel_flags |= MSG_DONTWAIT;
    if (flags & FS_NO_SIGNAL) kernel_flags |= MSG_NOSIGNAL;
    ssize_t sent = fs_parts_send(descriptor, parts, parts->left, kernel_flags);
    if (sent < 0) return errno == EAGAIN && flags & FS_MAY_SLEEP ? FS_KERNELS_END : -errno;
    fs_parts_advance(parts, (size_t)sent);
    return sent;
}

/* ---- through the ring ---- */

/* The other end has said nothing new, and the kernel was asked lately. */
static int is_known_to_live(const struct fs_end *end)
{
    uint32_t notice = atomic_load_explicit(&end->in.shared->notice, memory_order_relaxed);
    return !end->end_shown && notice == end->notice_seen &&
           (double)(fs_ticks() - end->looked_at) <= LOOK_EVERY_US * fs_ticks_per_us();
}

/* Nobody reads the ring any more, as far as is known.  Where the other end's code shut down a half without a word that is
 * wrong; so the direction goes back to TCP in the usual way, and the kernel answers.  -EBADF: the number is another file's
 * by now. */
static int is_gone(const struct fs_record *record, struct fs_end *end, int descriptor)
{
    if (fs_end_other_left(end)) return 1;
    if (is_known_to_live(end)) return 0;
    if (!fs_identity_holds(end->owner, descriptor)) return -EBADF; /* the next call looks, too */
    end->notice_seen = atomic_load_explicit(&end->in.shared->notice, memory_order_relaxed);
    end->looked_at = fs_ticks();
    if (atomic_load(&record->read_shut)) return 0; /* then the kernel shows nothing else */
    struct pollfd one = {descriptor, POLLRDHUP, 0};
    if (poll(&one, 1, 0) <= 0) return 0;
    end->end_shown = 1; /* whoever reads looks, too */
    return (one.revents & POLLHUP) != 0 ||
           ((one.revents & POLLRDHUP) != 0 && !atomic_load(&end->in.shared->producer_shut));
}

/* The reader needs the descriptor for other code: nothing more is published. */
static int is_asked_out(struct fs_end *end)
{
    return (atomic_load_explicit(&end->out.shared->head, memory_order_relaxed) & FS_RAW_ASKED) != 0 &&
           fs_ring_agree(&end->out);
}

/* The kernel has not refused a byte, so it would not tell a watcher of edges that there is room.  To set this option, be
 * it to the same value, makes it tell.  Such a watcher then tries again at once, as one of levels does. */
static void show_room(int descriptor)
{
    uint32_t unsent_most;
    socklen_t size = sizeof unsent_most;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_most, &size) == 0)
        setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_most, size);
}

/* AGAIN: the direction is on TCP by now.  -EAGAIN: not now.  A reader in recv() since before the attach forbids it for a
 * moment: a token has woken it.  Whoever does not come out in time is waited for once. */
static ssize_t go_to_tcp(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor,
                         int flags)
{
    if (!fs_identity_holds(connection, descriptor)) return -EBADF;
    uint64_t start = fs_now_ns();
    while (!fs_switch_to_tcp(connection, end, descriptor)) {
        if (flags & FS_AT_ONCE || atomic_load(&record->owed) != 0 || atomic_load(&record->reader_stays)) return -EAGAIN;
        if (fs_now_ns() - start > READER_PATIENCE_NS) atomic_store(&record->reader_stays, 1);
        else sched_yield();
    }
    return AGAIN;
}

/* Past the ring: the kernel says what becomes of it. */
static ssize_t ask_kernel(struct fs_connection *connection, int descriptor, struct fs_parts *parts, int flags,
                          int kernel_flags)
{
    if (!fs_identity_holds(connection, descriptor)) return -EBADF;
    return kernel_send(descriptor, parts, flags & ~FS_MAY_SLEEP, kernel_flags);
}

/* What the receives count is shown by them. */
static void count_call(struct fs_end *end, const struct fs_record *record, size_t length)
{
    struct fs_shown *shown = atomic_load_explicit(&end->shown, memory_order_acquire);
    uint64_t bytes = fs_count(&end->statistics.bytes_sent, length);
    uint64_t calls = fs_count(&end->statistics.calls_out, 1);
    if (shown == NULL) return;
    fs_show(&shown->bytes_out, bytes);
    fs_show(&shown->calls_out, calls);
    fs_show_count(&shown->extra_out, &record->extra_out);
}

static ssize_t put_what_fits(struct fs_connection *connection, struct fs_end *end, int descriptor,
                             struct fs_parts *parts, int flags)
{
    fs_show_cpu(&end->header->cpu[end->side]);
    fs_answering_be_known(connection, end);
    ssize_t result = fs_end_put(end, descriptor, parts, flags);
    if (result > 0) count_call(end, connection->record, (size_t)result);
    return result;
}

/* An exact watcher hears of what TCP carries.  Who sends him many messages between two reads would change carrier all the
 * time: so the direction stays on TCP for a while, and longer each time that the ring has not served for long. */
static void rest(struct fs_record *record, const struct fs_end *end)
{
    uint64_t head = fs_published(end->out.shared);
    uint32_t calls = atomic_load(&record->rested) * 2;
    if (head - atomic_load(&record->rested_at) >= LONG_SERVICE || calls < LEAST_REST) calls = LEAST_REST;
    if (calls > MOST_REST) calls = MOST_REST;
    atomic_store(&record->rested_at, head);
    atomic_store(&record->rested, calls);
    atomic_store(&record->rests, calls);
}

/* A count that two threads take down at once may last a call longer. */
static int has_rested(struct fs_record *record)
{
    uint32_t rests = atomic_load_explicit(&record->rests, memory_order_relaxed);
    if (rests != 0) atomic_store_explicit(&record->rests, rests - 1, memory_order_relaxed);
    return rests == 0;
}

/* With the lock, and the direction in the ring. */
static ssize_t put(struct fs_connection *connection, struct fs_end *end, int descriptor, struct fs_parts *parts,
                   int flags)
{
    const size_t length = parts->left;
    if (fs_tokens_pay(connection, descriptor) != 0) return -EAGAIN;
    if (fs_end_shared(end)) fs_cma_abandon(end);
    if (!fs_tokens_can_wake(end) && fs_switch_to_tcp(connection, end, descriptor)) {
        rest(connection->record, end);
        return 0;
    }
    ssize_t result = put_what_fits(connection, end, descriptor, parts, flags);
    if (result < 0 && result != -EAGAIN) return result;
    if (result >= 0 && (size_t)result == length) return result;
    /* a full ring: who must not wait goes on over TCP, which also shows whether there is room */
    if (!is_asked_out(end) && flags & (FS_PATIENT | FS_UNPOLLED)) return result;
    ssize_t gone = go_to_tcp(connection, connection->record, end, descriptor, flags);
    if (result > 0) return result;
    if (gone == -EAGAIN && result == -EAGAIN && flags & FS_AT_ONCE) return -EBUSY;
    return gone == AGAIN ? 0 : gone;
}

static void heed_words(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    fs_switch_mend(record, end, descriptor);
    if (fs_switch_is_asked(end)) fs_switch_answer(connection, end, descriptor);
}

/* AGAIN: the direction is on TCP by now, and bytes are left. */
static ssize_t send_by_ring(struct fs_connection *connection, int descriptor, struct fs_record *record,
                            struct fs_parts *parts, int flags, int kernel_flags, size_t *done)
{
    ssize_t result = lock(&record->sender, flags);
    if (result != 0) return result;
    struct fs_end *end = connection->end;
    if (!fs_table_is(connection, descriptor, record)) {
        result = -EBADF;
    } else if (end == NULL || fs_record_state(record) != FS_ATTACHED) {
        atomic_store(&record->out_ring, 0); /* its owner died on the way there */
        result = AGAIN;
    } else if (heed_words(connection, record, end, descriptor), !(atomic_load(&record->out_seq) & 1)) {
        result = AGAIN;
    } else if (flags & FS_AT_ONCE && fs_end_is_large(end, parts->left)) {
        result = -EBUSY; /* a copy past the ring waits for the other end */
    } else if (atomic_load_explicit(&end->out.shared->producer_shut, memory_order_relaxed)) {
        result = ask_kernel(connection, descriptor, parts, flags, kernel_flags); /* it says why not */
    } else if (kernel_flags & ONLY_TCP) {
        result = go_to_tcp(connection, record, end, descriptor, flags);
    } else if ((result = is_gone(record, end, descriptor)) != 0) {
        if (result > 0) result = AGAIN;
        if (result == AGAIN && !fs_switch_to_tcp(connection, end, descriptor)) { /* its reader stays in recv() */
            result = ask_kernel(connection, descriptor, parts, flags, kernel_flags);
            if (result > 0) *done += (size_t)result;
        }
    } else {
        result = put(connection, end, descriptor, parts, flags);
        if (result > 0) *done += (size_t)result;
        if (result >= 0 && parts->left != 0 && !atomic_load(&record->out_ring)) result = AGAIN;
    }
    fs_unlock(&record->sender);
    return result;
}

/* With the lock.  The ring carries, as all words say, and nothing but the bytes is to be seen to. */
static int is_undisturbed(struct fs_connection *connection, int descriptor, const struct fs_record *record,
                          const struct fs_end *end)
{
    if (end == NULL || !fs_table_is(connection, descriptor, record) || fs_record_state(record) != FS_ATTACHED) return 0;
    uint32_t seq = atomic_load(&record->out_seq);
    return (seq & 1) != 0 && atomic_load(&record->out_ring) && atomic_load(&fs_words_out(end)->seq) == seq &&
           !atomic_load_explicit(&record->ringing, memory_order_relaxed) && atomic_load(&record->owed) == 0 &&
           !atomic_load_explicit(&end->out.shared->producer_shut, memory_order_relaxed) && !fs_switch_is_asked(end) &&
           !fs_end_shared(end) && !fs_end_other_left(end) && is_known_to_live(end) && fs_tokens_can_wake(end);
}

/* The common case: nobody else sends, and there is room for all.  0: it is not that simple, and nothing was done. */
static int put_simply(struct fs_connection *connection, int descriptor, struct fs_record *record,
                      struct fs_parts *parts, int flags)
{
    const size_t length = parts->left;
    if (length == 0 || length > FS_TOGETHER || !fs_try_lock(&record->sender)) return 0;
    struct fs_end *end = connection->end;
    int done = is_undisturbed(connection, descriptor, record, end) && !fs_end_is_large(end, length) &&
               fs_ring_space(&end->out, length) >= (ssize_t)length &&
               put_what_fits(connection, end, descriptor, parts, flags) == (ssize_t)length;
    fs_unlock(&record->sender);
    return done;
}

/* ---- over TCP ---- */

/* Back to the ring, or into it for the first time, before what is sent next. */
static void try_ring(struct fs_connection *connection, int descriptor, struct fs_record *record)
{
    uint32_t state = fs_record_state(record);
    if (state < FS_OFFERED || !fs_connection_enter(connection, descriptor)) return;
    struct fs_end *end = connection->end;
    if (end != NULL && state == FS_OFFERED && fs_connection_is_joined(end)) {
        fs_attach_progress(connection, descriptor);
    } else if (end != NULL && state == FS_ATTACHED && fs_switch_is_due(record, end) && !fs_end_other_left(end) &&
               has_rested(record) && fs_lock(&record->sender, 0) == 0) {
        fs_switch_mend(record, end, descriptor);
        if (fs_table_is(connection, descriptor, record)) fs_switch_to_ring(connection, end, descriptor);
        fs_unlock(&record->sender);
    }
    fs_connection_exit(connection);
}

static ssize_t send_by_tcp(struct fs_connection *connection, int descriptor, struct fs_record *record,
                           struct fs_parts *parts, int flags, int kernel_flags)
{
    switch (fs_kernel_enter_send(connection, descriptor, record)) {
    case FS_SHUT_OUT: return AGAIN;
    case FS_OTHERS: return -EBADF;
    case FS_ENTERED: break;
    }
    int has_memory = fs_record_state(record) >= FS_OFFERED;
    if (has_memory) kernel_flags &= ~MSG_MORE; /* nothing may lie there and wait */
    ssize_t sent = has_memory && !fs_identity_holds(connection, descriptor)
                       ? -EBADF
                       : kernel_send(descriptor, parts, flags, kernel_flags);
    uint64_t bytes = fs_kernel_leave(&record->sent, sent);
    fs_candidate_heed(connection, descriptor, record, &record->calls_out, bytes);
    return sent;
}

int fs_carry_send_begins(struct fs_connection *connection, int descriptor, int pinned, struct fs_record **within)
{
    struct fs_record *record = *within = connection->record;
    if (record == NULL) return -EBADF;
    if (pinned) {
        atomic_store(&record->foreign, 1);
        atomic_store(&record->out_pinned, 1);
    }
    for (;;) {
        enum fs_entry entry = fs_kernel_enter_send(connection, descriptor, record);
        if (entry == FS_ENTERED && !fs_record_is_plain(record) && !fs_identity_holds(connection, descriptor)) {
            fs_kernel_leave(&record->sent, -EBADF);
            return -EBADF;
        }
        if (entry != FS_SHUT_OUT) return entry == FS_ENTERED ? 0 : -EBADF;
        int error = fs_lock(&record->sender, 0);
        if (error != 0) return -EAGAIN;
        struct fs_end *end = connection->end;
        if (!fs_table_is(connection, descriptor, record)) error = -EBADF;
        else if (end == NULL || fs_record_state(record) != FS_ATTACHED) atomic_store(&record->out_ring, 0);
        else if (!fs_identity_holds(connection, descriptor)) error = -EBADF;
        else if (fs_switch_mend(record, end, descriptor), atomic_load(&record->out_ring))
            error = fs_switch_to_tcp(connection, end, descriptor) ? 0 : -EAGAIN;
        fs_unlock(&record->sender);
        if (error != 0) return error;
    }
}

void fs_carry_send_ended(struct fs_connection *connection, int descriptor, struct fs_record *record, ssize_t moved)
{
    uint64_t bytes = fs_kernel_leave(&record->sent, moved);
    fs_candidate_heed(connection, descriptor, record, &record->calls_out, bytes);
}

/* Whatever the connection has, and whatever is sent. */
static __attribute__((noinline)) ssize_t send_any(struct fs_connection *connection, int descriptor,
                                                  struct fs_record *record, struct fs_parts *parts, int flags,
                                                  int kernel_flags)
{
    size_t done = 0;
    if (kernel_flags & MSG_DONTWAIT) flags &= ~(FS_MAY_SLEEP | FS_PATIENT);
    if (kernel_flags & ONLY_TCP) {
        atomic_store(&record->foreign, 1);
        atomic_store(&record->out_pinned, 1);
    }
    if (parts->left == 0)
        return kernel_send(descriptor, parts, flags, kernel_flags); /* no byte, but perhaps an error */
    for (;;) {
        if (!atomic_load(&record->out_ring)) try_ring(connection, descriptor, record);
        ssize_t result;
        if (atomic_load(&record->out_ring)) {
            result = send_by_ring(connection, descriptor, record, parts, flags, kernel_flags, &done);
            int is_short = result == -EAGAIN || (result >= 0 && result != AGAIN && parts->left != 0);
            if (is_short && !(flags & (FS_PATIENT | FS_UNPOLLED))) show_room(descriptor);
        } else {
            result = send_by_tcp(connection, descriptor, record, parts, flags, kernel_flags);
            if (result > 0 && result != AGAIN) done += (size_t)result;
        }
        if (result == AGAIN) continue;
        return done != 0 ? (ssize_t)done : result;
    }
}

/* The common case comes first, in few lines of code: after a call of the kernel none of it is in the nearest cache. */
ssize_t fs_carry_send(struct fs_connection *connection, int descriptor, struct fs_parts *parts, int flags,
                      int kernel_flags)
{
    struct fs_record *record = connection->record;
    if (record == NULL) return -EBADF;
    const size_t length = parts->left;
    int simple = parts->count == 1 && length == parts->next->iov_len && !(kernel_flags & ONLY_TCP);
    if (simple && !fs_record_is_plain(record) && put_simply(connection, descriptor, record, parts, flags))
        return (ssize_t)length;
    if (!simple || !fs_record_is_plain(record) || fs_kernel_enter_send(connection, descriptor, record) != FS_ENTERED)
        return send_any(connection, descriptor, record, parts, flags, kernel_flags);
    if (!(flags & FS_MAY_SLEEP)) kernel_flags |= MSG_DONTWAIT;
    if (flags & FS_NO_SIGNAL) kernel_flags |= MSG_NOSIGNAL;
    ssize_t sent = send(descriptor, parts->next->iov_base, parts->left, kernel_flags);
    if (sent < 0) sent = errno == EAGAIN && flags & FS_MAY_SLEEP ? FS_KERNELS_END : -errno;
    uint64_t bytes = fs_kernel_leave(&record->sent, sent);
    if (sent > 0) fs_parts_advance(parts, (size_t)sent);
    fs_candidate_heed(connection, descriptor, record, &record->calls_out, bytes);
    return sent;
}
