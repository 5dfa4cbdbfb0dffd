/* Waiting: spin while that is likely to be answered, then a short futex sleep, then poll() on the doorbell.
 *
 * A futex wakes faster than any descriptor but cannot hear the other process die; poll() hears everything.  So the
 * futex sleep is bounded, and a connection that stays quiet sleeps in the kernel without ever waking up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "end.h"
#include "system.h"

#define FUTEX_SLEEP_NS 1000000ull
#define LOCK_PATIENCE_NS 50000000ull
#define SPINS_PER_CLOCK 16
#define POOR_SUCCESS 0.3f
#define PROBE_EVERY 16

/* One eventfd for the process: whoever closes a socket under a sleeper rings it. */
static _Atomic int leave_bell = -1;
static _Atomic uint32_t leave_bell_forks;

static int process_leave_bell(void)
{
    uint32_t forks = fs_fork_count();
    int bell = atomic_load(&leave_bell);
    if (bell >= 0 && atomic_load(&leave_bell_forks) == forks) return bell;
    int fresh = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fresh < 0) return -1;
    atomic_store(&leave_bell_forks, forks);
    if (!atomic_compare_exchange_strong(&leave_bell, &bell, fresh)) {
        close(fresh);
        return bell;
    }
    if (bell >= 0) close(bell); /* the parent's, inherited by this child */
    return fresh;
}

void fs_wake_leaving(void)
{
    int bell = process_leave_bell();
    if (bell >= 0) eventfd_write(bell, 1);
}

void fs_wake_leaving_done(void)
{
    eventfd_t value;
    int bell = process_leave_bell();
    if (bell >= 0) eventfd_read(bell, &value);
}

static int is_ready(struct fs_end *end, int what)
{
    struct fs_direction *in = end->in.shared;
    if (atomic_load(&in->notice) != end->notice_seen) return 1;
    if (what == FS_WRITABLE) return !end->raw_out && fs_end_writable(end);
    return !end->raw_in && (atomic_load(&in->head) != atomic_load(&in->tail) || atomic_load(&in->raw));
}

int fs_end_may_spin(struct fs_end *end, int what)
{
    struct fs_spin *spin = what == FS_READABLE ? &end->spin_read : &end->spin_write;
    uint32_t other = atomic_load_explicit(&end->header->cpu[!end->side], memory_order_relaxed);
    if (end->limits.spin_us <= 0 || other == fs_current_cpu()) return 0;
    return spin->success >= POOR_SUCCESS || ++spin->skipped % PROBE_EVERY == 0;
}

int fs_end_look(struct fs_end *end, int what, uint64_t ticks)
{
    uint64_t start = fs_ticks();
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (is_ready(end, what)) return 1;
            fs_pause();
        }
    } while (fs_ticks() - start < ticks);
    return 0;
}

static int spin(struct fs_end *end, int what)
{
    struct fs_spin *measured = what == FS_READABLE ? &end->spin_read : &end->spin_write;
    if (!fs_end_may_spin(end, what)) return 0;
    int won = fs_end_look(end, what, (uint64_t)(end->limits.spin_us * fs_ticks_per_us()));
    measured->success = measured->success + ((float)won - measured->success) / 10;
    fs_count(&end->statistics.spins, 1);
    return won;
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

/* 1: look again, 0: slept in vain, or -errno. */
static int sleep_on_futex(struct fs_end *end, int what, uint64_t left)
{
    _Atomic uint32_t *word = what == FS_READABLE ? &end->in.shared->reader_sleeps : &end->out.shared->writer_sleeps;
    atomic_store(word, 1);
    if (is_ready(end, what)) return 1;
    if (fs_futex_wait(word, 1, left < FUTEX_SLEEP_NS ? left : FUTEX_SLEEP_NS) == 0) return 1;
    if (errno == EINTR) return -EINTR;
    return errno == ETIMEDOUT ? 0 : 1;
}

/* Makes the doorbell show what is waited for.  1: it is there already, 0: go to sleep, or -errno. */
static int show_on_doorbell(struct fs_end *end, int doorbell, int what)
{
    _Atomic uint32_t *word = what == FS_READABLE ? &end->in.shared->consumer_lock : &end->out.shared->producer_lock;
    int result = fs_lock(word, fs_end_shared(end), LOCK_PATIENCE_NS);
    if (result != 0) return result == -ETIMEDOUT ? 1 : result;
    if (what == FS_READABLE) {
        result = atomic_load(&end->in.shared->raw) && !end->raw_in;
        if (!result && !end->raw_in) result = !fs_doorbell_settle(end, doorbell) && fs_ring_used(&end->in) != 0;
    } else if (!end->raw_out && !end->gone) {
        ssize_t space = fs_ring_space(&end->out, 1);
        result = space != 0 || fs_ring_grow(&end->out) || atomic_load(&end->out.shared->raw);
        if (!result) {
            fs_doorbell_stuff(end, doorbell);
        }
    }
    fs_unlock(word);
    return result;
}

static int sleep_on_doorbell(struct fs_end *end, int doorbell, int what, uint64_t left, const _Atomic int *leaving)
{
    int shown = show_on_doorbell(end, doorbell, what);
    if (shown != 0) return shown < 0 ? shown : 0;
    if (is_ready(end, what)) return 0;
    struct pollfd list[2] = {{doorbell, what == FS_READABLE ? POLLIN | POLLRDHUP : POLLOUT, 0},
                             {process_leave_bell(), POLLIN, 0}};
    struct timespec limit = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
    if (atomic_load(leaving)) return -EBADF;
    int count = ppoll(list, 2, left == UINT64_MAX ? NULL : &limit, NULL);
    if (count < 0) return -errno;
    if (count == 0) return -ETIMEDOUT;
    if (list[1].revents && !list[0].revents) sched_yield(); /* somebody else leaves: until that is done */
    if (list[0].revents & (POLLHUP | POLLERR)) end->looked_at = 0;
    return 0;
}

int fs_end_wait(struct fs_end *end, int doorbell, int what, uint64_t deadline_ns, const _Atomic int *leaving)
{
    if (atomic_load(leaving)) return -EBADF;
    if (is_ready(end, what)) return look_again(deadline_ns);
    int raw = what == FS_READABLE ? end->raw_in : end->raw_out;
    if (!raw) {
        if (spin(end, what)) return look_again(deadline_ns);
        fs_count(&end->statistics.waits, 1);
        uint64_t left = until(deadline_ns);
        if (left == 0) return -ETIMEDOUT;
        int slept = sleep_on_futex(end, what, left);
        if (slept != 0) return slept < 0 ? slept : 0;
    }
    if (atomic_load(leaving)) return -EBADF;
    uint64_t left = until(deadline_ns);
    return left == 0 ? -ETIMEDOUT : sleep_on_doorbell(end, doorbell, what, left, leaving);
}
