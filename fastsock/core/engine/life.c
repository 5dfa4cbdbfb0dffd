/* An engine's life, from its making to its end. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static void free_engine(struct fs_engine *engine)
{
    while (engine->oldest) {
        struct fs_message *message = engine->oldest;
        fs_message_remove(engine, message);
        fs_message_free(message);
    }
    for (int i = 0; i < atomic_load(&engine->link_count); i++) fs_link_free(engine->links[i]);
    fs_verbs_close(engine);
    while (engine->members) {
        struct fs_members *next = engine->members->next;
        free(engine->members);
        engine->members = next;
    }
    while (engine->fates) {
        struct fs_fate *next = engine->fates->next;
        free(engine->fates);
        engine->fates = next;
    }
    if (engine->kick >= 0 && engine->generation == fs_generation()) close(engine->kick);
    if (engine->shown != &engine->unread) fs_shown_give(engine->shown);
    free((void *)engine->stamps);
    free(engine->slots);
    fs_peers_free(engine);
    free(engine);
}

struct fs_engine *fs_engine_new(int rank, int size, const struct fs_engine_options *options, int *error)
{
    *error = -EINVAL;
    if (size < 1 || rank < 0 || rank >= size) return NULL;
    *error = -ENOMEM;
    struct fs_engine *engine = aligned_alloc(_Alignof(struct fs_engine), sizeof *engine);
    if (!engine) return NULL;
    memset(engine, 0, sizeof *engine);
    engine->holders = 1;
    engine->rank = rank;
    engine->size = size;
    if (fs_peers_reserve(engine) != 0) {
        free(engine);
        return NULL;
    }
    engine->options = *options;
    engine->spin_ticks = (uint64_t)(options->spin_us * fs_ticks_per_us());
    engine->generation = fs_generation();
    engine->kick = -1;
    engine->shown = &engine->unread;
    engine->free = free_engine;
    engine->peers[rank].state = FS_LOCAL;
    fs_engines_heed_forks();
    fs_engine_register(engine);
    *error = 0;
    return engine;
}

void fs_engine_show(struct fs_engine *engine)
{
    if (engine->shown != &engine->unread) return;
    struct fs_shown_rank *shown = fs_shown_take_rank(engine->rank, engine->size);
    if (shown != NULL) engine->shown = shown;
}

void fs_engine_note_collective(struct fs_engine *engine) { fs_count(&engine->shown->collectives, 1); }

void fs_engine_after_fork(struct fs_engine *engine)
{
    for (int i = 0; i < atomic_load(&engine->link_count); i++) fs_link_abandon_descriptor(engine->links[i]);
    if (engine->kick >= 0) close(engine->kick);
    engine->kick = -1;
}

/* ---- its end ---- */

/* Ranks of another job hear from each other alone that one has finished: so the connection is waited for. */
static int is_to_be_told(const struct fs_engine *engine, int rank)
{
    const struct fs_peer *peer = &engine->peers[rank];
    return rank >= engine->size && peer->state == FS_MISSING && peer->asked;
}

int fs_engine_leave(struct fs_engine *engine)
{
    fs_links_look(engine); /* what a peer that is gone would have got never goes */
    fs_engine_progress(engine);
    int left = 1;
    fs_engine_lock(engine);
    for (int rank = 0; rank < fs_peer_count(engine); rank++) {
        struct fs_peer *peer = &engine->peers[rank];
        if (peer->state == FS_LINKED) left &= fs_link_leave(engine, peer->link);
        else
            left &= peer->waiting.first == NULL && !is_to_be_told(engine, rank); /* until it is attached, or given up */
    }
    fs_engine_unlock(engine);
    return left;
}

static void close_posted(struct fs_engine *engine, struct fs_queue *queue)
{
    while (queue->first) {
        struct fs_request *request = queue->first;
        fs_unpost(engine, request);
        fs_complete(engine, request, FS_CLOSED);
    }
}

void fs_engine_close(struct fs_engine *engine)
{
    int usable = fs_engine_is_usable(engine);
    if (atomic_exchange(&engine->closed, 1)) return;
    if (!usable) return; /* a child's copy: nothing of it is the child's */
    fs_leave_local_peers(engine);
    fs_engine_lock(engine);
    for (int rank = 0; rank < fs_peer_count(engine); rank++) {
        struct fs_peer *peer = &engine->peers[rank];
        if (peer->state == FS_LINKED) fs_link_goodbye(engine, peer->link);
        if (rank != engine->rank) fs_peer_lost(engine, rank, FS_CLOSED, FS_CLOSED_HERE);
        fs_lose_messages(engine, rank, 0);
    }
    for (uint32_t i = 0; i < FS_BUCKETS; i++) close_posted(engine, &engine->buckets[i].posted);
    close_posted(engine, &engine->posted_any);
    fs_wake(engine);
    fs_engine_unlock(engine);
    fs_collectives_close(engine);
}
