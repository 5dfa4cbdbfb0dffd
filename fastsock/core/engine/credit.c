/* How much of other ranks may wait here: messages that came without a receive, and announcements of such. */
#include "link.h"

static void send_credit(struct fs_engine *engine, struct fs_link *link)
{
    link->credited = link->consumed;
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_CREDIT, 0, link->granted, link->consumed));
}

void fs_link_consumed(struct fs_engine *engine, struct fs_link *link, size_t length)
{
    link->consumed += fs_cost(length);
    if (link->consumed - link->credited >= engine->options.credit / 2) send_credit(engine, link);
}

int fs_link_credited(struct fs_link *link, uint64_t word)
{
    if (word - link->acknowledged > link->sent - link->acknowledged) return 0;
    link->acknowledged = word;
    if (link->sends.first) fs_link_set_pending(link);
    return 1;
}

/* By what it knows, the other end can announce nothing more. */
static int holds_back(const struct fs_engine *engine, const struct fs_link *link)
{
    return link->received - link->credited + fs_cost(0) > fs_most_unconsumed(engine) + link->granted;
}

/* Any number of sends may be under way, and the one that is waited for may be the last: where nothing but that can go on,
 * more are let in.  Their memory has an end all the same. */
static void let_in(struct fs_engine *engine, struct fs_link *link)
{
    uint64_t most = fs_most_unconsumed(engine);
    if (link->consumed != link->credited) link->credited = link->consumed;
    if (holds_back(engine, link)) link->granted += link->granted > most ? link->granted : most;
    if (link->granted > FS_MOST_GRANTED) {
        fs_peer_lost(engine, link->peer, FS_NO_MEMORY,
                     "too many messages of it wait here while another one is waited for");
        return;
    }
    send_credit(engine, link);
}

void fs_protocol_wanted(struct fs_engine *engine, int peer)
{
    if (!engine->oldest && !engine->matched) return; /* then nobody's credit is used up */
    for (int i = 0; i < atomic_load(&engine->link_count); i++) {
        struct fs_link *link = engine->links[i];
        if ((peer != FS_ANY && link->peer != peer) || !atomic_load(&link->open) || !holds_back(engine, link)) continue;
        let_in(engine, link);
        if (atomic_load(&link->open)) fs_link_flush(engine, link);
    }
}

/* It has just come, and no receive was there for it. */
void fs_unexpected(struct fs_engine *engine, struct fs_link *link, struct fs_message *message)
{
    fs_message_add(engine, message);
    if (holds_back(engine, link) && fs_waits_for(engine, link->peer)) let_in(engine, link);
}

void fs_protocol_consumed(struct fs_engine *engine, const struct fs_message *message)
{
    struct fs_peer *peer = &engine->peers[message->envelope.source];
    if (peer->state == FS_LOCAL && message->charged) peer->buffered -= fs_cost(message->envelope.length);
    if (peer->state != FS_LINKED) return;
    if (message->charged) fs_link_consumed(engine, peer->link, fs_charged_length(message));
    if (message->id) fs_link_control(engine, peer->link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, message->id, 0, 0));
    /* at once: the program may make no other call for long */
    if (peer->link->control_count) fs_link_flush(engine, peer->link);
}
