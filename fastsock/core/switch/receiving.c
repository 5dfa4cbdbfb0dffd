#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>

#include "attach.h"
#include "carry.h"
#include "endings.h"
#include "identity.h"
#include "kernel.h"
#include "stream/cma_offer.h"
#include "switch.h"
#include "tokens.h"

#define LOCK_PATIENCE_NS 50000000ull /* then its owner is stopped */
#define PROMISE_US 100.0             /* spent at most in one receive on what the other end is about to publish */
#define LOOK_EVERY_US 100.0          /* how old the knowledge may be that the connection has not ended */
#define JUST_NOW_US 5.0              /* of who does not wait: no process ends, and is known to have ended, in less */
#define MOST_STEPS 256               /* in one receive: the other end could change its mind for ever */
#define NOT_COUNTED (MSG_OOB | MSG_ERRQUEUE) /* they are no part of the stream */
#define ON 1                                 /* of a step: go on, by what the words say now */
#define DONE 2                               /* what there is was taken */
#define PLAIN (-ESTALE)                      /* the offer was withdrawn meanwhile */

static void count_call(struct fs_end *end, const struct fs_record *record)
{
    struct fs_shown *shown = atomic_load_explicit(&end->shown, memory_order_acquire);
    uint64_t calls = fs_count(&end->statistics.calls_in, 1);
    if (shown == NULL) return;
    fs_show_count(&shown->bytes_in, &end->statistics.bytes_received);
    fs_show(&shown->calls_in, calls);
    fs_show_count(&shown->extra_in, &record->extra_in);
}

/* ---- one receive, with the reader's lock ---- */

struct receive {
    struct fs_connection *connection;
    struct fs_record *record;
    struct fs_end *end;
    int descriptor, flags, kernel_flags;
    unsigned char *target;
    size_t length, done;
    uint64_t patience;
};

static void *place(const struct receive *call) { return call->target == NULL ? NULL : call->target + call->done; }
static int peeks(const struct receive *call) { return (call->flags & FS_PEEK) != 0; }
static int discards(const struct receive *call) { return (call->kernel_flags & MSG_TRUNC) != 0; }
static size_t room(const struct receive *call) { return call->length - call->done; }
static int is_exact(const struct receive *call) { return fs_end_is_watched(call->end); }

/* The changes of the other end's direction, as far as they count: those of an offer that nobody took do not. */
static uint32_t changes(const struct receive *call)
{
    return fs_connection_is_joined(call->end) ? atomic_load(&fs_words_in(call->end)->seq) : 0;
}

static uint32_t carried_out(const struct receive *call)
{
    return atomic_load_explicit(&call->record->rseq, memory_order_relaxed);
}

static int report_error(const struct receive *call)
{
    if (call->done != 0) return DONE; /* what was read comes first */
    if (!fs_identity_holds(call->connection, call->descriptor)) return -EBADF;
    int error = atomic_exchange(&call->record->pending_error, 0);
    if (error != 0) atomic_store(&call->record->reset_reported, 1);
    return -error;
}

/* All was read, and the kernel says that no more comes. */
static int report_end(const struct receive *call)
{
    int error = report_error(call);
    if (error != 0) return error;
    if (fs_ending_is_unreported_reset(call->record, call->end) && !atomic_exchange(&call->record->reset_reported, 1))
        return -ECONNRESET;
    return 0;
}

static int take_bytes(struct receive *call, size_t most)
{
    size_t length = room(call) < most ? room(call) : most;
    ssize_t got = fs_take_off_tcp(call->connection, call->descriptor, place(call), length,
                                  call->kernel_flags | (peeks(call) ? MSG_PEEK : 0));
    if (got > 0) call->done += (size_t)got;
    return (int)(got > INT32_MAX ? INT32_MAX : got);
}

/* What TCP shows without taking it: > 0, 0 at the end, or -errno. */
static ssize_t look_at_tcp(const struct receive *call, size_t most)
{
    char first;
    if (most == 0) return fs_take_off_tcp(call->connection, call->descriptor, &first, 1, MSG_PEEK);
    return fs_take_off_tcp(call->connection, call->descriptor, NULL, most, MSG_PEEK | MSG_TRUNC);
}

/* TCP carries, and no X is known.  What is seen before a second look at the words is payload.  So a token is never taken
 * with the last payload, which would leave a watcher asleep. */
static int step_on_tcp(struct receive *call, uint32_t seq)
{
    ssize_t seen = look_at_tcp(call, room(call));
    if (changes(call) != seq) return ON;
    if (seen == -EAGAIN) return call->done != 0 ? DONE : -EAGAIN;
    if (seen < 0) return report_error(call);
    if (seen == 0) return report_end(call);
    if (room(call) == 0) return DONE;
    if (take_bytes(call, (size_t)seen) <= 0) return ON;
    if (peeks(call) || room(call) == 0) return DONE;
    return changes(call) != seq ? ON : DONE; /* else whatever comes now shows itself */
}

/* ---- a peek, across a change of carrier ---- */

/* 1: that was all that it has, as a new look shows; 0; or -EPROTO. */
static int peek_at_ring(struct receive *call)
{
    ssize_t used = fs_ring_used_at_least(&call->end->in, room(call));
    if (used < 0) return -EPROTO;
    size_t part = room(call) < (size_t)used ? room(call) : (size_t)used;
    if (!discards(call)) fs_ring_copy_out(&call->end->in, 0, place(call), part);
    call->done += part;
    return part == (size_t)used;
}

/* What lies on TCP behind the ring: first the tokens, then payload. */
static void peek_behind_tokens(struct receive *call)
{
    char tokens[FS_MOST_TOKENS];
    int left = fs_tokens_on_their_way(call->connection, call->end);
    if (left < 0 || room(call) == 0 || discards(call) || !fs_identity_holds(call->connection, call->descriptor)) return;
    struct iovec parts[2] = {{tokens, (size_t)left}, {place(call), room(call)}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t got = recvmsg(call->descriptor, &header, MSG_PEEK | MSG_DONTWAIT);
    if (got > left) call->done += (size_t)(got - left);
}

/* The reader begins with the ring.  The kernel may have told the first token together with the last bytes on TCP: who sleeps
 * and hears of edges alone needs one of what comes next. */
static int ask_for_news(const struct receive *call)
{
    if (atomic_load(&call->record->listeners) == 0) return ON;
    int error = fs_tokens_keep_one(call->connection, call->end, call->descriptor);
    return error < 0 ? error : ON;
}

/* TCP carries up to X. */
static int step_up_to_x(struct receive *call)
{
    const struct fs_switch_words *words = fs_words_in(call->end);
    int64_t left = fs_distance(fs_moved(&call->record->received), atomic_load(&words->x));
    if (left <= 0) {
        if (left < -FS_MOST_TOKENS) return -EPROTO;
        fs_switch_carry_out(call->record, call->end);
        return ask_for_news(call);
    }
    if (room(call) == 0) return look_at_tcp(call, 0) > 0 ? DONE : -EAGAIN;
    int got = take_bytes(call, (size_t)left);
    if (got == left && peeks(call) && peek_at_ring(call) < 0) return -EPROTO;
    if (got > 0) return peeks(call) || room(call) == 0 ? DONE : ON;
    if (got == 0 && !atomic_load(&call->record->read_shut) && !atomic_load(&call->record->failed)) return -EPROTO;
    if (got == 0) return report_error(call);
    if (got == -EAGAIN) return call->done != 0 ? DONE : -EAGAIN;
    return report_error(call);
}

static int take_from_ring(struct receive *call, size_t used)
{
    struct fs_end *end = call->end;
    size_t part = room(call) < used ? room(call) : used;
    if (peeks(call)) {
        int is_left = changes(call) != carried_out(call); /* TCP carries on, behind all that the ring has */
        int is_all = peek_at_ring(call);
        if (is_all > 0 && is_left) peek_behind_tokens(call);
        return is_all < 0 ? is_all : DONE;
    }
    if (discards(call)) {
        fs_ring_consume(&end->in, part);
        fs_end_relieve_writer(end, call->descriptor);
        call->done += part;
    } else {
        ssize_t taken = fs_end_take(end, call->descriptor, place(call), room(call), &call->patience);
        if (taken < 0) return (int)taken;
        call->done += (size_t)taken;
    }
    return room(call) == 0 ? DONE : ON;
}

/* The direction has gone back to TCP: there the tokens come first, and then payload. */
static int step_behind_y(struct receive *call)
{
    struct fs_end *end = call->end;
    if (atomic_load(&fs_words_in(end)->y) != atomic_load(&end->in.shared->tail)) return -EPROTO;
    int left = fs_tokens_drain(call->connection, end, call->descriptor);
    if (left < 0) return left;
    if (left > 0) return call->done != 0 ? DONE : atomic_load(&call->record->read_shut) ? 0 : -EAGAIN;
    fs_switch_carry_out(call->record, call->end);
    return ON;
}

static int is_look_older_than(const struct fs_end *end, double us)
{
    return (double)(fs_ticks() - end->looked_at) > us * fs_ticks_per_us();
}

static int is_look_old(const struct fs_end *end) { return is_look_older_than(end, LOOK_EVERY_US); }

static int is_look_due(const struct fs_end *end, int flags)
{
    return end->end_shown || atomic_load_explicit(&end->in.shared->notice, memory_order_relaxed) != end->notice_seen ||
           is_look_older_than(end, flags & FS_WILL_WAIT ? LOOK_EVERY_US : JUST_NOW_US);
}

/* Whether the kernel shows an end.  A token that lies before it hides it from a look at the bytes. */
static int shows_end(const struct receive *call)
{
    struct pollfd one = {call->descriptor, POLLRDHUP, 0};
    return poll(&one, 1, 0) > 0;
}

/* Nothing is in the ring: has the connection ended?  Tokens lie before the end. */
static int look_for_end(struct receive *call, uint32_t seq)
{
    struct fs_end *end = call->end;
    if (is_look_old(end) && !fs_identity_holds(call->connection, call->descriptor)) return -EBADF;
    end->notice_seen = atomic_load(&end->in.shared->notice);
    end->looked_at = fs_ticks();
    if (!is_exact(call) && !shows_end(call)) return changes(call) != seq || fs_end_has_data(end) ? ON : -EAGAIN;
    int moved = fs_tokens_settle(call->connection, end, call->descriptor);
    if (moved != 0) return moved < 0 ? moved : ON;
    if (call->done != 0) return DONE;
    ssize_t seen = look_at_tcp(call, 0);
    if (fs_end_has_data(end) || changes(call) != seq) return ON;
    if (seen > 0 || seen == -EAGAIN) return -EAGAIN; /* a token that was still to come */
    end->end_shown = 1;
    if (seen < 0 && atomic_load(&call->record->pending_error) == ECONNRESET &&
        fs_ending_is_of_a_token(call->record, end)) {
        atomic_store(&call->record->pending_error, 0);
        return 0;
    }
    return seen < 0 ? report_error(call) : report_end(call);
}

static int step_on_ring(struct receive *call, uint32_t seq)
{
    struct fs_end *end = call->end;
    ssize_t used = fs_ring_used(&end->in);
    if (used < 0) return -EPROTO;
    if (used > 0) return room(call) == 0 ? DONE : take_from_ring(call, (size_t)used);
    if (!peeks(call) && !discards(call) && room(call) != 0 && fs_cma_is_offered(end)) {
        if (call->flags & FS_AT_ONCE) return call->done != 0 ? DONE : -EBUSY;
        return take_from_ring(call, 0);
    }
    if (seq != carried_out(call)) return step_behind_y(call);
    if (call->done == 0 && fs_await_promised(end, &call->patience)) return ON;
    int error = atomic_load(&call->record->pending_error) != 0 ? report_error(call) : 0;
    if (error != 0) return error;
    if (is_exact(call) || (call->done == 0 && is_look_due(end, call->flags))) return look_for_end(call, seq);
    return call->done != 0 ? DONE : -EAGAIN;
}

static int step(struct receive *call)
{
    uint32_t seq = changes(call), ahead = seq - carried_out(call);
    if ((carried_out(call) & 1) != 0) return ahead > 1 ? -EPROTO : step_on_ring(call, seq);
    if (ahead > 2) return -EPROTO;
    return ahead == 0 ? step_on_tcp(call, seq) : step_up_to_x(call);
}

/* An exact watcher must see what is left, and an edge when more comes. */
static int show_what_is_left(struct receive *call)
{
    struct fs_end *end = call->end;
    if (!is_exact(call) || (carried_out(call) & 1) == 0 || changes(call) != carried_out(call)) return 0;
    int left = fs_tokens_settle_behind(call->connection, end, call->descriptor);
    if (left > 0 && fs_end_has_data(end)) left = fs_tokens_keep_one(call->connection, end, call->descriptor);
    return left < 0 ? left : 0;
}

static ssize_t receive_locked(struct receive *call)
{
    int result = ON;
    for (int i = 0; i < MOST_STEPS && result == ON; i++) result = step(call);
    if (call->done != 0) result = DONE; /* whatever else there is to tell comes after it */
    else if (result == ON) result = -EAGAIN;
    if (result == DONE && !peeks(call)) show_what_is_left(call);
    return result == DONE ? (ssize_t)call->done : result;
}

/* ---- who may read ---- */

/* -EAGAIN: a thread that was within the kernel's recv() when memory was offered reads first. */
static int take_over(struct receive *call)
{
    struct fs_record *record = call->record;
    struct fs_switch_words *words = fs_words_in(call->end);
    if (fs_traffic_inside(atomic_load(&record->received)) != 0) return -EAGAIN;
    fs_switch_mend_reader(record, call->descriptor);
    if (atomic_load_explicit(&words->rx_in, memory_order_relaxed)) atomic_store(&words->rx_in, 0);
    if (atomic_load_explicit(&words->rseq, memory_order_relaxed) != carried_out(call))
        atomic_store(&words->rseq, carried_out(call)); /* a dead owner's last step */
    return 0;
}

static int lock(struct receive *call)
{
    if (call->flags & FS_AT_ONCE) return fs_lock(&call->record->receiver, 0);
    return fs_lock(&call->record->receiver, LOCK_PATIENCE_NS) == 0 ? 0 : -EAGAIN;
}

/* The other end's wish concerns what this end sends. */
static void answer(struct receive *call)
{
    if (fs_lock(&call->record->sender, 0) != 0) return;
    fs_switch_mend(call->record, call->end, call->descriptor);
    fs_switch_answer(call->connection, call->end, call->descriptor);
    fs_unlock(&call->record->sender);
}

/* The lock is kept meanwhile: whoever else wants to read must wait for bytes in any case. */
static int look(const struct receive *call)
{
    return (call->flags & FS_LOOKS) != 0 && (carried_out(call) & 1) != 0 && changes(call) == carried_out(call) &&
           fs_end_look(call->end, FS_READABLE);
}

/* PLAIN: it is so again. */
static ssize_t receive_as_owner(struct receive *call)
{
    struct fs_record *record = call->record;
    ssize_t result = lock(call);
    if (result != 0) return result;
    call->end = call->connection->end;
    if (!fs_table_is(call->connection, call->descriptor, record)) result = -EBADF;
    else if (fs_record_is_plain(record) || call->end == NULL) result = PLAIN;
    else if (call->flags & FS_AT_ONCE && !peeks(call) && fs_end_is_large(call->end, call->length)) result = -EBUSY;
    else if ((result = take_over(call)) == 0) {
        struct fs_end *end = call->end;
        fs_show_cpu(&end->header->cpu[end->side]);
        if ((carried_out(call) & 1) != 0) fs_cma_want(end, peeks(call) || discards(call) ? 0 : call->length);
        result = receive_locked(call);
        if (result == -EAGAIN && look(call)) result = receive_locked(call);
        if (fs_switch_is_asked(end)) answer(call);
        if (result != -EAGAIN) fs_cma_want(end, 0);
        if (result > 0) count_call(end, record);
    }
    fs_unlock(&record->receiver);
    return result;
}

ssize_t fs_carry_take(struct fs_connection *connection, int descriptor, void *target, size_t length)
{
    struct receive call = {.connection = connection,
                           .record = connection->record,
                           .end = connection->end,
                           .descriptor = descriptor,
                           .target = target,
                           .length = length};
    int error = take_over(&call);
    return error != 0 ? error : receive_locked(&call);
}

/* The offering end's part in what comes after the join. */
static void heed_offer(struct receive *call)
{
    if (fs_record_state(call->record) != FS_OFFERED || !fs_connection_enter(call->connection, call->descriptor)) return;
    struct fs_end *end = call->connection->end;
    if (end != NULL && fs_connection_is_joined(end)) fs_attach_progress(call->connection, call->descriptor);
    fs_connection_exit(call->connection);
    /* one that only receives must be able to withdraw it */
    fs_candidate_heed(call->connection, call->descriptor, call->record, &call->record->calls_in, 0);
}

static ssize_t receive_plain(struct receive *call)
{
    struct fs_record *record = call->record;
    int kernel_flags = call->kernel_flags | (peeks(call) ? MSG_PEEK : 0);
    if (!(call->flags & FS_MAY_SLEEP)) kernel_flags |= MSG_DONTWAIT;
    ssize_t got = recv(call->descriptor, call->target, call->length, kernel_flags);
    if (got < 0) got = -errno;
    uint64_t bytes;
    int ended = got == -EAGAIN && call->flags & FS_MAY_SLEEP;
    got = fs_kernel_leave_receive(call->connection, call->descriptor, record, got, peeks(call), &bytes);
    fs_candidate_heed(call->connection, call->descriptor, record, &record->calls_in, bytes);
    return got == -EAGAIN && ended && fs_record_is_plain(record) ? FS_KERNELS_END : got;
}

static ssize_t receive_beside(int descriptor, void *target, size_t length, int flags, int kernel_flags)
{
    if (!(flags & FS_MAY_SLEEP)) kernel_flags |= MSG_DONTWAIT;
    ssize_t got = recv(descriptor, target, length, kernel_flags);
    if (got >= 0) return got;
    return errno == EAGAIN && flags & FS_MAY_SLEEP ? FS_KERNELS_END : -errno;
}

/* Whatever the connection has, and whatever is asked for. */
static __attribute__((noinline)) ssize_t receive_any(struct fs_connection *connection, int descriptor,
                                                     struct fs_record *record, void *target, size_t length, int flags,
                                                     int kernel_flags)
{
    if (kernel_flags & MSG_DONTWAIT) flags &= ~FS_MAY_SLEEP;
    if (kernel_flags & MSG_PEEK) flags |= FS_PEEK;
    if (kernel_flags & NOT_COUNTED) {
        if (kernel_flags & MSG_OOB) atomic_store(&record->foreign, 1);
        return receive_beside(descriptor, target, length, flags, kernel_flags);
    }
    struct receive call = {connection, record,
                           NULL,       descriptor,
                           flags,      kernel_flags & MSG_TRUNC,
                           target,     length,
                           0,          length < FS_COST_UNIT / 2 ? 0 : (uint64_t)(PROMISE_US * fs_ticks_per_us())};
    ssize_t got = PLAIN;
    while (got == PLAIN) {
        enum fs_entry entry = FS_SHUT_OUT;
        if (fs_record_is_plain(record)) entry = fs_kernel_enter_receive(connection, descriptor, record);
        if (entry == FS_OTHERS) return -EBADF;
        if (entry == FS_ENTERED) got = receive_plain(&call);
        if (entry == FS_ENTERED && (got != -EAGAIN || fs_record_is_plain(record))) break;
        heed_offer(&call);
        got = receive_as_owner(&call);
    }
    return got;
}

/* With the lock.  The ring carries, as all words say, and nothing but the bytes is to be seen to. */
static int is_undisturbed(struct fs_connection *connection, int descriptor, const struct fs_record *record,
                          const struct fs_end *end)
{
    if (end == NULL || !fs_table_is(connection, descriptor, record) || fs_record_state(record) != FS_ATTACHED) return 0;
    const struct fs_switch_words *words = fs_words_in(end);
    return fs_switch_reads_ring(record, end) && fs_connection_is_joined(end) &&
           atomic_load_explicit(&words->rseq, memory_order_relaxed) == atomic_load(&record->rseq) &&
           fs_traffic_inside(atomic_load(&record->received)) == 0 &&
           !atomic_load_explicit(&record->taking, memory_order_relaxed) &&
           !atomic_load_explicit(&words->rx_in, memory_order_relaxed) && !fs_end_is_watched(end) &&
           !fs_switch_is_asked(end) && !end->wants;
}

/* Nothing is in the ring, and nothing else is to be asked for that. */
static int is_only_empty(const struct fs_record *record, const struct fs_end *end, int flags)
{
    return atomic_load(&record->pending_error) == 0 && !is_look_due(end, flags);
}

/* The common case, of a receive so short that it awaits nothing promised: nobody else reads.  0: it is not that simple, and
 * nothing was done.  Else `got` is the result. */
static int take_simply(struct fs_connection *connection, int descriptor, struct fs_record *record, void *target,
                       size_t length, int flags, ssize_t *got)
{
    if (length == 0 || length >= FS_COST_UNIT / 2 || !fs_try_lock(&record->receiver)) return 0;
    struct fs_end *end = connection->end;
    int done = is_undisturbed(connection, descriptor, record, end) && !fs_end_is_large(end, length);
    if (done) {
        uint64_t patience = 0;
        fs_show_cpu(&end->header->cpu[end->side]);
        int empty = !fs_end_has_data(end);
        done = !empty || is_only_empty(record, end, flags);
        if (done && empty && flags & FS_LOOKS && fs_end_look(end, FS_READABLE)) /* also where the words have changed */
            done = !(empty = !fs_end_has_data(end));
        if (done) *got = empty ? -EAGAIN : fs_end_take(end, descriptor, target, length, &patience);
        if (done && *got > 0) count_call(end, record);
    }
    fs_unlock(&record->receiver);
    return done;
}

/* The common case comes first, in few lines of code: after a call of the kernel none of it is in the nearest cache. */
ssize_t fs_carry_receive(struct fs_connection *connection, int descriptor, void *target, size_t length, int flags,
                         int kernel_flags)
{
    struct fs_record *record = connection->record;
    if (record == NULL) return -EBADF;
    kernel_flags &= ~MSG_WAITALL;
    const int simple = (kernel_flags & ~MSG_DONTWAIT) == 0 && !(flags & FS_PEEK);
    ssize_t got;
    if (simple && !fs_record_is_plain(record) &&
        take_simply(connection, descriptor, record, target, length, flags, &got))
        return got;
    if (!simple || !fs_record_is_plain(record) || fs_kernel_enter_receive(connection, descriptor, record) != FS_ENTERED)
        return receive_any(connection, descriptor, record, target, length, flags, kernel_flags);
    if (!(flags & FS_MAY_SLEEP)) kernel_flags |= MSG_DONTWAIT;
    got = recv(descriptor, target, length, kernel_flags);
    if (got < 0) got = -errno;
    uint64_t bytes;
    int ended = got == -EAGAIN && flags & FS_MAY_SLEEP;
    got = fs_kernel_leave_receive(connection, descriptor, record, got, 0, &bytes);
    fs_candidate_heed(connection, descriptor, record, &record->calls_in, bytes);
    if (got != -EAGAIN) return got;
    if (fs_record_is_plain(record)) return ended ? FS_KERNELS_END : got;
    return receive_any(connection, descriptor, record, target, length, flags, kernel_flags);
}

/* A call that lasts counts as two: so no memory is offered or joined (attach.c). */
int fs_carry_receive_begins(struct fs_connection *connection, int descriptor, int lasts, struct fs_record **within)
{
    struct fs_record *record = *within = connection->record;
    if (record == NULL) return -EBADF;
    for (int i = 0; i <= (lasts != 0); i++) {
        enum fs_entry entry = fs_kernel_enter_receive(connection, descriptor, record);
        if (entry == FS_ENTERED) continue;
        uint64_t bytes;
        if (i > 0) fs_kernel_leave_receive(connection, descriptor, record, -EAGAIN, 1, &bytes);
        return entry == FS_SHUT_OUT ? -EBUSY : -EBADF;
    }
    return 0;
}

ssize_t fs_carry_receive_ended(struct fs_connection *connection, int descriptor, int lasts, struct fs_record *record,
                               ssize_t moved, int peeked)
{
    uint64_t bytes;
    if (lasts) fs_kernel_leave(&record->received, 0);
    ssize_t got = fs_kernel_leave_receive(connection, descriptor, record, moved, peeked, &bytes);
    fs_candidate_heed(connection, descriptor, record, &record->calls_in, bytes);
    return got;
}
