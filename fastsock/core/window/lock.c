/* The lock of a member's part: one owns it, or several share it.  tests/model/window_lock.pml is its model.
 *
 * A member that wants it writes so beside its name.  Who gives it back lets all in who wait to share it, and hands it to the
 * next after itself who wants it alone.  So nobody starves, and a dead member is known by name. */
#include "waiting.h"

static struct fs_window_lock *lock_of(const struct fs_window *window, int target)
{
    return &window->members[target].lock;
}

static int change(_Atomic uint8_t *state, uint8_t from, uint8_t to)
{
    return atomic_compare_exchange_strong(state, &from, to);
}

static int owner_of(const struct fs_window *window, const struct fs_window_wait *wait)
{
    int owner = (int)atomic_load(&lock_of(window, wait->member)->owner);
    return owner <= window->size ? owner - 1 : -1;
}

static int may_share(const struct fs_window *window, const struct fs_window_wait *wait)
{
    const struct fs_window_lock *lock = lock_of(window, wait->member);
    return atomic_load(&lock->states[window->index]) == FS_SHARES || atomic_load(&lock->owner) == 0;
}

static int may_own(const struct fs_window *window, const struct fs_window_wait *wait)
{
    uint32_t owner = atomic_load(&lock_of(window, wait->member)->owner);
    return owner == 0 || owner == (uint32_t)window->index + 1;
}

static int is_mine(const struct fs_window *window, const struct fs_window_wait *wait)
{
    return atomic_load(&lock_of(window, wait->member)->owner) == (uint32_t)window->index + 1;
}

static int nobody(const struct fs_window *window, const struct fs_window_wait *wait)
{
    (void)window, (void)wait;
    return -1;
}

/* The dead do not count: they only shared it, and what they did stands. */
static int nobody_shares(const struct fs_window *window, const struct fs_window_wait *wait)
{
    const struct fs_window_lock *lock = lock_of(window, wait->member);
    for (int i = 0; i < window->size; i++)
        if (atomic_load(&lock->states[i]) == FS_SHARES && !atomic_load(&window->dead[i])) return 0;
    return 1;
}

static void give_back(struct fs_window *window, struct fs_window_lock *lock)
{
    uint32_t next = 0;
    for (int i = 0; i < window->size; i++)
        if (atomic_load_explicit(&lock->states[i], memory_order_relaxed) == FS_WANTS_SHARED)
            change(&lock->states[i], FS_WANTS_SHARED, FS_SHARES);
    for (int i = 1; i < window->size && next == 0; i++) {
        int member = (window->index + i) % window->size;
        if (atomic_load_explicit(&lock->states[member], memory_order_relaxed) == FS_WANTS_ALONE &&
            change(&lock->states[member], FS_WANTS_ALONE, FS_HANDED))
            next = (uint32_t)member + 1;
    }
    atomic_store(&lock->owner, next);
    fs_window_show(window);
}

static void leave(struct fs_window *window, int target)
{
    atomic_store(&lock_of(window, target)->states[window->index], FS_NOT_THERE);
    fs_window_show(window);
}

static int share(struct fs_window *window, struct fs_window_call *call, int target)
{
    struct fs_window_lock *lock = lock_of(window, target);
    _Atomic uint8_t *own = &lock->states[window->index];
    const struct fs_window_wait wait = {may_share, owner_of, NULL, 0, target};
    atomic_store(own, FS_SHARES);
    while (atomic_load(&lock->owner) != 0) {
        atomic_store(own, FS_WANTS_SHARED);
        fs_window_show(window); /* who wants it alone may wait for this */
        int result = fs_window_await(window, call, &wait);
        if (result != 0) {
            if (!change(own, FS_WANTS_SHARED, FS_NOT_THERE)) leave(window, target); /* it was let in */
            return result;
        }
        if (!change(own, FS_WANTS_SHARED, FS_SHARES)) return 0; /* it was let in */
    }
    return 0;
}

/* What was handed over while it went away is taken, and given back. */
static int withdraw(struct fs_window *window, struct fs_window_call *call, int target, int result)
{
    struct fs_window_lock *lock = lock_of(window, target);
    _Atomic uint8_t *own = &lock->states[window->index];
    const struct fs_window_wait wait = {is_mine, owner_of, NULL, 0, target};
    struct fs_window_call unheard = {.hooks = {0}, .culprit = -1}; /* it comes at once, or its giver died */
    if (change(own, FS_WANTS_ALONE, FS_NOT_THERE)) return result;
    if (fs_window_await(window, &unheard, &wait) == 0) {
        atomic_store(own, FS_NOT_THERE);
        give_back(window, lock);
    } else {
        atomic_store(own, FS_NOT_THERE);
        call->culprit = unheard.culprit;
    }
    return result;
}

static int own(struct fs_window *window, struct fs_window_call *call, int target)
{
    struct fs_window_lock *lock = lock_of(window, target);
    _Atomic uint8_t *own = &lock->states[window->index];
    const struct fs_window_wait turn = {may_own, owner_of, NULL, 0, target};
    const struct fs_window_wait drained = {nobody_shares, nobody, NULL, 0, target};
    uint32_t me = (uint32_t)window->index + 1, none = 0;
    int result;
    atomic_store(own, FS_WANTS_ALONE);
    while (!atomic_compare_exchange_strong(&lock->owner, &none, me) && none != me) {
        none = 0;
        result = fs_window_await(window, call, &turn);
        if (result != 0) return withdraw(window, call, target, result);
    }
    atomic_store(own, FS_NOT_THERE);
    result = fs_window_await(window, call, &drained);
    if (result != 0) give_back(window, lock);
    return result;
}

int fs_window_lock(struct fs_window *window, struct fs_window_call *call, int target, int alone)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    if (target < 0 || target >= window->size) return -EINVAL;
    if (atomic_load(&window->dead[target])) {
        call->culprit = target;
        return -EOWNERDEAD;
    }
    return alone ? own(window, call, target) : share(window, call, target);
}

int fs_window_unlock(struct fs_window *window, int target, int alone)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    if (target < 0 || target >= window->size) return -EINVAL;
    if (alone) give_back(window, lock_of(window, target));
    else leave(window, target);
    return 0;
}
