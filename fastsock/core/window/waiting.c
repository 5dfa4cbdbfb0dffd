#define _GNU_SOURCE
#include "waiting.h"

#include <poll.h>
#include <sched.h>

#include "looking.h"

#define LOOKS_PER_ROUND 16
#define SPIN_US 50.0 /* without handing the core over */
#define HOLD_US 10.0 /* before locks are given up: that costs both them and this wait something */
#define PROGRESS_EVERY_US 10.0
#define CHECK_EVERY_US 2000.0      /* who has died, are there signals */
#define PATIENCE_US 4000.0         /* then it sleeps: a wake costs tens of microseconds */
#define PATIENCE_CROWDED_US 1000.0 /* those who yield take their share of the core from those who compute */
#define FIRST_SLEEP_MS 1           /* wakes may be missed, and other work waits meanwhile */
#define LONGEST_SLEEP_MS 5

void fs_window_wake(struct fs_window *window)
{
    atomic_fetch_add(&window->header->rung, 1);
    fs_futex_wake_all(&window->header->rung);
}

int fs_window_leave(struct fs_window_call *call)
{
    if (call->left || call->hooks.leave == NULL) return 0;
    call->left = 1;
    call->hooks.leave(call->hooks.context);
    return 1;
}

void fs_window_enter(struct fs_window_call *call)
{
    call->hooks.enter(call->hooks.context);
    call->left = 0;
}

static int look_around(struct fs_window *window, struct fs_window_call *call, const struct fs_window_wait *wait)
{
    struct pollfd polled[FS_WINDOW_MOST];
    for (int i = 0; i < window->size; i++)
        polled[i] = (struct pollfd){atomic_load(&window->dead[i]) ? -1 : window->watches[i], POLLIN, 0};
    int count = poll(polled, (nfds_t)window->size, 0);
    for (int i = 0; count > 0 && i < window->size; i++)
        if (polled[i].revents != 0) atomic_store(&window->dead[i], 1);
    int author = wait->author(window, wait);
    if (author >= 0 && atomic_load(&window->dead[author]) && !wait->come(window, wait)) {
        call->culprit = author;
        return -EOWNERDEAD;
    }
    return call->hooks.interrupted == NULL ? 0 : call->hooks.interrupted(call->hooks.context);
}

static void sleep_shortly(struct fs_window *window, const struct fs_window_wait *wait, int milliseconds)
{
    struct fs_window_header *header = window->header;
    atomic_fetch_add(&header->sleepers, 1);
    uint32_t rung = atomic_load(&header->rung);
    if (!wait->come(window, wait)) fs_futex_wait(&header->rung, rung, (uint64_t)milliseconds * 1000000);
    atomic_fetch_sub(&header->sleepers, 1);
}

static int wait_slowly(struct fs_window *window, struct fs_window_call *call, const struct fs_window_wait *wait)
{
    double scale = fs_ticks_per_us();
    uint64_t patience = (uint64_t)((window->crowded ? PATIENCE_CROWDED_US : PATIENCE_US) * scale);
    uint64_t start = fs_ticks(), progressed = start, checked = start;
    uint64_t hold = window->at_once ? 0 : fs_look_granted(start, (uint64_t)(HOLD_US * scale));
    int nap = FIRST_SLEEP_MS;
    while (!wait->come(window, wait)) {
        for (int i = 0; !window->crowded && i < LOOKS_PER_ROUND; i++) {
            if (wait->come(window, wait)) return 0;
            fs_pause();
        }
        uint64_t now = fs_ticks();
        if (window->crowded || now - start > (uint64_t)(SPIN_US * scale)) sched_yield();
        if (now - start < hold) continue;
        if (!call->left) {
            if (hold != 0) fs_look_ended(start, 0);
            fs_window_leave(call);
        }
        if (now - progressed > (uint64_t)(PROGRESS_EVERY_US * scale)) {
            if (call->hooks.progress != NULL && call->hooks.progress(call->hooks.context)) start = now;
            progressed = now;
        }
        if (now - checked > (uint64_t)(CHECK_EVERY_US * scale)) {
            int result = look_around(window, call, wait);
            if (result != 0) return result;
            checked = now;
        }
        if (now - start > patience) {
            sleep_shortly(window, wait, nap);
            nap = LONGEST_SLEEP_MS;
        }
    }
    return 0;
}

int fs_window_wait_slowly(struct fs_window *window, struct fs_window_call *call, const struct fs_window_wait *wait)
{
    int had_left = call->left, result = wait_slowly(window, call, wait);
    if (call->left && !had_left) fs_window_enter(call);
    return result;
}

static int count_has_come(const struct fs_window *window, const struct fs_window_wait *wait)
{
    (void)window;
    return fs_window_has_come(atomic_load_explicit(wait->word, memory_order_acquire), wait->value);
}

static int the_member(const struct fs_window *window, const struct fs_window_wait *wait)
{
    (void)window;
    return wait->member;
}

struct fs_window_wait fs_window_count_of(int member, const _Atomic uint32_t *count, uint32_t least)
{
    return (struct fs_window_wait){count_has_come, the_member, count, least, member};
}
