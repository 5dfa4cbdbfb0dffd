/* The engines of this process, and who holds them. */
#include <pthread.h>
#include <stddef.h>

#include "internal.h"

struct fs_engines fs_engines = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fs_engine_register(struct fs_engine *engine)
{
    pthread_mutex_lock(&fs_engines.lock);
    engine->next = fs_engines.first;
    if (fs_engines.first) fs_engines.first->previous = engine;
    fs_engines.first = engine;
    fs_engines.changes++;
    pthread_mutex_unlock(&fs_engines.lock);
}

void fs_engine_hold(struct fs_engine *engine) { atomic_fetch_add(&engine->holders, 1); }

/* One hold less; whether it was the last, and nothing else knows it. */
static int drop(struct fs_engine *engine)
{
    int holders = atomic_load(&engine->holders);
    while (holders > 1)
        if (atomic_compare_exchange_weak(&engine->holders, &holders, holders - 1)) return 0;
    pthread_mutex_lock(&fs_engines.lock); /* nobody takes one more from the list while this is the last */
    int last = atomic_fetch_sub(&engine->holders, 1) == 1;
    if (last) {
        if (engine->previous) engine->previous->next = engine->next;
        else fs_engines.first = engine->next;
        if (engine->next) engine->next->previous = engine->previous;
        fs_engines.changes++;
    }
    pthread_mutex_unlock(&fs_engines.lock);
    return last;
}

void fs_engine_release(struct fs_engine *engine)
{
    if (drop(engine)) engine->free(engine);
}

int fs_engine_is_usable(const struct fs_engine *engine)
{
    return !atomic_load_explicit(&engine->closed, memory_order_relaxed) && engine->generation == fs_generation();
}

int fs_engine_only_local(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->link_count, memory_order_relaxed) == 0;
}
