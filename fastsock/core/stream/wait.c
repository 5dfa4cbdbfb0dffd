/* Waiting: spin while that is likely to be answered, then a short futex sleep, then poll() on the doorbell.
 *
 * A futex wakes faster than any descriptor but cannot hear the other process die; poll() hears everything.  So the
 * futex sleep is bounded, and a connection that stays quiet sleeps in the kernel without ever waking up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "end.h"
#include "looking.h"
#include "system.h"

#define SHORTEST_FUTEX_SLEEP_NS 1000000ull
#define LOCK_PATIENCE_NS 50000000ull
#define WRITER_SLICE_NS 100000000ull
#define SPINS_PER_CLOCK 16
#define POOR_SUCCESS 0.3f
#define OFF_CORE_US 20.0       /* longer than an interrupt, shorter than most turns of another thread */
#define SHORTEST_SPIN_REST 15u /* where spins are seldom answered; each one that is not doubles it */
#define LONGEST_SPIN_REST 1023u
#define YIELD_WORTH_US 50.0 /* an answer that takes longer is not made slower by a sleep */
#define YIELD_BEARABLE_US 0.5
#define LONGEST_REST 65536
#define AT_ONCE_US 20.0 /* a wait that is over by then did not sleep */
#define LONGEST_SHOWING_US 2000.0
#define FEINTS_BORNE 8u /* in a row: other threads may have taken what there was */
#define SHORTEST_NAP_NS 50000ull
#define LONGEST_NAP_NS 1600000ull

/* One pipe for the process: whoever closes a socket under a sleeper rings it.  A program may close every number that
 * it does not know, and use it again: so its ends are known by their file, not by their numbers alone. */
static int leave_pipe[2] = {-1, -1};
static ino_t leave_file;
static uint32_t leave_generation;
static _Atomic int leaving_now; /* of those who rang it, how many still wait for their sleepers */

static int is_leave_pipe(int end)
{
    struct stat status;
    return end >= 0 && fstat(end, &status) == 0 && S_ISFIFO(status.st_mode) && status.st_ino == leave_file;
}

/* The reading (0) or writing (1) end, or -1.  The same one before and after a fork: others sleep on it. */
static int process_leave_pipe(int which)
{
    struct stat status;
    fs_hold_process();
    if (leave_generation != fs_generation() || !is_leave_pipe(leave_pipe[0]) || !is_leave_pipe(leave_pipe[1])) {
        for (int i = 0; i < 2; i++) /* the parent's, inherited by this child */
            if (is_leave_pipe(leave_pipe[i])) close(leave_pipe[i]);
        if (pipe2(leave_pipe, O_CLOEXEC | O_NONBLOCK) != 0) leave_pipe[0] = leave_pipe[1] = -1;
        else if (fstat(leave_pipe[0], &status) == 0) leave_file = status.st_ino;
        if (leave_generation != fs_generation()) leaving_now = 0; /* those were threads of the parent */
        leave_generation = fs_generation();
    }
    int end = leave_pipe[which];
    fs_release_process();
    return end;
}

int fs_leaving_descriptor(void) { return process_leave_pipe(0); }

void fs_wake_leaving(void)
{
    int end = process_leave_pipe(1);
    atomic_fetch_add(&leaving_now, 1);
    if (end >= 0 && write(end, "", 1) < 0) return; /* full: everybody is awake already */
}

void fs_wake_leaving_done(void)
{
    char drop[64];
    if (atomic_fetch_sub(&leaving_now, 1) > 1) return; /* another one's sleepers may not have looked yet */
    fs_hold_process();
    int end = leave_generation == fs_generation() && is_leave_pipe(leave_pipe[0]) ? leave_pipe[0] : -1;
    while (end >= 0 && read(end, drop, sizeof drop) > 0) {}
    fs_release_process();
}

static int is_ready(struct fs_end *end, int what)
{
    struct fs_direction *in = end->in.shared;
    if (atomic_load(&in->notice) != end->notice_seen) return 1;
    if (what == FS_WRITABLE) return !end->raw_out && fs_end_writable(end, end->room_wanted);
    if (atomic_load_explicit(&in->reading_shut, memory_order_seq_cst)) return !end->raw_in;
    return !end->raw_in && (fs_published(in) != atomic_load(&in->tail) || fs_is_raw(in));
}

static struct fs_spin *spin_of(struct fs_end *end, int what)
{
    return what == FS_READABLE ? &end->spin_read : &end->spin_write;
}

int fs_spin_is_due(struct fs_spin *past)
{
    if (past->success >= POOR_SUCCESS) return 1;
    uint32_t skipped = past->skipped;
    past->skipped = skipped >= past->rest ? 0 : skipped + 1;
    return skipped >= past->rest;
}

void fs_spin_learn(struct fs_spin *past, int answered)
{
    uint32_t rest = answered || past->success >= POOR_SUCCESS ? SHORTEST_SPIN_REST : past->rest * 2 + 1;
    past->rest = rest < LONGEST_SPIN_REST ? rest : LONGEST_SPIN_REST;
    past->success = past->success + ((float)answered - past->success) / 10;
}

int fs_spin_has_lost_core(uint64_t *last)
{
    uint64_t before = *last, now = *last = fs_ticks();
    return (double)(now - before) > OFF_CORE_US * fs_ticks_per_us();
}

void fs_spin_put_off(struct fs_spin *past)
{
    past->success = 0;
    past->skipped = 0;
    past->rest = SHORTEST_SPIN_REST;
}

static int may_spin(struct fs_end *end, int what)
{
    return end->limits.spin_us > 0 && fs_end_is_elsewhere(end) && fs_spin_is_due(spin_of(end, what));
}

static int look(struct fs_end *end, int what, uint64_t start, uint64_t ticks)
{
    do {
        fs_end_look_once(end);
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (is_ready(end, what)) return 1;
            fs_pause();
        }
    } while (fs_ticks() - start < ticks);
    return 0;
}

/* Beside a thread that computes a look pays, however few were answered: the other end may have slept for as long as this
 * one awaited the interpreter's lock. */
static uint64_t worth_looking(struct fs_end *end, int what, uint64_t now)
{
    uint64_t longest = fs_look_longest();
    if (!fs_is_contended()) return may_spin(end, what) ? longest : 0;
    return longest != 0 && fs_end_is_elsewhere(end) ? fs_look_patience(now) : 0;
}

int fs_end_look(struct fs_end *end, int what)
{
    uint64_t start = fs_ticks(), ticks = fs_look_granted(start, worth_looking(end, what, start));
    if (ticks == 0) return 0;
    int answered = look(end, what, start, ticks);
    fs_look_ended(start, answered);
    return answered;
}

static int spin(struct fs_end *end, int what)
{
    if (!may_spin(end, what)) return 0;
    int won = look(end, what, fs_ticks(), (uint64_t)(end->limits.spin_us * fs_ticks_per_us()));
    fs_spin_learn(spin_of(end, what), won);
    fs_count(&end->statistics.spins, 1);
    return won;
}

/* Hands the core to the other end that runs on it: half the price of a sleep and its wake.  But others may take it,
 * and for long.  What that cost is spread over so many waits without a try that each bears little of it. */
int fs_yield_is_due(struct fs_yielding *past)
{
    uint32_t rest = past->rest;
    if (rest > 0) past->rest = rest - 1;
    return rest == 0;
}

int fs_yield_try(struct fs_yielding *past, uint64_t *start)
{
    if (!fs_yield_is_due(past)) return 0;
    *start = fs_ticks();
    sched_yield();
    return 1;
}

void fs_yield_learn(struct fs_yielding *past, uint64_t start, int ready, int ends)
{
    double us = (double)(fs_ticks() - start) / fs_ticks_per_us(), waits = us / (YIELD_BEARABLE_US * ends);
    if (ready && us <= YIELD_WORTH_US * ends) return;
    past->rest = waits < 1 ? 1 : waits > LONGEST_REST ? LONGEST_REST : (uint32_t)waits;
}

static int yield(struct fs_end *end, int what)
{
    struct fs_yielding *past = what == FS_READABLE ? &end->yield_read : &end->yield_write;
    uint64_t start;
    if (end->limits.spin_us <= 0 || fs_end_is_elsewhere(end) || !fs_yield_try(past, &start)) return 0;
    int ready = is_ready(end, what);
    fs_yield_learn(past, start, ready, 1);
    return ready;
}

static uint64_t until(uint64_t deadline_ns)
{
    uint64_t now = fs_now_ns();
    return deadline_ns == UINT64_MAX ? UINT64_MAX : deadline_ns > now ? deadline_ns - now : 0;
}

/* What looks ready may be a lie of the other end, told again and again: the deadline holds. */
static int look_again(uint64_t deadline_ns)
{
    return deadline_ns != UINT64_MAX && fs_now_ns() >= deadline_ns ? -ETIMEDOUT : 0;
}

/* Called when `result` says to look again.  Nothing has moved since the last times, which all were over at once: then it
 * is not worth a core. */
int fs_end_heed_feints(struct fs_end *end, int what, uint64_t moved, uint64_t began, uint64_t deadline_ns, int result)
{
    if (result != 0) return result;
    struct fs_feint *feint = what == FS_READABLE ? &end->feint_read : &end->feint_write;
    if (moved != feint->moved || (double)(fs_ticks() - began) > AT_ONCE_US * fs_ticks_per_us()) {
        feint->moved = moved;
        feint->rounds = 0;
        return 0;
    }
    uint32_t past = ++feint->rounds;
    if (past <= FEINTS_BORNE) return 0;
    uint64_t nap = past - FEINTS_BORNE < 6 ? SHORTEST_NAP_NS << (past - FEINTS_BORNE - 1) : LONGEST_NAP_NS;
    uint64_t left = until(deadline_ns);
    if (nap > left) nap = left;
    struct timespec limit = {0, (long)nap};
    return nanosleep(&limit, NULL) != 0 ? -EINTR : look_again(deadline_ns);
}

/* A timeout due before the next tick makes the kernel program the clock's hardware twice a sleep, which costs more than
 * the sleep and the wake themselves where a hypervisor answers.  One that is due later costs nothing. */
static uint64_t futex_sleep_ns(void)
{
    static _Atomic uint64_t known;
    uint64_t limit = atomic_load_explicit(&known, memory_order_relaxed);
    if (limit == 0) {
        uint64_t tick = fs_tick_ns();
        limit = tick + tick / 4;
        if (limit < SHORTEST_FUTEX_SLEEP_NS) limit = SHORTEST_FUTEX_SLEEP_NS;
        atomic_store_explicit(&known, limit, memory_order_relaxed);
    }
    return limit;
}

/* 1: look again, 0: slept in vain, or -errno. */
static int sleep_on_futex(struct fs_end *end, int what, uint64_t left, const _Atomic int *leaving)
{
    _Atomic uint32_t *word = what == FS_READABLE ? &end->in.shared->reader_sleeps : &end->out.shared->writer_sleeps;
    uint64_t longest = futex_sleep_ns();
    atomic_store(word, 1);
    if (is_ready(end, what)) return 1;
    if (atomic_load(leaving)) return -EBADF;
    if (fs_futex_wait(word, 1, left < longest ? left : longest) == 0) return 1;
    if (errno == EINTR) return -EINTR;
    return errno == ETIMEDOUT ? 0 : 1;
}

/* Makes the doorbell show what is waited for.  1: it is there already, 0: go to sleep, or -errno. */
static int show_on_doorbell(struct fs_end *end, int doorbell, int what)
{
    fs_lock_word *word = what == FS_READABLE ? end->exclusion.receiver : end->exclusion.sender;
    int result = fs_lock(word, LOCK_PATIENCE_NS);
    if (result != 0) return 1;
    if (what == FS_READABLE) {
        result = fs_is_raw(end->in.shared) && !end->raw_in;
        if (!result && !end->raw_in) result = !fs_doorbell_settle(end, doorbell) && fs_ring_used(&end->in) != 0;
    } else if (!end->raw_out && !end->gone) {
        size_t wanted = end->room_wanted;
        ssize_t space = fs_ring_space(&end->out, wanted > 1 ? wanted : 1);
        int grew = space >= 0 && ((size_t)space < wanted || space == 0) && fs_ring_grow(&end->out);
        int full = space == 0 && !grew;
        end->room_wanted = 0; /* it waited for long: now what there is must do */
        result = !full || fs_is_raw(end->out.shared);
        if (!result) fs_doorbell_stuff(end, doorbell);
    }
    fs_unlock(word);
    return result;
}

static int sleep_on_doorbell(struct fs_end *end, int doorbell, int what, uint64_t left, const _Atomic int *leaving)
{
    uint64_t began = fs_ticks();
    int shown = show_on_doorbell(end, doorbell, what);
    if (shown != 0) return shown < 0 ? shown : 0;
    /* for a lock: a signal that came meanwhile would not end the sleep */
    if ((double)(fs_ticks() - began) > LONGEST_SHOWING_US * fs_ticks_per_us()) return 0;
    struct pollfd list[2] = {{doorbell, what == FS_READABLE ? POLLIN | POLLRDHUP : POLLOUT, 0},
                             {process_leave_pipe(0), POLLIN, 0}};
    /* our own shutdown of the writing half wakes nobody who polls for room: such a wait looks up from time to time */
    int sliced = what == FS_WRITABLE && left > WRITER_SLICE_NS;
    if (sliced) left = WRITER_SLICE_NS;
    struct timespec limit = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
    if (atomic_load(leaving)) return -EBADF;
    if (what == FS_READABLE) atomic_fetch_add(&end->sleepers, 1); /* a shutdown from now on is shown on the doorbell */
    int ready = is_ready(end, what), count = ready ? 0 : ppoll(list, 2, left == UINT64_MAX ? NULL : &limit, NULL),
        error = errno;
    if (what == FS_READABLE) atomic_fetch_sub(&end->sleepers, 1);
    if (ready) return 0;
    if (count < 0) return -error;
    if (count == 0) return sliced ? 0 : -ETIMEDOUT;
    if (list[1].revents && !list[0].revents) sched_yield(); /* somebody else leaves: until that is done */
    if (list[0].revents & (POLLHUP | POLLERR)) end->looked_at = 0;
    return 0;
}

static int goes_past_ring(const struct fs_end *end, int what)
{
    return what == FS_READABLE ? end->raw_in : end->raw_out;
}

int fs_end_wait_awake(struct fs_end *end, int what)
{
    return is_ready(end, what) || (!goes_past_ring(end, what) && (spin(end, what) || yield(end, what)));
}

static int doze(struct fs_end *end, int what, uint64_t deadline_ns, const _Atomic int *leaving)
{
    if (goes_past_ring(end, what)) return FS_IN_VAIN;
    fs_count_wait(end);
    uint64_t left = until(deadline_ns);
    if (left == 0) return -ETIMEDOUT;
    fs_end_rely(end, 1);
    int slept = sleep_on_futex(end, what, left, leaving);
    fs_end_rely(end, 0);
    return slept == 0 ? FS_IN_VAIN : slept < 0 ? slept : 0;
}

static int wait_briefly(struct fs_end *end, int what, uint64_t deadline_ns, const _Atomic int *leaving)
{
    return fs_end_wait_awake(end, what) ? look_again(deadline_ns) : doze(end, what, deadline_ns, leaving);
}

static uint64_t moved_by(const struct fs_end *end, int what)
{
    return what == FS_READABLE ? end->statistics.bytes_received : end->statistics.bytes_sent;
}

int fs_end_doze(struct fs_end *end, int what, uint64_t deadline_ns, const _Atomic int *leaving)
{
    uint64_t began = fs_ticks();
    if (atomic_load(leaving)) return -EBADF;
    return fs_end_heed_feints(end, what, moved_by(end, what), began, deadline_ns,
                              doze(end, what, deadline_ns, leaving));
}

int fs_end_wait_briefly(struct fs_end *end, int what, uint64_t deadline_ns, const _Atomic int *leaving)
{
    uint64_t began = fs_ticks();
    if (atomic_load(leaving)) return -EBADF;
    return fs_end_heed_feints(end, what, moved_by(end, what), began, deadline_ns,
                              wait_briefly(end, what, deadline_ns, leaving));
}

int fs_end_wait_long(struct fs_end *end, int doorbell, int what, uint64_t deadline_ns, const _Atomic int *leaving)
{
    uint64_t began = fs_ticks();
    if (atomic_load(leaving)) return -EBADF;
    uint64_t left = until(deadline_ns);
    if (left == 0) return -ETIMEDOUT;
    fs_end_rely(end, 1);
    int slept = sleep_on_doorbell(end, doorbell, what, left, leaving);
    fs_end_rely(end, 0);
    return fs_end_heed_feints(end, what, moved_by(end, what), began, deadline_ns, slept);
}

int fs_end_wait(struct fs_end *end, int doorbell, int what, uint64_t deadline_ns, const _Atomic int *leaving)
{
    int result = fs_end_wait_briefly(end, what, deadline_ns, leaving);
    return result == FS_IN_VAIN ? fs_end_wait_long(end, doorbell, what, deadline_ns, leaving) : result;
}
