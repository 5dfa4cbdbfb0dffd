/* What has become of a context: it was revoked; or it goes on without ranks that failed. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

static struct fs_fate *find(const struct fs_engine *engine, uint32_t context)
{
    struct fs_fate *fate = engine->fates;
    while (fate && fate->context != context) fate = fate->next;
    return fate;
}

struct fs_fate *fs_fate_of(struct fs_engine *engine, uint32_t context)
{
    struct fs_fate *fate = find(engine, context);
    if (fate || !(fate = calloc(1, sizeof *fate))) return fate;
    fate->context = context;
    fate->next = engine->fates;
    engine->fates = fate;
    return fate;
}

int fs_has_been_revoked(const struct fs_engine *engine, uint32_t context)
{
    const struct fs_fate *fate = find(engine, context);
    return fate && fate->revoked;
}

int fs_ending(const struct fs_engine *engine, uint32_t context)
{
    if (fs_is_revoked(engine, context)) return FS_CONTEXT_REVOKED;
    if (!engine->has_collectives || context % 2 == 0 || context >= FS_APART) return FS_FINE;
    return fs_failed_member(engine, context, 1) == FS_ANY ? FS_FINE : FS_PEER_FAILED;
}

int fs_failed_member(const struct fs_engine *engine, uint32_t context, int all)
{
    if (engine->failures == 0) return FS_ANY;
    const struct fs_fate *fate = all ? NULL : find(engine, context);
    const uint32_t known = fate ? fate->acknowledged : 0;
    for (int rank = 0; rank < fs_peer_count(engine); rank++) {
        const struct fs_peer *peer = &engine->peers[rank];
        if (peer->state == FS_FAILED && peer->failure > known && fs_is_member(engine, context, rank)) return rank;
    }
    return FS_ANY;
}

/* ---- for callers ---- */

int fs_engine_is_revoked(struct fs_engine *engine, uint32_t context)
{
    if (atomic_load_explicit(&engine->revoked, memory_order_relaxed) == 0) return 0;
    fs_engine_lock(engine);
    int revoked = fs_is_revoked(engine, context);
    fs_engine_unlock(engine);
    return revoked;
}

uint32_t fs_engine_failure(struct fs_engine *engine, int peer)
{
    if (!fs_is_peer(engine, peer)) return 0;
    fs_engine_lock(engine);
    uint32_t failure = engine->peers[peer].state == FS_FAILED ? engine->peers[peer].failure : 0;
    fs_engine_unlock(engine);
    return failure;
}

int fs_engine_failed_member(struct fs_engine *engine, uint32_t context)
{
    fs_engine_lock(engine);
    int failed = fs_failed_member(engine, context, 1);
    fs_engine_unlock(engine);
    return failed;
}

int fs_engine_acknowledge(struct fs_engine *engine, uint32_t context, uint32_t failure)
{
    fs_engine_lock(engine);
    struct fs_fate *fate = fs_fate_of(engine, context);
    if (fate && fate->acknowledged < failure) fate->acknowledged = failure;
    fs_engine_unlock(engine);
    return fate ? 0 : -ENOMEM;
}

void fs_engine_has_collectives(struct fs_engine *engine) { engine->has_collectives = 1; }

void fs_engine_forget_fate(struct fs_engine *engine, uint32_t context)
{
    if (atomic_load_explicit(&engine->fates, memory_order_relaxed) == NULL) return;
    fs_engine_lock(engine);
    struct fs_fate *before = NULL, *fate = engine->fates;
    while (fate && fate->context != context) {
        before = fate;
        fate = fate->next;
    }
    if (fate && before) before->next = fate->next;
    else if (fate) engine->fates = fate->next;
    if (fate) atomic_fetch_sub(&engine->revoked, fate->revoked);
    fs_engine_unlock(engine);
    free(fate);
}
