/* The engine's lock: held for short, taken again and again by whoever waits busily, so that others must be let in. */
#include <sched.h>
#include <stddef.h>

#include "internal.h"

#define PAUSES 64
#define NAP_NS 1000000ull

void fs_engine_lock_slowly(struct fs_engine *engine)
{
    atomic_fetch_add(&engine->contenders, 1);
    for (int i = 0; !fs_engine_try_lock(engine); i++) {
        if (i < PAUSES) {
            fs_pause();
            continue;
        }
        uint32_t taken = 1; /* 2: somebody sleeps on it */
        if (!atomic_compare_exchange_strong(&engine->lock, &taken, 2) && taken != 2) continue;
        fs_futex_wait(&engine->lock, 2, NAP_NS);
    }
    atomic_fetch_sub(&engine->contenders, 1);
}

void fs_engine_unlock(struct fs_engine *engine)
{
    struct fs_request *settled = engine->settled;
    engine->settled = NULL;
    if (atomic_exchange_explicit(&engine->lock, 0, memory_order_release) == 2) fs_futex_wake_all(&engine->lock);
    while (settled) {
        struct fs_request *next = settled->next;
        struct fs_engine *sender = settled->engine;
        fs_engine_lock(sender);
        fs_complete(sender, settled, settled->error);
        fs_engine_unlock(sender); /* has nothing settled of its own: whoever held it before took that along */
        fs_engine_release(sender);
        settled = next;
    }
}
