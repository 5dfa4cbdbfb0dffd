/* The engines of this process, and a fork in any thread: a child finds their locks free, and what they guard as it should
 * be.  Who has an engine's lock may let go of another engine, so nobody waits for one with the list's lock. */
#include <pthread.h>
#include <stddef.h>

#include "internal.h"

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER; /* `held` is its owner's */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fs_engine *engines, *held;
static uint64_t changes; /* of the list, under its lock */

/* Takes the list's lock; whether the list is still as it was. */
static int hold_all(void)
{
    pthread_mutex_lock(&list_lock);
    uint64_t seen = changes;
    for (struct fs_engine *engine = engines; engine; engine = engine->next) {
        fs_engine_hold(engine);
        engine->next_held = held;
        held = engine;
    }
    pthread_mutex_unlock(&list_lock);
    for (struct fs_engine *engine = held; engine; engine = engine->next_held) fs_engine_lock(engine);
    pthread_mutex_lock(&list_lock);
    return changes == seen;
}

static void release_all(void)
{
    pthread_mutex_unlock(&list_lock);
    while (held) {
        struct fs_engine *engine = held;
        held = engine->next_held;
        fs_engine_unlock(engine);
        fs_engine_release(engine);
    }
}

static void before_fork(void)
{
    pthread_mutex_lock(&forking);
    while (!hold_all()) release_all();
}

static void after_fork(void)
{
    release_all();
    pthread_mutex_unlock(&forking);
}

/* Called behind system.c's constructor: so these locks are taken before the process's, which who has one may wait for. */
static void heed_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void fs_engine_register(struct fs_engine *engine)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, heed_forks);
    pthread_mutex_lock(&list_lock);
    engine->next = engines;
    if (engines) engines->previous = engine;
    engines = engine;
    changes++;
    pthread_mutex_unlock(&list_lock);
}

int fs_engine_drop(struct fs_engine *engine)
{
    int holders = atomic_load(&engine->holders);
    while (holders > 1)
        if (atomic_compare_exchange_weak(&engine->holders, &holders, holders - 1)) return 0;
    pthread_mutex_lock(&list_lock); /* nobody takes one more from the list while this is the last */
    int last = atomic_fetch_sub(&engine->holders, 1) == 1;
    if (last) {
        if (engine->previous) engine->previous->next = engine->next;
        else engines = engine->next;
        if (engine->next) engine->next->previous = engine->previous;
        changes++;
    }
    pthread_mutex_unlock(&list_lock);
    return last;
}
