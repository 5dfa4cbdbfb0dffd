#define _GNU_SOURCE
#include "end.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "cma_offer.h"
#include "system.h"

#define LOCK_PATIENCE_NS 50000000ull     /* then its owner is stopped */
#define PROMISE_US 100.0                 /* spent at most in one receive on what the other end is about to publish */
#define WORTH_WAITING (FS_COST_UNIT / 2) /* by who has room for so much */
#define LOOK_EVERY_US 1000.0             /* how old a sender's knowledge of the other end's life may be */
#define WORDLESS_US 300.0                /* at most, from the mark of an end to its showing on the doorbell */
#define MOST_LOOKS 64                    /* in one receive that finds nothing */
#define TAKEN_FOR_NOBODY ((size_t)2560 * 1024) /* of the first send to an end that closed, as TCP's buffers take it */

static int lock(fs_lock_word *word, int flags)
{
    if (flags & FS_AT_ONCE) return fs_lock(word, 0);
    return fs_lock(word, LOCK_PATIENCE_NS) == 0 ? 0 : -EAGAIN;
}

/* ---- the other end's death ---- */

static short events_at(int doorbell, short wanted)
{
    struct pollfd one = {doorbell, wanted, 0};
    return poll(&one, 1, 0) > 0 ? one.revents : 0;
}

/* The other end shut both halves. */
static int has_shut_both(const struct fs_end *end)
{
    const struct fs_direction *out = end->out.shared;
    return atomic_load_explicit(&out->reading_shut, memory_order_relaxed) && !fs_is_raw(out) &&
           atomic_load(&end->in.shared->producer_shut) != FS_SHUT_NOT;
}

/* The kernel alone knows whether the last holder of the other end is gone: notices only say when to ask. */
static short look_at_doorbell(struct fs_end *end, int doorbell)
{
    end->notice_seen = atomic_load(&end->in.shared->notice);
    end->looked_at = fs_ticks();
    short shown = events_at(doorbell, POLLIN | POLLRDHUP), events = shown & ~POLLIN;
    const struct fs_direction *in = end->in.shared;
    int left = fs_end_other_left(end); /* a lie would end the liar's connection */
    if (events != 0 || left || atomic_load(&in->producer_shut) || atomic_load(&in->reading_shut)) end->end_shown = 1;
    /* where all halves of an end are shut the kernel says HUP, though nobody closed it */
    int hung_up =
        (events & (POLLHUP | POLLERR)) != 0 && !atomic_load(&end->out.shared->producer_shut) && !has_shut_both(end);
    uint32_t leaving = atomic_load(&end->header->reset[!end->side]);
    int broken_off = leaving == FS_BY_RESET_UNLESS_SHUT && hung_up && !atomic_load(&in->producer_shut);
    int reset = leaving == FS_BY_RESET || broken_off;
    if (!end->gone && (hung_up || left || (events != 0 && reset))) {
        end->gone = 1;
        /* as TCP tells a reset: behind the other end's orderly shutdown only a send hears of it */
        if (reset || (!end->raw_out && fs_ring_unread(&end->out) != 0)) {
            end->reset = 1;
            end->pending_error = left || atomic_load(&end->in.shared->producer_shut) ? EPIPE : ECONNRESET;
        }
    }
    return shown;
}

/* Without a word on the doorbell: reading is shut here, or the other end could not say it there, or is about to: that is
 * waited for. */
static int is_over(const struct fs_end *end, int doorbell, int flags)
{
    const struct fs_direction *in = end->in.shared;
    if (atomic_load(&in->reading_shut) || atomic_load(&in->producer_shut) == FS_SHUT_UNSHOWN) return 1;
    if (!fs_end_other_left(end) && atomic_load(&in->producer_shut) != FS_SHUT) return 0;
    if (flags & FS_AT_ONCE) return events_at(doorbell, POLLRDHUP) != 0 ? 1 : -EBUSY;
    for (uint64_t start = fs_ticks(); (double)(fs_ticks() - start) < WORDLESS_US * fs_ticks_per_us(); sched_yield())
        if (events_at(doorbell, POLLRDHUP) != 0) break;
    return 1;
}

static int look_is_due(const struct fs_end *end)
{
    return atomic_load_explicit(&end->in.shared->notice, memory_order_relaxed) != end->notice_seen ||
           (double)(fs_ticks() - end->looked_at) > LOOK_EVERY_US * fs_ticks_per_us();
}

static int take_pending(struct fs_end *end)
{
    int error = atomic_exchange(&end->pending_error, 0);
    if (error != 0) end->pretended = 1; /* who was told of the reset knows: the next send breaks */
    return error;
}

/* What a burial or a reset left, once that is told. */
static void forget_kernel_error(const struct fs_end *end, int doorbell)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (end->buried || end->reset) getsockopt(doorbell, SOL_SOCKET, SO_ERROR, &error, &size);
}

int fs_end_urgent_inline(const struct fs_end *end) { return (int)atomic_load(&end->header->urgent_inline[!end->side]); }

void fs_end_set_urgent_inline(struct fs_end *end, int on)
{
    atomic_store(&end->header->urgent_inline[end->side], on != 0);
}

void fs_end_set_send_buffer(struct fs_end *end, uint64_t bytes)
{
    fs_ring_set_buffer(&end->out, FS_SEND_BUFFER, bytes);
}

int fs_end_was_reset(struct fs_end *end, int doorbell)
{
    look_at_doorbell(end, doorbell);
    return end->reset;
}

/* TCP's connection is over then, also where bytes of it are unread. */
static int both_are_shut(const struct fs_end *end, int doorbell)
{
    const struct fs_direction *in = end->in.shared;
    if (!atomic_load(&end->out.shared->producer_shut)) return 0;
    if (atomic_load(&in->producer_shut) || fs_end_other_left(end)) return 1;
    return !end->kernel_reading_shut && events_at(doorbell, POLLRDHUP) != 0;
}

int fs_end_is_over(struct fs_end *end, int doorbell)
{
    return fs_end_was_reset(end, doorbell) || both_are_shut(end, doorbell);
}

int fs_end_take_error(struct fs_end *end, int doorbell)
{
    look_at_doorbell(end, doorbell);
    forget_kernel_error(end, doorbell);
    return take_pending(end);
}

/* ---- sending ---- */

static ssize_t broken_pipe(int flags)
{
    if (!(flags & FS_NO_SIGNAL)) raise(SIGPIPE); /* in this thread, as the kernel does */
    return -EPIPE;
}

/* As TCP: a reset is told once, else the first send succeeds (its bytes would have been answered by the reset), and one
 * without bytes always does (nothing would have been answered). */
static ssize_t send_to_nobody(struct fs_end *end, int doorbell, struct fs_parts *parts, int flags)
{
    uint64_t most = fs_ring_most_unread(&end->out);
    size_t length = parts->left < TAKEN_FOR_NOBODY ? parts->left : TAKEN_FOR_NOBODY;
    if (length > most) length = (size_t)most;
    int error = take_pending(end);
    if (error != 0 && error != EPIPE) {
        forget_kernel_error(end, doorbell);
        return -error;
    }
    if (length != 0 || end->pretended) fs_farewell_bury(end, doorbell, 1);
    if (end->pretended) {
        forget_kernel_error(end, doorbell);
        return broken_pipe(flags);
    }
    if (length != 0) {
        end->pretended = end->reset = 1;
        end->pending_error = EPIPE;
    }
    fs_parts_advance(parts, length);
    return (ssize_t)length;
}

static ssize_t send_raw(struct fs_end *end, int doorbell, struct fs_parts *parts, int flags)
{
    ssize_t sent = fs_parts_send(doorbell, parts, parts->left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
        fs_parts_advance(parts, (size_t)sent);
        fs_count(&end->statistics.bytes_sent, (uint64_t)sent);
        return sent;
    }
    int error = errno;
    if (error == EPIPE || error == ECONNRESET) return send_to_nobody(end, doorbell, parts, flags);
    return -error;
}

/* Pollers of this end must find it not writable while the ring is full. */
static void show_fullness(struct fs_end *end, int doorbell, int flags)
{
    if (!(flags & FS_UNPOLLED) && fs_end_is_watched(end) && fs_ring_room(&end->out) == 0)
        fs_doorbell_stuff(end, doorbell);
}

/* Whether payload goes over the doorbell from now on: this end said so, or the other one asked. */
static int goes_raw(struct fs_end *end, int doorbell)
{
    if (end->raw_out) return 1;
    if (!atomic_load_explicit(&end->out.shared->raw, memory_order_relaxed) && !fs_ring_agree(&end->out)) return 0;
    fs_doorbell_plain(doorbell);
    end->raw_out = 1;
    return 1;
}

/* A copy past the ring waits for the other end. */
static int must_not_wait(const struct fs_end *end, size_t length, int flags)
{
    return flags & FS_AT_ONCE && fs_end_is_large(end, length);
}

ssize_t fs_end_send_parts(struct fs_end *end, int doorbell, struct fs_parts *parts, int flags)
{
    struct fs_direction *out = end->out.shared;
    const size_t length = parts->left;
    if (must_not_wait(end, length, flags)) return -EBUSY;
    ssize_t result = lock(end->exclusion.sender, flags);
    if (result != 0) return result;
    if (look_is_due(end)) look_at_doorbell(end, doorbell);
    if (atomic_load_explicit(&out->producer_shut, memory_order_relaxed)) {
        result = take_pending(end) == ECONNRESET ? -ECONNRESET : broken_pipe(flags);
    } else if (end->gone || has_shut_both(end)) {
        result = send_to_nobody(end, doorbell, parts, flags);
    } else if (goes_raw(end, doorbell)) {
        result = send_raw(end, doorbell, parts, flags);
    } else {
        fs_show_cpu(&end->header->cpu[end->side]);
        if (fs_end_shared(end)) fs_cma_abandon(end);
        result = length == 0 ? 0 : fs_end_put(end, doorbell, parts, flags);
        if (result == -EAGAIN && goes_raw(end, doorbell)) result = send_raw(end, doorbell, parts, flags);
        else if (result == -EAGAIN || (result >= 0 && (size_t)result < length)) show_fullness(end, doorbell, flags);
        if (result > 0) fs_count(&end->statistics.bytes_sent, (uint64_t)result);
    }
    fs_unlock(end->exclusion.sender);
    return result;
}

ssize_t fs_end_send(struct fs_end *end, int doorbell, const void *data, size_t length, int flags)
{
    struct iovec part = {(void *)data, length};
    struct fs_parts parts = fs_parts_of(&part, 1);
    return fs_end_send_parts(end, doorbell, &parts, flags);
}

int fs_end_place(struct fs_end *end, int doorbell, const void *data, size_t length)
{
    int result = lock(end->exclusion.sender, 0);
    if (result != 0) return result;
    if (look_is_due(end)) look_at_doorbell(end, doorbell);
    if (end->gone || has_shut_both(end)) {
        result = -EPIPE;
    } else if (goes_raw(end, doorbell)) {
        result = -EBUSY;
    } else {
        fs_show_cpu(&end->header->cpu[end->side]);
        if (data != NULL) fs_ring_fill(&end->out, 0, data, length);
        result = fs_ring_publish(&end->out, length) == 0 ? 0 : -EBUSY;
        fs_end_wake_reader(end);
        fs_doorbell_ring(end, doorbell, 0);
        if (result == 0) fs_count(&end->statistics.bytes_sent, length);
    }
    fs_unlock(end->exclusion.sender);
    return result;
}

/* ---- receiving ---- */

static int report_reset(struct fs_end *end, int doorbell)
{
    forget_kernel_error(end, doorbell);
    return take_pending(end);
}

void fs_end_set_receive_buffer(struct fs_end *end, int doorbell, uint64_t bytes)
{
    fs_ring_set_buffer(&end->in, FS_RECEIVE_BUFFER, bytes);
    fs_end_relieve_writer(end, doorbell); /* there may be more room now */
}

static ssize_t take_from_doorbell(struct fs_end *end, int doorbell, void *target, size_t length, int peek)
{
    ssize_t got = recv(doorbell, target, length, MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
    if (got < 0) return -errno;
    if (!peek) fs_count(&end->statistics.bytes_received, (uint64_t)got);
    return got;
}

/* The other end's farewell lies behind the payload, or will. */
static ssize_t receive_before_farewell(struct fs_end *end, int doorbell, void *target, size_t length, int flags)
{
    int over = events_at(doorbell, POLLRDHUP) != 0 ? 1 : is_over(end, doorbell, flags), peek = (flags & FS_PEEK) != 0;
    if (over < 0) return over;
    ssize_t unread = fs_doorbell_foreign(end, doorbell); /* behind `over`: written before the end */
    if (unread > 0)
        return take_from_doorbell(end, doorbell, target, (size_t)unread < length ? (size_t)unread : length, peek);
    if (unread < 0 || !over) return -EAGAIN;
    fs_farewell_read_to_the_end(end, doorbell);
    return 0;
}

static ssize_t receive_raw(struct fs_end *end, int doorbell, void *target, size_t length, int flags)
{
    if (!end->raw_in) {
        if (fs_doorbell_eat_all(end, doorbell) != 0) return -EAGAIN;
        fs_doorbell_plain(doorbell);
        end->raw_in = 1;
    }
    if (atomic_load_explicit(&end->in.shared->notice, memory_order_relaxed) != end->notice_seen)
        look_at_doorbell(end, doorbell);
    if (atomic_load(&end->in.shared->head) & FS_FAREWELL)
        return receive_before_farewell(end, doorbell, target, length, flags);
    return take_from_doorbell(end, doorbell, target, length, (flags & FS_PEEK) != 0);
}

static ssize_t receive_locked(struct fs_end *end, int doorbell, void *target, size_t length, int flags,
                              int look_for_end)
{
    struct fs_direction *in = end->in.shared;
    int peek = (flags & FS_PEEK) != 0;
    uint64_t patience = length < WORTH_WAITING ? 0 : (uint64_t)(PROMISE_US * fs_ticks_per_us());
    for (int look = 0; look < MOST_LOOKS; look++) { /* the other end could change its mind for ever */
        ssize_t used = fs_ring_used(&end->in);
        if (used < 0) return used;
        int offered = used == 0 && !peek && fs_cma_is_offered(end);
        if (used == 0 && !offered && fs_await_promised(end, &patience)) continue;
        if (offered) {
            if (flags & FS_AT_ONCE) return -EBUSY;
            ssize_t taken = fs_end_take(end, doorbell, target, length, &patience);
            if (taken != 0) return taken;
            continue;
        }
        if (used > 0) {
            if (!peek) return fs_end_take(end, doorbell, target, length, &patience);
            size_t part = length < (size_t)used ? length : (size_t)used;
            fs_ring_copy_out(&end->in, 0, target, part);
            return (ssize_t)part;
        }
        if (fs_is_raw(in)) {
            if (fs_ring_used(&end->in) != 0) continue;
            return receive_raw(end, doorbell, target, length, flags);
        }
        if (end->ended) return end->pending_error == ECONNRESET ? -report_reset(end, doorbell) : 0;
        if (fs_end_is_watched(end) && !end->lazy && !fs_doorbell_settle(end, doorbell) && fs_ring_used(&end->in) != 0)
            continue;
        uint32_t notice = atomic_load_explicit(&in->notice, memory_order_relaxed);
        if (!look_for_end && !end->end_shown && notice == end->notice_seen) return -EAGAIN;
        short shown = look_at_doorbell(end, doorbell);
        int over = (shown & ~POLLIN) != 0 ? 1 : is_over(end, doorbell, flags);
        if (over < 0) return over;
        ssize_t foreign =
            over || shown & POLLIN ? fs_doorbell_foreign(end, doorbell) : 0; /* behind `over`: written before the end */
        if (foreign > 0) {
            if (flags & FS_AT_ONCE) return -EBUSY;
            int error = fs_end_follow(end, doorbell);
            if (error != 0) return error;
            continue;
        }
        if (!over || foreign < 0) return -EAGAIN;
        /* what was published before the other end left is still read first: look once more behind the hang-up */
        if (fs_ring_used(&end->in) != 0 || fs_is_raw(in)) continue;
        end->ended = 1;
        fs_farewell_read_to_the_end(end, doorbell);
    }
    return -EAGAIN;
}

ssize_t fs_end_receive(struct fs_end *end, int doorbell, void *target, size_t length, int flags, int look_for_end)
{
    int peek = (flags & FS_PEEK) != 0;
    if (must_not_wait(end, length, flags)) return -EBUSY;
    ssize_t result = lock(end->exclusion.receiver, flags);
    if (result != 0) return result;
    fs_show_cpu(&end->header->cpu[end->side]);
    fs_cma_want(end, peek ? 0 : length);
    result = receive_locked(end, doorbell, target, length, flags, look_for_end);
    if (result != -EAGAIN) fs_cma_want(end, 0);
    fs_unlock(end->exclusion.receiver);
    return result;
}

int fs_end_consume(struct fs_end *end, int doorbell, size_t length)
{
    int result = lock(end->exclusion.receiver, 0);
    if (result != 0) return result;
    fs_ring_consume(&end->in, length);
    fs_count(&end->statistics.bytes_received, length);
    fs_end_relieve_writer(end, doorbell);
    fs_unlock(end->exclusion.receiver);
    return 0;
}

ssize_t fs_end_unread(struct fs_end *end, int doorbell)
{
    ssize_t unread = fs_ring_unread(&end->in);
    if (unread == 0 && end->raw_in) unread = fs_doorbell_foreign(end, doorbell);
    return unread == -EAGAIN ? 0 : unread;
}

/* ---- leaving ---- */

/* Who sleeps said so first, and looked again after that. */
static void wake_word(_Atomic uint32_t *word)
{
    if (atomic_exchange(word, 0) != 0) fs_futex_wake_all(word);
}

void fs_end_wake(struct fs_end *end)
{
    wake_word(&end->in.shared->reader_sleeps);
    wake_word(&end->out.shared->writer_sleeps);
}

static void notify_other_end(struct fs_end *end)
{
    atomic_fetch_add(&end->out.shared->notice, 1);
    wake_word(&end->out.shared->reader_sleeps);
    wake_word(&end->in.shared->writer_sleeps);
}

/* Foreign code over there would take a farewell for payload. */
static void heed_foreign(struct fs_end *end, int doorbell)
{
    if (lock(end->exclusion.receiver, 0) != 0) return;
    if (!fs_is_raw(end->in.shared) && fs_doorbell_foreign(end, doorbell) > 0) fs_end_follow(end, doorbell);
    fs_unlock(end->exclusion.receiver);
}

int fs_end_shutdown(struct fs_end *end, int doorbell, int how)
{
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
    int over = both_are_shut(end, doorbell);
    if (how != SHUT_RD) heed_foreign(end, doorbell);
    int locked = lock(end->exclusion.sender, 0) == 0; /* a call that must not fail for a stopped process */
    int error = fs_farewell_shut(end, doorbell, how, locked);
    if (locked) fs_unlock(end->exclusion.sender);
    notify_other_end(end);
    atomic_fetch_add(&end->in.shared->notice, 1); /* our own threads that wait here must look too */
    fs_end_wake(end);
    return over ? -ENOTCONN : error;
}

void fs_end_leaves(struct fs_end *end, uint32_t how) { atomic_store(&end->header->reset[end->side], how); }

void fs_end_closing(struct fs_end *end, int doorbell, int reset)
{
    if (reset) fs_end_leaves(end, FS_BY_RESET);
    if (!fs_end_is_last(end)) return;
    if (end->raw_in) {
        fs_farewell_close_raw(end, doorbell);
        return;
    }
    if (lock(end->exclusion.receiver, 0) != 0) return;
    if (fs_ring_unread(&end->in) != 0 || fs_doorbell_foreign(end, doorbell) > 0)
        fs_end_leaves(end, FS_BY_RESET);     /* as TCP: unread bytes are lost */
    else fs_doorbell_eat_all(end, doorbell); /* left behind they would make the kernel tell the other end of a reset */
    fs_unlock(end->exclusion.receiver);
    if (atomic_load(&end->header->reset[end->side]) == FS_ORDERLY) fs_farewell_close(end, doorbell);
}

void fs_end_closed(struct fs_end *end)
{
    notify_other_end(end);
    end->closed = 1;
}
