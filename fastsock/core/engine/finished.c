/* Completed requests that have an owner, until they are handed to it. */
#include <stddef.h>

#include "internal.h"

int fs_engine_has_finished(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->finished, memory_order_relaxed) != 0;
}

struct fs_request *fs_engine_finished(struct fs_engine *engine)
{
    if (!fs_engine_has_finished(engine)) return NULL;
    fs_engine_lock(engine);
    struct fs_request *request = engine->finished_first;
    if (request) {
        engine->finished_first = request->next;
        if (!request->next) engine->finished_last = NULL;
        request->next = NULL;
        atomic_store_explicit(&engine->finished, engine->finished - 1, memory_order_relaxed);
        if (request->has_callback) atomic_fetch_sub(&engine->finished_callbacks, 1);
    }
    fs_engine_unlock(engine);
    return request;
}

int fs_engine_set_callback(struct fs_engine *engine, struct fs_request *request)
{
    fs_engine_lock(engine);
    int pending = !atomic_load(&request->done);
    if (pending) request->has_callback = 1;
    fs_engine_unlock(engine);
    return pending;
}
