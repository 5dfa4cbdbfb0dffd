/* A fork in any thread: a child finds the locks of this process's engines free, and what they guard as it should be.  Who
 * has an engine's lock may let go of another engine, so nobody waits for one with the list's lock. */
#include <pthread.h>
#include <stddef.h>

#include "internal.h"

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER; /* `held` is its owner's */
static struct fs_engine *held;

/* Takes the list's lock; whether the list is still as it was. */
static int hold_all(void)
{
    pthread_mutex_lock(&fs_engines.lock);
    uint64_t seen = fs_engines.changes;
    for (struct fs_engine *engine = fs_engines.first; engine; engine = engine->next) {
        fs_engine_hold(engine);
        engine->next_held = held;
        held = engine;
    }
    pthread_mutex_unlock(&fs_engines.lock);
    for (struct fs_engine *engine = held; engine; engine = engine->next_held) fs_engine_lock_to_fork(engine);
    pthread_mutex_lock(&fs_engines.lock);
    return fs_engines.changes == seen;
}

static void release_all(void)
{
    pthread_mutex_unlock(&fs_engines.lock);
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

/* Called behind system.c's constructor: so these locks are taken before the process's: the holder of one of these may wait for the process's. */
static void heed_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void fs_engines_heed_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, heed_forks);
}
