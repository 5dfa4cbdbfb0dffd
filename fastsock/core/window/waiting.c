#define _GNU_SOURCE
#include "waiting.h"

#include <poll.h>

#include "patience.h"

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

/* ---- a wait for a condition ---- */

struct wait {
    struct fs_window *window;
    struct fs_window_call *call;
    const struct fs_window_wait *what;
};

static int has_come(void *self)
{
    const struct wait *wait = self;
    return wait->what->come(wait->window, wait->what);
}

static int look_around(void *self)
{
    const struct wait *wait = self;
    struct fs_window *window = wait->window;
    const struct fs_team_hooks *hooks = &wait->call->hooks;
    struct pollfd polled[FS_WINDOW_MOST];
    for (int i = 0; i < window->size; i++)
        polled[i] = (struct pollfd){atomic_load(&window->dead[i]) ? -1 : window->watches[i], POLLIN, 0};
    int count = poll(polled, (nfds_t)window->size, 0);
    for (int i = 0; count > 0 && i < window->size; i++)
        if (polled[i].revents != 0) atomic_store(&window->dead[i], 1);
    int author = wait->what->author(window, wait->what);
    if (author >= 0 && atomic_load(&window->dead[author]) && !has_come(self)) {
        wait->call->culprit = author;
        return -EOWNERDEAD;
    }
    return hooks->interrupted == NULL ? 0 : hooks->interrupted(hooks->context);
}

static int sleep_a_while(void *self, int most_ms)
{
    const struct wait *wait = self;
    struct fs_window_header *header = wait->window->header;
    atomic_fetch_add(&header->sleepers, 1);
    uint32_t rung = atomic_load(&header->rung);
    if (!has_come(self)) fs_futex_wait(&header->rung, rung, (uint64_t)most_ms * 1000000);
    atomic_fetch_sub(&header->sleepers, 1);
    return 0;
}

static void leave(void *self) { fs_window_leave(((struct wait *)self)->call); }

static int progress(void *self)
{
    const struct fs_team_hooks *hooks = &((struct wait *)self)->call->hooks;
    return hooks->progress != NULL && hooks->progress(hooks->context);
}

int fs_window_wait_slowly(struct fs_window *window, struct fs_window_call *call, const struct fs_window_wait *what)
{
    static const struct fs_waiter waiter = {has_come, NULL, NULL, leave, progress, look_around, sleep_a_while};
    struct wait wait = {window, call, what};
    int had_left = call->left, keeps = !window->at_once && !had_left && call->hooks.leave != NULL;
    int result = fs_wait_patiently(&waiter, &wait, window->crowded, keeps);
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
