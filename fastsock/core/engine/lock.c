/* The engine's lock: held for short, taken again and again by whoever waits busily, so that others must be let in.
 * Nobody waits for it with the lock of an interpreter: a thread gives that up first, and takes it back behind the end of
 * what it wanted the engine for. */
#include <sched.h>
#include <stddef.h>

#include "internal.h"

#define PAUSES 64
#define NAP_NS 1000000ull

static struct fs_interpreter interpreter;

void fs_engines_heed_interpreter(void *(*leave)(void), void (*enter)(void *left))
{
    interpreter = (struct fs_interpreter){leave, enter};
}

/* What was left by it. */
static void *wait_for(struct fs_engine *engine, void *(*leave)(void))
{
    void *left = NULL;
    atomic_fetch_add(&engine->contenders, 1);
    for (int i = 0; !fs_engine_try_lock(engine); i++) {
        if (i < PAUSES) {
            fs_pause();
            continue;
        }
        if (i == PAUSES && leave) {
            left = leave();
            continue;
        }
        uint32_t taken = 1; /* 2: somebody sleeps on it */
        if (!atomic_compare_exchange_strong(&engine->lock, &taken, 2) && taken != 2) continue;
        fs_futex_wait(&engine->lock, 2, NAP_NS);
    }
    atomic_fetch_sub(&engine->contenders, 1);
    return left;
}

void fs_engine_lock_slowly(struct fs_engine *engine)
{
    void *left = wait_for(engine, interpreter.leave);
    engine->left = left;
}

void fs_engine_lock_to_fork(struct fs_engine *engine)
{
    if (!fs_engine_try_lock(engine)) wait_for(engine, NULL);
}

void fs_engine_unlock(struct fs_engine *engine)
{
    struct fs_request *settled = engine->settled;
    void *left = engine->left;
    engine->settled = NULL;
    engine->left = NULL;
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
    if (left) interpreter.enter(left); /* the last: the thread may end here, with the interpreter */
}
