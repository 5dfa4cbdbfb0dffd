/* How requests complete, and wake who waits for them. */
#include <unistd.h>

#include "internal.h"
#include "verbs/ibvx.h"

#define PATIENCE_NS 250000000ull /* for what may still come after a member has failed */

void fs_wake(struct fs_engine *engine)
{
    atomic_fetch_add(&engine->events, 1);
    if (atomic_load(&engine->sleepers) != 0) fs_futex_wake_all(&engine->events);
    if (atomic_load(&engine->asleep) != 0 && atomic_exchange(&engine->asleep, 0) != 0) {
        uint64_t one = 1;
        if (write(engine->kick, &one, sizeof one) < 0) return; /* full: awake all the same */
    }
}

void fs_collective_is_ready(struct fs_engine *engine, struct fs_collective *collective)
{
    collective->waits = 0;
    collective->next_ready = NULL;
    if (engine->ready_last) engine->ready_last->next_ready = collective;
    else engine->ready_first = collective;
    engine->ready_last = collective;
    atomic_store(&engine->ready, engine->ready + 1);
    if (atomic_load(&engine->sleepers) != 0 || atomic_load(&engine->asleep) != 0) fs_wake(engine);
}

void fs_collective_is_doomed(struct fs_engine *engine, struct fs_collective *collective)
{
    if (collective->patient_until != 0) return;
    collective->patient_until = fs_now_ns() + PATIENCE_NS;
    if (atomic_load(&engine->patient_until) == 0) atomic_store(&engine->patient_until, collective->patient_until);
}

void fs_doom_later(struct fs_engine *engine)
{
    if (!engine->has_collectives || engine->doomed_at != 0) return;
    engine->doomed_at = fs_now_ns() + PATIENCE_NS;
    if (atomic_load(&engine->patient_until) == 0) atomic_store(&engine->patient_until, engine->doomed_at);
}

static void wake_awaited(struct fs_engine *engine, struct fs_request *request)
{
    struct fs_collective *collective = request->awaited_by;
    request->awaited_by = NULL;
    if (collective && --collective->missing == 0) fs_collective_is_ready(engine, collective);
}

static void count_received(struct fs_engine *engine, const struct fs_request *request)
{
    fs_count(&engine->shown->messages_in, 1);
    fs_count(&engine->shown->bytes_in, request->envelope.length);
}

void fs_complete(struct fs_engine *engine, struct fs_request *request, int error)
{
    request->error = error;
    request->state = FS_IDLE;
    if (request->kind == FS_RECEIVING && error == FS_FINE && !request->cancelled) count_received(engine, request);
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
    struct fs_request *awaited = request->awaited_by ? request : NULL; /* then it is a collective's, and stays */
    atomic_store(&request->done, 1);                                   /* the caller may be gone with it from here on */
    if (awaited) wake_awaited(engine, awaited);
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
