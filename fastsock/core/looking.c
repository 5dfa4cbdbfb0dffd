#include "looking.h"

#include <pthread.h>
#include <stddef.h>

#define MOST_AT_ONCE_US 1000.0 /* that time unused in looks may add up to, and so the longest look */
#define MOST_OWED_US 100000.0  /* by looks that took longer than they were to: their thread did not run */
#define CONTENDED_US 1000.0    /* getting the lock back took this long: another thread computes */
#define PATIENT_SHARE 0.05     /* of that time is worth looking before the lock is given up again */
#define FAIR_SHARE 0.08        /* of the time that thread just had, so that it loses less than a tenth */

struct fs_looking fs_looking;
static _Atomic(int (*)(void)) is_alone;

static uint64_t ticks_of(double us) { return (uint64_t)(us * fs_ticks_per_us()); }

/* None of the threads that looked, or compute, is in the child. */
static void forget(void)
{
    atomic_store(&fs_looking.paid_until, fs_ticks());
    atomic_store(&fs_looking.spent, 0);
    fs_lock_is_free();
}

__attribute__((constructor)) static void heed_forks(void) { pthread_atfork(NULL, NULL, forget); }

void fs_look_configure(double longest_us, int (*alone)(void))
{
    atomic_store(&is_alone, alone);
    atomic_store(&fs_looking.longest, ticks_of(longest_us));
}

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

uint64_t fs_look_patience(uint64_t now)
{
    uint64_t until = atomic_load_explicit(&fs_looking.hold_until, memory_order_relaxed);
    return now < until ? least(atomic_load_explicit(&fs_looking.patience, memory_order_relaxed), until - now) : 0;
}

uint64_t fs_look_credit(uint64_t now, uint64_t wanted)
{
    uint64_t most = ticks_of(MOST_AT_ONCE_US);
    int64_t owed = (int64_t)(atomic_load_explicit(&fs_looking.paid_until, memory_order_relaxed) - now);
    if (owed <= 0) return least(wanted, most);
    uint64_t left = least((uint64_t)owed / FS_LOOK_SHARE + 1, most);
    return least(wanted, most - left);
}

uint64_t fs_look_afford(uint64_t now, uint64_t wanted)
{
    uint64_t credit = fs_look_credit(now, wanted);
    atomic_store_explicit(&fs_looking.at_once, ticks_of(MOST_AT_ONCE_US), memory_order_relaxed);
    int (*alone)(void) = atomic_load_explicit(&is_alone, memory_order_relaxed);
    if (credit == wanted || alone == NULL || !alone()) return credit;
    atomic_store_explicit(&fs_looking.paid_until, now, memory_order_relaxed); /* nobody was kept waiting */
    return wanted;
}

void fs_look_charge(uint64_t start, uint64_t end)
{
    uint64_t before = atomic_load_explicit(&fs_looking.paid_until, memory_order_relaxed), until;
    do {
        until = ((int64_t)(before - start) > 0 ? before : start) + FS_LOOK_SHARE * (end - start);
        uint64_t last = end + FS_LOOK_SHARE * ticks_of(MOST_OWED_US);
        if ((int64_t)(until - last) > 0) until = last;
    } while (!atomic_compare_exchange_weak(&fs_looking.paid_until, &before, until));
    atomic_fetch_add_explicit(&fs_looking.spent, end - start, memory_order_relaxed);
}

uint64_t fs_lock_wait_ends(const struct fs_lock_wait *wait)
{
    uint64_t took = fs_ticks() - wait->since, contended = ticks_of(CONTENDED_US);
    if (took <= contended) return 0;
    uint64_t looks = fs_looked() - wait->spent;
    took -= least(looks, took);
    return took > contended ? took : 0;
}

void fs_lock_is_contended(uint64_t took)
{
    atomic_store(&fs_looking.hold_until, fs_ticks() + (uint64_t)(FAIR_SHARE * (double)took));
    atomic_store(&fs_looking.patience, (uint64_t)(PATIENT_SHARE * (double)took));
    atomic_store(&fs_looking.contended, 1);
}

void fs_lock_is_free(void) { atomic_store(&fs_looking.contended, 0); }
