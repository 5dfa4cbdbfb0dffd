/* A link over the shared-memory ring of a connection.  The engine is the only one who uses this end: its lock is the
 * producer's and the consumer's. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "stream/end.h"
#include "switch/owned.h"
#include "link.h"

#define CHUNK (64u * 1024) /* published at once, so that both ends' copies overlap */
#define GAPS (16u * 1024)  /* the same of data with gaps: these take longer */
#define SHORTEST_TIMED (16u * 1024)
#define LAG (16u * 1024) /* bytes read before the other end hears of it, within a round */

static size_t length_of(const struct iovec *parts, int count)
{
    size_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    return length;
}

/* The length of the message whose bytes follow that frame. */
static size_t whole(const struct fs_request *request, const struct fs_frame *frame)
{
    return request && frame->kind == FS_FRAME_DATA ? request->envelope.length : (size_t)frame->length;
}

/* It may sleep, for bytes or for room. */
static void wake_other_end(const struct fs_link *link)
{
    if (link->connection) fs_owned_wake(link->connection, link->end, link->descriptor);
    else fs_doorbell_ring(link->end, link->descriptor, 1);
}

/* Before a sleep on the descriptor: 1: something has come. */
static int settle(const struct fs_link *link)
{
    if (link->connection) return fs_owned_settle(link->connection, link->end, link->descriptor);
    return fs_end_settle(link->end, link->descriptor, 0);
}

static int published(struct fs_link *link, size_t length)
{
    if (fs_ring_publish(&link->end->out, length) != 0) return -EPROTO; /* no rank lets go of a link's ring */
    wake_other_end(link);
    return 0;
}

static ssize_t end_write(struct fs_link *link, const struct iovec *parts, int count)
{
    struct fs_ring *ring = &link->end->out;
    size_t length = length_of(parts, count), done = 0, filled = 0, offset = 0;
    for (int i = 0; done < length;) {
        size_t left = length - done, limit = left < CHUNK ? left : CHUNK;
        ssize_t space = fs_ring_space(ring, limit);
        if (space < 0) return space;
        if ((size_t)space < limit) limit = (size_t)space;
        if (limit == 0) break;
        int timed = limit >= SHORTEST_TIMED && fs_ring_is_touched(ring, fs_published(link->end->out.shared), limit);
        uint64_t start = timed ? fs_ticks() : 0;
        for (filled = 0; filled < limit;) {
            size_t part = parts[i].iov_len - offset;
            if (part > limit - filled) part = limit - filled;
            fs_ring_fill(ring, filled, (const unsigned char *)parts[i].iov_base + offset, part);
            filled += part, offset += part;
            if (offset == parts[i].iov_len) i++, offset = 0;
        }
        if (start) fs_note_put(link, whole(link->out_request, &link->out_frame), filled, fs_ticks() - start);
        if (published(link, filled) != 0) return -EPROTO;
        done += filled;
    }
    return (ssize_t)done;
}

static void show_taken(struct fs_link *link)
{
    struct fs_direction *in = link->end->in.shared;
    uint64_t position = atomic_load_explicit(&link->position, memory_order_relaxed);
    if (position == link->published) return;
    fs_ring_consume(&link->end->in, position - link->published);
    link->published = position;
    /* a sender that sleeps for want of room hears of it as it hears of anything else */
    if (atomic_load(&in->writer_sleeps) == 0) return;
    ssize_t unread = fs_ring_unread(&link->end->in);
    if (unread > (ssize_t)(fs_ring_capacity(&link->end->in) / 2)) return;
    if (atomic_exchange(&in->writer_sleeps, 0) != 0) wake_other_end(link);
}

static ssize_t end_read(struct fs_link *link, void *target, size_t length)
{
    struct fs_ring *ring = &link->end->in;
    uint64_t position = atomic_load_explicit(&link->position, memory_order_relaxed), lag = position - link->published;
    ssize_t used = fs_ring_used_at_least(ring, lag + length);
    if (used < 0 || (uint64_t)used < lag) return -EPROTO;
    if (length > (uint64_t)used - lag) length = (size_t)((uint64_t)used - lag);
    if (length == 0) return 0;
    if (length > CHUNK) length = CHUNK;
    uint64_t start = length >= SHORTEST_TIMED && fs_ring_is_touched(ring, position, length) ? fs_ticks() : 0;
    if (target) fs_ring_copy_out(ring, lag, target, length);
    if (target && start) fs_note_take(link, whole(link->in_request, &link->frame), length, fs_ticks() - start);
    atomic_store_explicit(&link->position, position + length, memory_order_relaxed);
    if (lag + length >= LAG) show_taken(link);
    return (ssize_t)length;
}

static ssize_t end_place(struct fs_link *link, unsigned char **place)
{
    size_t together;
    ssize_t space = fs_ring_space(&link->end->out, GAPS);
    *place = fs_ring_place(&link->end->out, &together);
    if (space > (ssize_t)together) space = (ssize_t)together;
    return space < (ssize_t)GAPS ? space : (ssize_t)GAPS;
}

static ssize_t end_look(struct fs_link *link, const unsigned char **found)
{
    struct fs_ring *ring = &link->end->in;
    uint64_t lag = atomic_load_explicit(&link->position, memory_order_relaxed) - link->published;
    size_t together;
    ssize_t used = fs_ring_used_at_least(ring, lag + GAPS);
    if (used < 0 || (uint64_t)used < lag) return -EPROTO;
    *found = fs_ring_run(ring, lag, &together);
    used -= (ssize_t)lag;
    return used < (ssize_t)together ? used : (ssize_t)together;
}

static int end_has_input(const struct fs_link *link)
{
    return fs_published(link->end->in.shared) != atomic_load_explicit(&link->position, memory_order_relaxed);
}

static int end_has_room(const struct fs_link *link) { return fs_ring_room(&link->end->out) != 0; }

static int end_watch(struct fs_link *link, struct pollfd *one)
{
    int blocked = atomic_load(&link->pending);
    show_taken(link);
    if (blocked) atomic_store(&link->end->out.shared->writer_sleeps, 1);
    *one = (struct pollfd){link->descriptor, POLLIN | POLLRDHUP, 0};
    if (settle(link)) return 1;
    return blocked && end_has_room(link);
}

static int end_is_near(const struct fs_link *link)
{
    uint32_t cpu = fs_show_cpu(&link->end->header->cpu[link->end->side]);
    return atomic_load_explicit(&link->end->header->cpu[!link->end->side], memory_order_relaxed) == cpu;
}

static void end_close(struct fs_link *link)
{
    show_taken(link);
    if (link->connection) {
        fs_owned_leave(link->connection, link->descriptor);
        close(link->descriptor);
        return;
    }
    fs_end_closing(link->end, link->descriptor, 0);
    close(link->descriptor);
    fs_end_closed(link->end);
}

static const struct fs_link_calls calls = {
    .path = "shared memory",
    .write = end_write,
    .read = end_read,
    .place = end_place,
    .placed = published,
    .look = end_look,
    .taken = show_taken,
    .has_input = end_has_input,
    .has_room = end_has_room,
    .watch = end_watch,
    .is_near = end_is_near,
    .close = end_close,
};

static int attach(struct fs_engine *engine, int peer, struct fs_end *end, struct fs_connection *connection,
                  int descriptor)
{
    struct fs_link *link = fs_link_new(peer, &calls, descriptor);
    if (!link) return -ENOMEM;
    link->end = fs_end_hold(end);
    link->connection = connection;
    /* the first messages do not wait for memory to be made, which takes longer than they do */
    if (engine->size <= FS_FEW_PROCESSES) fs_ring_touch(&link->end->out);
    link->process = end->peer;
    link->published = atomic_load(&end->in.shared->tail);
    link->position = link->published;
    fs_costs_changed(link);
    if (link->process > 0) fs_guard_open(&link->guard, 1);
    int error = fs_link_attach(engine, link);
    if (error) fs_link_free(link);
    return error;
}

int fs_engine_attach_end(struct fs_engine *engine, int peer, struct fs_end *end, int doorbell)
{
    return end->raw_in || end->raw_out ? -EINVAL : attach(engine, peer, end, NULL, doorbell);
}

int fs_engine_attach_memory(struct fs_engine *engine, int peer, int descriptor)
{
    struct fs_connection *connection = fs_owned_take(descriptor);
    if (!connection) return -ENOTCONN;
    int error = attach(engine, peer, connection->end, connection, descriptor);
    if (error) fs_owned_leave(connection, descriptor);
    return error;
}
