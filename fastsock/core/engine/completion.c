/* How requests complete, and wake who waits for them. */
#include <unistd.h>

#include "internal.h"
#include "verbs/ibvx.h"

void fs_wake(struct fs_engine *engine)
{
    atomic_fetch_add(&engine->events, 1);
    if (atomic_load(&engine->sleepers) != 0) fs_futex_wake_all(&engine->events);
    if (atomic_load(&engine->asleep) != 0 && atomic_exchange(&engine->asleep, 0) != 0) {
        uint64_t one = 1;
        if (write(engine->kick, &one, sizeof one) < 0) return; /* full: awake all the same */
    }
}

void fs_complete(struct fs_engine *engine, struct fs_request *request, int error)
{
    request->error = error;
    request->state = FS_IDLE;
    if (request->region) {
        fs_ibvx_forget(request->region);
        request->region = NULL;
    }
    if (request->tracked) {
        request->next = NULL;
        if (engine->finished_last) engine->finished_last->next = request;
        else engine->finished_first = request;
        engine->finished_last = request;
        atomic_store_explicit(&engine->finished, engine->finished + 1, memory_order_relaxed);
        if (request->has_callback) atomic_fetch_add(&engine->finished_callbacks, 1);
    }
    atomic_store(&request->done, 1); /* the caller may be gone with it from here on */
    if (atomic_load(&engine->sleepers) != 0 || atomic_load(&engine->asleep) != 0) fs_wake(engine);
}

void fs_complete_elsewhere(struct fs_engine *engine, struct fs_request *request, int error)
{
    if (request->engine == engine) {
        fs_complete(engine, request, error);
        fs_engine_release(engine); /* never the last hold: the caller has one */
        return;
    }
    request->error = error;
    request->next = engine->settled;
    engine->settled = request;
}
