/* All links of an engine: their rounds of progress, and what a sleeper must watch. */
#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "stream/end.h"

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
    fs_guard_close(link);
    free(link->control);
    free(link->out_copy);
    free(link->staging);
    free(link);
}

const char *fs_link_path(const struct fs_link *link) { return link->calls->path; }

static int count_of(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->link_count, memory_order_acquire);
}

static int is_open(const struct fs_link *link) { return atomic_load_explicit(&link->open, memory_order_relaxed); }

static int has_output(const struct fs_link *link)
{
    if (!atomic_load_explicit(&link->pending, memory_order_relaxed)) return 0;
    return link->calls->has_room(link);
}

int fs_links_have_work(const struct fs_engine *engine)
{
    for (int i = 0; i < count_of(engine); i++) {
        const struct fs_link *link = engine->links[i];
        if (link->calls->has_input(link) && is_open(link)) return 1;
        if (has_output(link) && is_open(link)) return 1;
        if (atomic_load_explicit(&link->hung_up, memory_order_relaxed) && is_open(link)) return 1;
    }
    return 0;
}

/* One question to the kernel about all of them instead of one each. */
static void ask_descriptors(struct fs_engine *engine)
{
    struct pollfd list[POLLED_AT_ONCE];
    struct fs_link *asked[POLLED_AT_ONCE];
    nfds_t count = 0;
    for (int i = 0; i < count_of(engine); i++) {
        struct fs_link *link = engine->links[i];
        if (!link->staging || !is_open(link)) continue;
        link->ready = count == POLLED_AT_ONCE;
        if (link->ready) continue;
        short events = POLLIN | (atomic_load_explicit(&link->pending, memory_order_relaxed) ? POLLOUT : 0);
        asked[count] = link;
        list[count++] = (struct pollfd){link->descriptor, events, 0};
    }
    if (count == 0 || poll(list, count, 0) <= 0) return;
    for (nfds_t i = 0; i < count; i++) asked[i]->ready = list[i].revents != 0;
}

int fs_links_progress(struct fs_engine *engine)
{
    int done = 0, count = count_of(engine);
    if (engine->descriptor_links > 1) ask_descriptors(engine);
    for (int i = 0; i < count; i++) {
        struct fs_link *link = engine->links[i];
        if (!is_open(link)) continue;
        if (link->calls->has_input(link)) done += fs_link_take(engine, link);
        if (is_open(link) && link->sharing) done += fs_share_some(engine, link);
        if (is_open(link) && link->fetches.first) done += fs_fetch_some(engine, link);
        if (is_open(link) && link->pushing) done += fs_push_some(engine, link);
        if (is_open(link) && atomic_load_explicit(&link->pending, memory_order_relaxed)) done += fs_link_flush(engine, link);
        /* what came before the hang-up is read first */
        if (is_open(link) && link->hung_up && !link->calls->has_input(link)) {
            fs_peer_lost(engine, link->peer, FS_PEER_FAILED, "the peer died or closed its end without a goodbye");
            done++;
        }
    }
    return done;
}

int fs_links_are_near(const struct fs_engine *engine)
{
    int count = count_of(engine), near = 0;
    for (int i = 0; i < count; i++) {
        const struct fs_link *link = engine->links[i];
        if (!is_open(link) || !link->calls->is_near) continue;
        if (!link->calls->is_near(link)) return 0;
        near = 1;
    }
    return near;
}

int fs_links_watch(struct fs_engine *engine, struct pollfd *list, int most)
{
    int count = 0;
    for (int i = 0; i < count_of(engine); i++) {
        struct fs_link *link = engine->links[i];
        if (!is_open(link)) continue;
        if (count == most || link->hung_up || link->pushing) return -1;
        if (link->sharing ? !link->share_waits : link->fetches.first != NULL) return -1;
        if (link->calls->watch(link, &list[count++])) return -1;
    }
    return count;
}

/* Without the lock: a link may be closed meanwhile, and its number be another file's; then the look was in vain. */
void fs_links_look(struct fs_engine *engine)
{
    int count = count_of(engine);
    for (int from = 0; from < count; from += POLLED_AT_ONCE) {
        struct pollfd list[POLLED_AT_ONCE];
        unsigned here = count - from < POLLED_AT_ONCE ? (unsigned)(count - from) : POLLED_AT_ONCE;
        fs_engine_lock(engine);
        for (unsigned i = 0; i < here; i++) {
            struct fs_link *link = engine->links[(unsigned)from + i];
            list[i] = (struct pollfd){is_open(link) ? link->descriptor : -1, POLLRDHUP, 0};
        }
        if (poll(list, here, 0) > 0)
            for (unsigned i = 0; i < here; i++)
                if (list[i].revents) atomic_store(&engine->links[(unsigned)from + i]->hung_up, 1);
        fs_engine_unlock(engine);
    }
}

void fs_link_abandon_descriptor(struct fs_link *link)
{
    if (is_open(link)) close(link->descriptor);
    atomic_store(&link->open, 0);
}

int fs_link_attach(struct fs_engine *engine, struct fs_link *link)
{
    if (link->peer < 0 || link->peer >= engine->size || link->peer == engine->rank) return -EINVAL;
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
