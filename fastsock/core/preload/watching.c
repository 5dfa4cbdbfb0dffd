/* epoll.  The kernel is asked as by any program; the rings of those that spoke of late are looked at first, and what the
 * kernel tells because of a token that is left over is not told on (switch/polling.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "next.h"
#include "process.h"
#include "switch/carry.h"
#include "switch/loop.h"
#include "switch/refusals.h"
#include "switch/table.h"
#include "system.h"
#include "watched.h"

#define ALL_STALE (-2)

/* A wait of one thread.  `until`: UINT64_MAX: for ever; 0: not at all. */
struct wait {
    struct fs_watch *watch;
    int descriptor; /* the watch may be another object's by the end of a sleep */
    struct epoll_event *events;
    int most, count; /* told so far */
    int has_asked;   /* the kernel, behind a look at the rings */
    uint64_t until;
    const sigset_t *mask;
};

struct ready {
    int count;
    int numbers[FS_POLLED_MOST];
};

/* ---- what is told ---- */

static void report(struct wait *wait, const struct fs_registered *one, uint32_t events)
{
    wait->events[wait->count++] = (struct epoll_event){.events = events, .data.u64 = one->word};
}

static int has_room(int number)
{
    const struct fs_connection *connection = fs_table_find(number);
    struct pollfd one = {number, POLLOUT, 0};
    /* a full ring is spilled */
    return (connection != NULL && !fs_carry_sends_by_tcp(connection)) || fs_next.poll(&one, 1, 0) > 0;
}

/* What the kernel would tell with an edge: all that is so. */
static uint32_t events_of(const struct fs_registered *one, int number)
{
    uint32_t events = one->mask & FS_READABLE_EVENTS, room = one->mask & FS_WRITABLE_EVENTS;
    return fs_registered_by_edges(one) && room != 0 && has_room(number) ? events | room : events;
}

static void report_edge(struct fs_watch *watch, int number)
{
    fs_poller_report_edge(&watch->poller, number, atomic_load(&watch->poller.seats.asking) > 0);
}

/* One that is told once only the kernel tells: it must not tell it again. */
static void report_readable(struct wait *wait, const struct ready *ready)
{
    int first = ready->count > 0 ? (int)(wait->watch->poller.turn % (uint64_t)ready->count) : 0;
    for (int i = 0; i < ready->count && wait->count < wait->most; i++) {
        int number = ready->numbers[(first + i) % ready->count], known = 0;
        const struct fs_registered *one = fs_watch_registration(wait->watch, number);
        if (one == NULL || !(one->mask & FS_READABLE_EVENTS)) fs_watch_leave_seat(wait->watch, number);
        if (one == NULL || !(one->mask & FS_READABLE_EVENTS) || one->mask & EPOLLONESHOT) continue;
        while (known < wait->count && wait->events[known].data.u64 != one->word) known++;
        if (known < wait->count) wait->events[known].events |= events_of(one, number); /* told as writable */
        else report(wait, one, events_of(one, number));
        if (fs_registered_by_edges(one)) report_edge(wait->watch, number);
    }
}

/* The kernel has told it once, and tells no more. */
static void arm_again(const struct wait *wait, int number, const struct fs_registered *one)
{
    struct epoll_event event = {.events = one->mask, .data.u64 = one->word};
    fs_next.epoll_ctl(wait->descriptor, EPOLL_CTL_MOD, number, &event);
}

static int is_left_over(struct fs_watch *watch, const struct fs_registered *one, int number)
{
    int by_edges = fs_registered_by_edges(one);
    int stale = by_edges ? fs_poller_is_edge_stale(&watch->poller, number)
                         : fs_polling_is_stale(number, fs_seats_flags(&watch->poller.seats, number));
    if (stale == 0 && !by_edges) fs_poller_note(&watch->poller, number);
    if (fs_seats_reported(&watch->poller.seats, number)) {
        fs_watch_make_loop(watch);
        fs_seats_reported(&watch->poller.seats, number);
    }
    return stale == 1;
}

/* Of an event of the kernel: 0: nothing of it is to be told. */
static int is_so(struct wait *wait, struct epoll_event *event)
{
    int number = fs_watch_number_of(wait->watch, event->data.u64);
    if (!(event->events & FS_READABLE_EVENTS) || number < 0 || fs_table_find(number) == NULL) return 1;
    const struct fs_registered *one = fs_watch_registration(wait->watch, number);
    if (one == NULL) return 1;
    if (!is_left_over(wait->watch, one, number)) {
        if (fs_registered_by_edges(one)) report_edge(wait->watch, number);
        return 1;
    }
    event->events &= ~(uint32_t)FS_READABLE_EVENTS;
    if (event->events == 0 && one->mask & EPOLLONESHOT) arm_again(wait, number, one);
    return event->events != 0;
}

/* What the kernel has told behind those that are there already. */
static int keep_what_is_so(struct wait *wait, int reported)
{
    int before = wait->count, kept = 0;
    for (int i = before; i < before + reported; i++) {
        struct epoll_event event = wait->events[i];
        if (!is_so(wait, &event)) continue;
        int same = 0;
        while (same < before && wait->events[same].data.u64 != event.data.u64) same++;
        if (same < before) wait->events[same].events |= event.events;
        else wait->events[before + kept++] = event;
    }
    wait->count = before + kept;
    return kept;
}

/* ---- asking the kernel ---- */

/* A filter (seccomp) may let a program have epoll_wait() alone. */
static int wait_in_kernel(const struct wait *wait, struct epoll_event *events, int most, int limit, int masks)
{
    if (!masks || wait->mask == NULL) return fs_next.epoll_wait(wait->descriptor, events, most, limit);
    return fs_next.epoll_pwait(wait->descriptor, events, most, limit, wait->mask);
}

static int ask_kernel(const struct wait *wait, uint64_t left)
{
    struct epoll_event *events = wait->events + wait->count;
    int most = wait->most - wait->count;
    if (left == 0 || left == UINT64_MAX) return wait_in_kernel(wait, events, most, left == 0 ? 0 : -1, left != 0);
    if (left % 1000000 == 0) return wait_in_kernel(wait, events, most, (int)(left / 1000000), 1);
    struct timespec limit = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    int result = fs_next.epoll_pwait2(wait->descriptor, events, most, &limit, wait->mask);
    if (result >= 0 || !fs_is_refusal(errno)) return result;
    return wait_in_kernel(wait, events, most, (int)((left + 999999) / 1000000), 1);
}

/* Without the lock.  How many it tells but of the bell, or -errno. */
static int ask(struct wait *wait, uint64_t left, struct fs_loop *asleep, int *rung)
{
    struct fs_watch *watch = wait->watch;
    fs_seats_ask(&watch->poller.seats, 1);
    fs_watch_release(watch);
    int reported = ask_kernel(wait, left), error = errno;
    fs_watch_take(watch);
    fs_seats_ask(&watch->poller.seats, -1);
    *rung = reported < 0;
    uint64_t bell = fs_watch_bell_word(watch);
    for (int i = 0; i < reported && watch->poller.seats.bell > 0; i++) {
        struct epoll_event *one = &wait->events[wait->count + i];
        if (one->data.u64 != bell) continue;
        *one = wait->events[wait->count + --reported];
        *rung = 1;
        break;
    }
    fs_seats_awake(&watch->poller.seats, asleep, *rung);
    return reported < 0 ? -error : reported;
}

/* ---- waiting ---- */

static int waits(const struct wait *wait) { return wait->until != 0; }

static uint64_t end_of(uint64_t limit_ns)
{
    return limit_ns == 0 || limit_ns == UINT64_MAX ? limit_ns : fs_now_ns() + limit_ns;
}

static uint64_t left_until(uint64_t end)
{
    if (end == 0 || end == UINT64_MAX) return end;
    uint64_t now = fs_now_ns();
    return now < end ? end - now : 0;
}

static uint64_t left_of(const struct wait *wait) { return left_until(wait->until); }

static void hear_kernel(struct wait *wait)
{
    int rung;
    if (wait->has_asked || wait->count >= wait->most) return;
    int reported = ask(wait, 0, NULL, &rung);
    if (reported > 0) keep_what_is_so(wait, reported);
    wait->has_asked = 1;
}

static void hear_bits(struct wait *wait)
{
    struct ready ready;
    ready.count = fs_seats_look(&wait->watch->poller.seats, ready.numbers, FS_POLLED_MOST, FS_AT_ONCE);
    if (ready.count > 0) report_readable(wait, &ready);
}

static void hear_rest(struct wait *wait)
{
    const struct fs_poller *poller = &wait->watch->poller;
    if (!fs_poller_rest_is_due(poller) || (poller->count == 0 && poller->seats.bell <= 0)) return;
    if (fs_poller_kernel_is_first(poller)) hear_kernel(wait);
    hear_bits(wait);
    hear_kernel(wait);
}

/* Room is mostly there: who waits for it is not kept by a look for bytes. */
static void hear_of_room(struct wait *wait)
{
    if (wait->watch->writers > 0) hear_kernel(wait);
}

/* Those whose rings have something.  Waits for one a moment, without the lock, if the caller waits at all. */
static void look(struct wait *wait, struct ready *ready)
{
    struct fs_poller *poller = &wait->watch->poller;
    ready->count = fs_poller_look(poller, ready->numbers);
    if (ready->count > 0 || wait->count > 0 || poller->count == 0 || !waits(wait)) return;
    hear_of_room(wait);
    if (wait->count > 0) return;
    struct fs_polled among[FS_POLLED_MOST];
    int count = poller->count;
    memcpy(among, poller->among, (size_t)count * sizeof *among);
    fs_watch_release(wait->watch);
    int found = fs_poller_await(poller, among, count, left_of(wait));
    fs_watch_take(wait->watch);
    if (found) ready->count = fs_poller_look(poller, ready->numbers);
    if (ready->count == 0) ready->count = fs_poller_settle(poller, ready->numbers);
}

/* Those of the loop that have something; 0: it sleeps, if there is one.  -EBUSY: it cannot. */
static int before_sleep(struct wait *wait, struct ready *ready, struct fs_loop **asleep)
{
    struct fs_seats *seats = &wait->watch->poller.seats;
    struct fs_poller *poller = &wait->watch->poller;
    *asleep = NULL;
    if (poller->pressing) {
        ready->count = fs_poller_look(poller, ready->numbers);
        if (ready->count == 0) ready->count = fs_poller_settle(poller, ready->numbers);
        if (ready->count > 0) return ready->count;
    }
    int count = waits(wait) ? fs_seats_sleep(seats, ready->numbers, FS_POLLED_MOST, FS_AT_ONCE, asleep)
                            : fs_seats_look(seats, ready->numbers, FS_POLLED_MOST, FS_AT_ONCE);
    if (count == -ESTALE) {
        fs_watch_show_all(wait->watch);
        count = 0;
    }
    ready->count = count > 0 ? count : 0;
    return waits(wait) ? count : 0;
}

/* What the kernel tells and is so, or the loop.  0, or -errno. */
static int reported(struct wait *wait)
{
    for (int stale = 0, busy = 0;;) {
        struct ready ready;
        struct fs_loop *asleep;
        int rung, state = before_sleep(wait, &ready, &asleep);
        report_readable(wait, &ready);
        if (wait->count > 0) {
            hear_of_room(wait);
            fs_seats_awake(&wait->watch->poller.seats, asleep, 0);
            return 0;
        }
        uint64_t left = left_of(wait);
        if ((state < 0 || wait->watch->poller.pressing) && left > FS_BUSY_NS)
            left = busy++ < FS_MOST_BUSY ? 0 : FS_BUSY_NS;
        int found = ask(wait, left, asleep, &rung);
        if (found < 0) return found;
        if (wait->watch->descriptor != wait->descriptor) { /* it was closed meanwhile */
            wait->count = found;
            return 0;
        }
        if (keep_what_is_so(wait, found) > 0 || (!waits(wait) && !rung)) return 0;
        if (found > 0 && ++stale > FS_MOST_STALE) return 0;
        if (found == 0 && !rung && state >= 0 && !wait->watch->poller.pressing) return 0;
        if (waits(wait) && left_of(wait) == 0) wait->until = 0; /* a last look */
    }
}

static int wait_in(struct wait *wait)
{
    struct fs_watch *watch = wait->watch;
    struct ready ready;
    if (fs_seats_moved(&watch->poller.seats)) fs_watch_show_all(watch); /* a forked child */
    watch->poller.turn++;
    hear_rest(wait);
    if (watch->poller.count > 0) {
        look(wait, &ready);
        report_readable(wait, &ready);
        if (wait->count > 0) hear_of_room(wait);
    }
    return wait->count > 0 ? 0 : reported(wait);
}

/* -ENOENT: the kernel alone knows. */
static int wait_for(int descriptor, struct epoll_event *events, int most, uint64_t limit_ns, const sigset_t *mask)
{
    if (!fs_polling_is_due() || most <= 0 || events == NULL) return -ENOENT;
    struct fs_watch *watch = fs_watch_hold(descriptor);
    if (watch == NULL) return -ENOENT;
    if (watch->is_exact) {
        fs_watch_release(watch);
        return -ENOENT;
    }
    struct wait wait = {watch, descriptor, events, most, 0, 0, end_of(limit_ns), mask};
    int error = wait_in(&wait);
    if (error == 0 && wait.count > 0) fs_seats_pass_on(&watch->poller.seats);
    fs_watch_release(watch);
    return error < 0 ? error : wait.count;
}

static int answer(int result, int before)
{
    errno = result < 0 ? -result : before;
    return result < 0 ? -1 : result;
}

/* By the kernel alone, and counted: memory may come meanwhile. */
static struct fs_watch *begin_sleep(int descriptor)
{
    struct fs_watch *watch = fs_watch_find(descriptor);
    if (watch != NULL) fs_seats_ask(&watch->poller.seats, 1);
    return watch;
}

/* If it came, what the kernel told was the first of its tokens perhaps: nobody has asked for the next one yet. */
static int hear(int descriptor, struct epoll_event *events, int most, int count)
{
    struct fs_watch *watch = fs_watch_hold(descriptor);
    if (watch == NULL) return count;
    struct wait wait = {watch, descriptor, events, most, 0, 0, 0, NULL};
    if (watch->is_exact) wait.count = count;
    else keep_what_is_so(&wait, count);
    fs_watch_release(watch);
    return wait.count > 0 ? wait.count : ALL_STALE;
}

/* ALL_STALE: the wait goes on. */
static int end_sleep(struct fs_watch *watch, int descriptor, struct epoll_event *events, int most, int result)
{
    int error = errno;
    if (watch != NULL) fs_seats_ask(&watch->poller.seats, -1);
    if (result > 0 && watch != NULL && fs_polling_is_due()) result = hear(descriptor, events, most, result);
    errno = error;
    return result;
}

static uint64_t of_ms(int timeout) { return timeout < 0 ? UINT64_MAX : (uint64_t)timeout * 1000000u; }
static int ms_of(uint64_t ns) { return ns == UINT64_MAX ? -1 : (int)((ns + 999999) / 1000000); }

static int wait_ms(int descriptor, struct epoll_event *events, int most, int timeout, int masks, const sigset_t *mask)
{
    int before = errno;
    uint64_t end = end_of(of_ms(timeout));
    for (int left = timeout;; left = ms_of(left_until(end))) {
        int result = wait_for(descriptor, events, most, of_ms(left), mask);
        if (result != -ENOENT) return answer(result, before);
        struct fs_watch *watch = begin_sleep(descriptor);
        result = masks ? fs_next.epoll_pwait(descriptor, events, most, left, mask)
                       : fs_next.epoll_wait(descriptor, events, most, left);
        result = end_sleep(watch, descriptor, events, most, result);
        if (result != ALL_STALE) return result;
    }
}

FS_DOOR int epoll_pwait(int descriptor, struct epoll_event *events, int most, int timeout, const sigset_t *mask)
{
    return wait_ms(descriptor, events, most, timeout, 1, mask);
}

FS_DOOR int epoll_wait(int descriptor, struct epoll_event *events, int most, int timeout)
{
    return wait_ms(descriptor, events, most, timeout, 0, NULL);
}

FS_DOOR int epoll_pwait2(int descriptor, struct epoll_event *events, int most, const struct timespec *limit,
                         const sigset_t *mask)
{
    int before = errno;
    struct timespec rest;
    uint64_t left = limit == NULL ? UINT64_MAX : (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec;
    uint64_t end = end_of(left);
    for (;;) {
        int result = wait_for(descriptor, events, most, left, mask);
        if (result != -ENOENT) return answer(result, before);
        struct fs_watch *watch = begin_sleep(descriptor);
        result = fs_next.epoll_pwait2(descriptor, events, most, limit, mask);
        result = end_sleep(watch, descriptor, events, most, result);
        if (result != ALL_STALE) return result;
        left = left_until(end);
        rest = (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        if (limit != NULL) limit = &rest;
    }
}

/* ---- objects and registrations ---- */

static int made(int descriptor)
{
    int before = errno;
    if (descriptor >= 0) fs_watch_made(descriptor);
    errno = before;
    return descriptor;
}

FS_DOOR int epoll_create(int size) { return made(fs_next.epoll_create(size)); }
FS_DOOR int epoll_create1(int flags) { return made(fs_next.epoll_create1(flags)); }

FS_DOOR int epoll_ctl(int descriptor, int operation, int number, struct epoll_event *event)
{
    if (atomic_load_explicit(&fs_stands_aside, memory_order_relaxed))
        return fs_next.epoll_ctl(descriptor, operation, number, event);
    return fs_watch_control(descriptor, operation, number, event);
}
