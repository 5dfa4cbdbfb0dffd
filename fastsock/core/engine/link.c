/* All links of an engine, and what a sleeper must watch. */
#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "stream/end.h"
#include "switch/leave.h"
#include "verbs/ibvx.h"

#define POLLED_AT_ONCE 64

struct fs_link *fs_link_new(int peer, const struct fs_link_calls *calls, int descriptor)
{
    struct fs_link *link = calloc(1, sizeof *link);
    if (!link) return NULL;
    link->calls = calls;
    link->peer = peer;
    link->descriptor = descriptor;
    link->open = 1;
    link->fetch_from = SIZE_MAX;
    return link;
}

void fs_link_free(struct fs_link *link)
{
    if (link->end) fs_end_free(link->end);
    if (link->pair) fs_ibvx_pair_free(link->pair);
    free(link->meeting);
    fs_guard_close(&link->guard);
    free(link->control);
    free(link->out_copy);
    free(link->stage);
    free(link->staging);
    free(link);
}

const char *fs_link_path(const struct fs_link *link) { return link->calls->path; }

static int has_output(const struct fs_link *link)
{
    if (!atomic_load_explicit(&link->pending, memory_order_relaxed)) return 0;
    return link->calls->has_room(link);
}

int fs_links_have_work(const struct fs_engine *engine)
{
    for (int i = 0; i < fs_links_count(engine); i++) {
        const struct fs_link *link = engine->links[i];
        if (link->calls->has_input(link) && fs_link_is_open(link)) return 1;
        if (has_output(link) && fs_link_is_open(link)) return 1;
        if (atomic_load_explicit(&link->hung_up, memory_order_relaxed) && fs_link_is_open(link)) return 1;
    }
    return 0;
}

int fs_links_are_near(const struct fs_engine *engine)
{
    int count = fs_links_count(engine), near = 0;
    for (int i = 0; i < count; i++) {
        const struct fs_link *link = engine->links[i];
        if (!fs_link_is_open(link) || !link->calls->is_near) continue;
        if (!link->calls->is_near(link)) return 0;
        near = 1;
    }
    return near;
}

int fs_links_watch(struct fs_engine *engine, struct pollfd *list, int most)
{
    int count = 0;
    for (int i = 0; i < fs_links_count(engine); i++) {
        struct fs_link *link = engine->links[i];
        if (!fs_link_is_open(link)) continue;
        if (count == most || link->hung_up || link->pushing) return -1;
        if (link->sharing ? !link->share_waits : link->fetches.first != NULL) return -1;
        if (link->calls->watch(link, &list[count++])) return -1;
    }
    return count;
}

/* Without the lock: a link may be closed meanwhile, and its number be another file's; then the look was in vain. */
void fs_links_look(struct fs_engine *engine)
{
    int count = fs_links_count(engine);
    for (int from = 0; from < count; from += POLLED_AT_ONCE) {
        struct pollfd list[POLLED_AT_ONCE];
        unsigned here = count - from < POLLED_AT_ONCE ? (unsigned)(count - from) : POLLED_AT_ONCE;
        fs_engine_lock(engine);
        for (unsigned i = 0; i < here; i++) {
            struct fs_link *link = engine->links[(unsigned)from + i];
            list[i] = (struct pollfd){fs_link_is_open(link) ? link->descriptor : -1, POLLRDHUP, 0};
        }
        if (poll(list, here, 0) > 0)
            for (unsigned i = 0; i < here; i++)
                if (list[i].revents) atomic_store(&engine->links[(unsigned)from + i]->hung_up, 1);
        fs_engine_unlock(engine);
    }
}

void fs_link_abandon_descriptor(struct fs_link *link)
{
    if (fs_link_is_open(link) && link->connection) fs_leave_descriptor(link->descriptor); /* the parent has it still */
    if (fs_link_is_open(link)) close(link->descriptor);
    atomic_store(&link->open, 0);
}

int fs_link_attach(struct fs_engine *engine, struct fs_link *link)
{
    if (!fs_is_peer(engine, link->peer) || link->peer == engine->rank) return -EINVAL;
    fs_engine_lock(engine);
    struct fs_peer *peer = &engine->peers[link->peer];
    int error = 0;
    if (atomic_load(&engine->closed)) error = -EPIPE;
    else if (peer->state == FS_LINKED || peer->state == FS_LOCAL) error = -EEXIST;
    else if (peer->state != FS_MISSING) error = -EPIPE;
    else if (!engine->stamps && !fs_stamps_new(engine)) error = -ENOMEM;
    if (error) {
        fs_engine_unlock(engine);
        return error;
    }
    peer->state = FS_LINKED;
    peer->link = link;
    link->sends = peer->waiting;
    peer->waiting = (struct fs_queue){NULL, NULL};
    engine->descriptor_links += link->staging != NULL;
    engine->links[atomic_load(&engine->link_count)] = link;
    atomic_fetch_add_explicit(&engine->link_count, 1, memory_order_release);
    fs_link_greet(engine, link);
    fs_wake(engine); /* whoever sleeps watches it too */
    fs_engine_unlock(engine);
    return 0;
}
