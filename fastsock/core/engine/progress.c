/* A round of what is under way on all links. */
#define _GNU_SOURCE
#include <poll.h>

#include "link.h"

#define POLLED_AT_ONCE 64

/* One question to the kernel about all of them instead of one each. */
static void ask_descriptors(struct fs_engine *engine)
{
    struct pollfd list[POLLED_AT_ONCE];
    struct fs_link *asked[POLLED_AT_ONCE];
    nfds_t count = 0;
    for (int i = 0; i < fs_links_count(engine); i++) {
        struct fs_link *link = engine->links[i];
        if (!link->staging || !fs_link_is_open(link)) continue;
        link->ready = count == POLLED_AT_ONCE;
        if (link->ready) continue;
        short events = POLLIN | (atomic_load_explicit(&link->pending, memory_order_relaxed) ? POLLOUT : 0);
        asked[count] = link;
        list[count++] = (struct pollfd){link->descriptor, events, 0};
    }
    int found = count ? poll(list, count, 0) : 0;
    if (found == 0) return;
    for (nfds_t i = 0; i < count; i++) asked[i]->ready = found < 0 || list[i].revents != 0;
}

/* Of several descriptors, only those are read that the kernel named. */
static int has_input(const struct fs_engine *engine, const struct fs_link *link)
{
    if (link->staging && engine->descriptor_links > 1 && !link->ready && link->staged == 0) return 0;
    return link->calls->has_input(link);
}

int fs_links_progress(struct fs_engine *engine)
{
    int done = 0, count = fs_links_count(engine);
    if (engine->descriptor_links > 1) ask_descriptors(engine);
    for (int i = 0; i < count; i++) {
        struct fs_link *link = engine->links[i];
        if (!fs_link_is_open(link)) continue;
        if (has_input(engine, link)) done += fs_link_take(engine, link);
        if (fs_link_is_open(link) && link->sharing) done += fs_share_some(engine, link);
        if (fs_link_is_open(link) && link->fetches.first) done += fs_fetch_some(engine, link);
        if (fs_link_is_open(link) && link->pair) done += fs_transfer_some(engine, link);
        if (fs_link_is_open(link) && link->pushing) done += fs_push_some(engine, link);
        if (fs_link_is_open(link) && atomic_load_explicit(&link->pending, memory_order_relaxed))
            done += fs_link_flush(engine, link);
        /* what came before the hang-up is read first */
        if (fs_link_is_open(link) && link->hung_up && !link->calls->has_input(link)) {
            fs_link_ended(engine, link);
            done++;
        }
    }
    return done;
}

/* Who only tests, and never waits, must hear of a hang-up too. */
static void look_now_and_then(struct fs_engine *engine)
{
    uint32_t idle = atomic_load_explicit(&engine->idle, memory_order_relaxed) + 1;
    atomic_store_explicit(&engine->idle, idle, memory_order_relaxed);
    if (idle % FS_IDLE_ROUNDS == 0) fs_links_look(engine);
}

int fs_links_round(struct fs_engine *engine)
{
    if (!fs_engine_is_usable(engine)) return 0;
    if (!fs_links_have_work(engine)) {
        look_now_and_then(engine);
        return 0;
    }
    fs_engine_lock(engine);
    int done = fs_links_progress(engine);
    fs_engine_unlock(engine);
    return done;
}
