#define _GNU_SOURCE
#include "exclusion.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "looking.h"
#include "system.h"

#define PAGE 4096u
#define LINE 64u
#define PLACES (PAGE / (2 * LINE))
#define LOCK_SPINS 200
#define LOCK_SLICE_NS 1000000ull
#define LOCK_YIELDS 4
#define LOCK_NAP_NS 20000

/* ---- the words ---- */

/* A place that a forked process may still use serves nobody else: what is made after a fork is made on another page. */
struct fs_lock_page {
    unsigned char *memory;
    uint32_t taken; /* a bit for each place */
    uint32_t forks;
};

static struct fs_lock_page *current; /* under the process's lock */

_Static_assert(PLACES == 32, "one bit of `taken` for each place");

static int is_spent(const struct fs_lock_page *page)
{
    return page->taken == UINT32_MAX || page->forks != fs_fork_count();
}

static void drop_page(struct fs_lock_page *page)
{
    munmap(page->memory, PAGE);
    free(page);
}

static struct fs_lock_page *make_page(void)
{
    struct fs_lock_page *page = malloc(sizeof *page);
    void *memory =
        page == NULL ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        free(page);
        return NULL;
    }
    *page = (struct fs_lock_page){memory, 0, fs_fork_count()};
    return page;
}

int fs_exclusion_take(struct fs_exclusion *exclusion)
{
    int error = 0;
    fs_hold_process();
    if (current == NULL || is_spent(current)) {
        struct fs_lock_page *fresh = make_page(), *before = current;
        if (fresh == NULL) error = -ENOMEM;
        else current = fresh;
        if (fresh != NULL && before != NULL && before->taken == 0) drop_page(before);
    }
    if (error == 0) {
        unsigned place = (unsigned)__builtin_ctz(~current->taken);
        unsigned char *words = current->memory + (size_t)place * 2 * LINE;
        current->taken |= 1u << place;
        *exclusion = (struct fs_exclusion){(fs_lock_word *)words, (fs_lock_word *)(words + LINE), current};
        atomic_store(exclusion->sender, 0);
        atomic_store(exclusion->receiver, 0);
    }
    fs_release_process();
    return error;
}

void fs_exclusion_give(struct fs_exclusion *exclusion)
{
    struct fs_lock_page *page = exclusion->page;
    fs_hold_process();
    page->taken &= ~(1u << (((unsigned char *)exclusion->sender - page->memory) / (2 * LINE)));
    if (page->taken == 0 && page != current) drop_page(page);
    fs_release_process();
}

/* ---- the locks ---- */

/* Thread numbers mean something within one PID namespace: an owner of another one cannot be asked for, and is believed.
 * A number that is this thread's own was a dead one's before. */
static int has_died(uint64_t owner, uint64_t me)
{
    if (owner == 0 || owner >> 32 != me >> 32) return 0;
    return owner == me || !fs_is_alive((pid_t)(uint32_t)owner);
}

static int spin_for(fs_lock_word *word, uint64_t me)
{
    for (int i = 0; i < LOCK_SPINS; i++) {
        uint64_t nobody = 0;
        if (atomic_compare_exchange_weak(word, &nobody, me)) return 1;
        fs_pause();
    }
    return 0;
}

/* Without patience: for whoever keeps the interpreter's lock. */
static int look_for(fs_lock_word *word, uint64_t me)
{
    uint64_t start = fs_ticks();
    if (fs_look_credit(start, 1) == 0) return -EBUSY;
    int taken = spin_for(word, me);
    fs_look_ended(start, taken);
    return taken ? 0 : -EBUSY;
}

static void rest(unsigned round)
{
    const struct timespec nap = {0, LOCK_NAP_NS};
    if (round < LOCK_YIELDS) sched_yield();
    else nanosleep(&nap, NULL);
}

/* The owner leaves by a plain store, so a waiter looks again by itself instead of being woken: the lock is held
 * for one copy, contended only when threads or forked processes share one socket. */
static int lock_slowly(fs_lock_word *word, uint64_t me, uint64_t patience_ns)
{
    if (patience_ns == 0) return look_for(word, me);
    uint64_t start = fs_now_ns(), next_check = start + LOCK_SLICE_NS;
    for (unsigned round = 0;; round++) {
        if (spin_for(word, me)) return 0;
        uint64_t now = fs_now_ns();
        if (now >= next_check) {
            uint64_t owner = atomic_load(word);
            if (has_died(owner, me) && atomic_compare_exchange_strong(word, &owner, me)) return 0;
            next_check = now + LOCK_SLICE_NS;
        }
        if (now - start > patience_ns) return -EBUSY;
        rest(round);
    }
}

static int try_lock(fs_lock_word *word, uint64_t me)
{
    uint64_t nobody = 0;
    return atomic_compare_exchange_strong_explicit(word, &nobody, me, memory_order_acquire, memory_order_relaxed);
}

int fs_try_lock(fs_lock_word *word) { return try_lock(word, fs_thread_identity()); }

int fs_lock(fs_lock_word *word, uint64_t patience_ns)
{
    uint64_t me = fs_thread_identity();
    return try_lock(word, me) ? 0 : lock_slowly(word, me, patience_ns);
}

static int is_of_this_process(uint64_t owner, uint64_t me)
{
    return owner != 0 && owner != me && owner >> 32 == me >> 32 && tgkill(getpid(), (pid_t)(uint32_t)owner, 0) == 0;
}

int fs_await_owner(const fs_lock_word *word, uint64_t patience_ns)
{
    uint64_t owner = atomic_load(word), start = 0;
    if (!is_of_this_process(owner, fs_thread_identity())) return 0;
    for (unsigned round = 0; atomic_load(word) == owner; round++) {
        uint64_t now = fs_now_ns();
        if (start == 0) start = now;
        if (now - start > patience_ns) return -EBUSY;
        rest(round);
    }
    return 0;
}

void fs_unlock(fs_lock_word *word) { atomic_store_explicit(word, 0, memory_order_release); }
