/* The other ranks: those of other jobs, those of this process, those given up, and why. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

/* ---- all of them ---- */

static size_t room(const struct fs_engine *engine) { return (size_t)engine->size + FS_MOST_OTHERS; }

/* Memory that is used only as far as there are peers. */
static void *reserve(size_t size)
{
    void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return found == MAP_FAILED ? NULL : found;
}

int fs_peers_reserve(struct fs_engine *engine)
{
    engine->peers = reserve(room(engine) * sizeof *engine->peers);
    engine->links = reserve(room(engine) * sizeof(struct fs_link *));
    if (!engine->peers || !engine->links) {
        fs_peers_free(engine);
        return -ENOMEM;
    }
    for (int rank = 0; rank < engine->size; rank++) engine->peers[rank].calls_itself = rank;
    atomic_store_explicit(&engine->peer_count, engine->size, memory_order_release);
    return 0;
}

void fs_peers_free(struct fs_engine *engine)
{
    for (int i = 0; i < fs_peer_count(engine); i++) free(engine->peers[i].reason);
    if (engine->peers) munmap(engine->peers, room(engine) * sizeof *engine->peers);
    if (engine->links) munmap((void *)engine->links, room(engine) * sizeof(struct fs_link *));
}

int fs_engine_add_peers(struct fs_engine *engine, const int *ranks, size_t count)
{
    fs_engine_lock(engine);
    const int first = fs_peer_count(engine);
    if (count > room(engine) - (size_t)first) {
        fs_engine_unlock(engine);
        return -ENOSPC;
    }
    for (size_t i = 0; i < count; i++) engine->peers[(size_t)first + i].calls_itself = ranks[i];
    atomic_store_explicit(&engine->peer_count, first + (int)count, memory_order_release);
    fs_engine_unlock(engine);
    return first;
}

/* ---- ranks of this process ---- */

int fs_engine_attach_local(struct fs_engine *engine, int peer, struct fs_engine *other)
{
    if (!fs_is_peer(engine, peer) || peer == engine->rank || other->rank != peer) return -EINVAL;
    fs_engine_lock(engine);
    struct fs_peer *to = &engine->peers[peer];
    if (to->state != FS_MISSING) {
        int error = fs_has_failed(engine, peer) ? -EPIPE : -EEXIST;
        fs_engine_unlock(engine);
        return error;
    }
    fs_engine_unlock(engine);
    fs_engine_hold(other);
    for (;;) { /* later sends queue up behind those that waited until none is left */
        fs_engine_lock(engine);
        struct fs_request *request = to->waiting.first;
        if (!request || to->state != FS_MISSING) break;
        fs_queue_remove(&to->waiting, request);
        request->state = FS_BEGINNING; /* nobody else's business meanwhile */
        fs_engine_unlock(engine);
        if (fs_local_send(engine, request, other) == FS_PENDING) continue;
        fs_engine_lock(engine);
        fs_complete(engine, request, request->error);
        fs_engine_unlock(engine);
    }
    int attached = to->state == FS_MISSING;
    if (attached) {
        to->local = other;
        to->state = FS_LOCAL;
        to->was_local = 1;
        atomic_store_explicit(&engine->has_local, 1, memory_order_relaxed);
    }
    fs_engine_unlock(engine);
    if (!attached) fs_engine_release(other);
    return attached ? 0 : -EPIPE;
}

/* Tells an engine of this process that this one is done with it, and releases both from each other. */
static void part(struct fs_engine *engine, struct fs_engine *other, int error, const char *reason)
{
    fs_engine_lock(other);
    struct fs_engine *held = other->peers[engine->rank].local;
    other->peers[engine->rank].local = NULL;
    fs_peer_lost(other, engine->rank, error, reason);
    fs_engine_unlock(other);
    if (held) fs_engine_release(held);
    fs_engine_release(other);
}

void fs_leave_local_peers(struct fs_engine *engine)
{
    for (int rank = 0; rank < fs_peer_count(engine); rank++) {
        fs_engine_lock(engine);
        struct fs_engine *other = engine->peers[rank].local;
        engine->peers[rank].local = NULL;
        if (other) engine->peers[rank].state = FS_LEFT;
        fs_engine_unlock(engine);
        if (other) part(engine, other, FS_FINE, "it has finished");
    }
}

/* ---- failing ---- */

void fs_engine_fail(struct fs_engine *engine, int peer, const char *reason)
{
    if (!fs_is_peer(engine, peer) || peer == engine->rank || !fs_engine_is_usable(engine)) return;
    fs_engine_lock(engine);
    struct fs_engine *other = engine->peers[peer].local;
    engine->peers[peer].local = NULL;
    fs_peer_lost(engine, peer, FS_PEER_FAILED, reason);
    fs_engine_unlock(engine);
    if (other) part(engine, other, FS_PEER_FAILED, "it has given this rank up");
}

void fs_engine_left(struct fs_engine *engine, int peer)
{
    if (!fs_is_peer(engine, peer) || peer == engine->rank || !fs_engine_is_usable(engine)) return;
    fs_engine_lock(engine);
    if (engine->peers[peer].state == FS_MISSING) fs_peer_lost(engine, peer, FS_FINE, "it has finished");
    fs_engine_unlock(engine);
}

int fs_engine_reason(struct fs_engine *engine, int peer, char *reason, size_t reason_size, const char **path)
{
    *path = "";
    reason[0] = 0;
    if (!fs_is_peer(engine, peer)) return 0;
    fs_engine_lock(engine);
    const struct fs_peer *about = &engine->peers[peer];
    if (about->link) *path = fs_link_path(about->link);
    else if (about->state == FS_LOCAL || about->was_local) *path = "this process's memory";
    if (about->reason) {
        strncpy(reason, about->reason, reason_size - 1);
        reason[reason_size - 1] = 0;
    }
    fs_engine_unlock(engine);
    return reason[0] != 0 || **path != 0;
}
