/* Bytes into the ring, out of it, and past it, with that direction's lock.  How the other end hears of it is the signals'
 * matter (end.h). */
#include "end.h"

#include <errno.h>

#include "cma_choice.h"
#include "cma_offer.h"
#include "system.h"

#define CHUNK FS_COST_UNIT      /* published at once, so that both ends' copies overlap */
#define BRISK_US 20.0           /* for a receiver that is at work, by a send that must not wait */
#define LONGEST_SEND_US 20000.0 /* without a look at signals, by whoever sends to a receiver that keeps up */

/* ---- sending ---- */

void fs_end_wake_reader(struct fs_end *end)
{
    _Atomic uint32_t *word = &end->out.shared->reader_sleeps;
    if (atomic_load(word) != 0 && atomic_exchange(word, 0) != 0) {
        fs_futex_wake_all(word);
        fs_count_wake(end);
    }
}

static int publish(struct fs_end *end, struct fs_parts *parts, size_t length)
{
    int timed = length == CHUNK && fs_parts_first(parts) >= CHUNK &&
                fs_ring_is_touched(&end->out, fs_published(end->out.shared), length);
    uint64_t start = timed ? fs_ticks() : 0;
    int error = fs_ring_gather(&end->out, parts, length);
    if (timed) fs_cma_note_put(end, length, fs_ticks() - start);
    fs_end_wake_reader(end);
    return error;
}

int fs_end_is_large(const struct fs_end *end, size_t length)
{
    return length >= end->limits.direct_min && end->limits.direct_min != 0;
}

/* The receiver is there and asks for it: both ends copy.  Bytes that are on their way, 0, or -EPROTO. */
static ssize_t send_directly(struct fs_end *end, int descriptor, struct fs_parts *parts, int flags)
{
    struct fs_offer offer;
    const size_t run = fs_parts_first(parts);
    if (!fs_end_is_large(end, run)) return 0;
    if (fs_ring_space(&end->out, FS_CMA_FIRST) < (ssize_t)FS_CMA_FIRST) return 0;
    if (!fs_cma_offer(end, &offer, parts->next->iov_base, run)) return 0;
    if (publish(end, parts, FS_CMA_FIRST) != 0) {
        fs_cma_abandon(end);
        return 0;
    }
    end->signals->published(end, descriptor, 1);
    ssize_t received = fs_cma_serve(end, &offer, flags & FS_PATIENT ? end->limits.spin_us : BRISK_US);
    if (received < 0) return received;
    fs_parts_advance(parts, (size_t)received);
    return (ssize_t)FS_CMA_FIRST + received;
}

/* Of what goes in chunks, the first.  Headers in front of a long part go with its first bytes: so the receiver is at work
 * while that is copied, and may ask for it. */
static size_t first_chunk(const struct fs_parts *parts)
{
    size_t headers = 0;
    for (int i = 0; i < parts->count && parts->next[i].iov_len < CHUNK; i++) headers += parts->next[i].iov_len;
    return headers != 0 && headers < CHUNK - FS_CMA_FIRST ? headers + FS_CMA_FIRST : CHUNK;
}

ssize_t fs_end_put(struct fs_end *end, int descriptor, struct fs_parts *parts, int flags)
{
    const size_t length = parts->left;
    const int together = length <= FS_TOGETHER;
    size_t done = 0, first = 0, past = 0;
    uint64_t start = together ? 0 : fs_ticks();
    int grew = 0;
    if (atomic_load_explicit(&end->room_wanted, memory_order_relaxed) != 0) end->room_wanted = 0;
    fs_ring_shrink(&end->out);
    if (!together) fs_promise(end, length);
    while (parts->left > 0) {
        ssize_t sent = send_directly(end, descriptor, parts, flags);
        if (sent < 0) return sent;
        if (sent != 0) {
            done += (size_t)sent;
            first = done;                 /* has rung */
            fs_promise(end, parts->left); /* counted on from the ring's head */
            past += (size_t)sent;
        }
        if (parts->left == 0) break;
        if (start != 0 && done != 0 && flags & FS_PATIENT &&
            (double)(fs_ticks() - start) > LONGEST_SEND_US * fs_ticks_per_us())
            break;
        size_t part = parts->left <= FS_TOGETHER ? parts->left : done == 0 ? first_chunk(parts) : CHUNK;
        ssize_t space = fs_ring_space(&end->out, part);
        if (space < 0) return space;
        if ((size_t)space < part && (together || space == 0)) {
            int waits = flags & FS_PATIENT && !fs_end_is_watched(end) && part <= end->out.small;
            if (waits && together && done == 0 && fs_ring_may_grow(&end->out)) end->room_wanted = part;
            if (end->room_wanted != 0) break; /* soon there will be room in what is in cache */
            if (!waits && !grew && fs_ring_grow(&end->out)) {
                grew = 1;
                continue;
            }
        }
        if (space == 0) break;
        if ((size_t)space < part) part = (size_t)space;
        if (publish(end, parts, part) != 0) break;
        done += part;
        fs_end_assist(end);
        end->signals->published(end, descriptor, first == 0);
        if (first == 0) first = part;
    }
    if (done > first) end->signals->published(end, descriptor, 1); /* the edge for all the others */
    if (!together) fs_promise(end, 0);
    if (past == 0 && fs_end_is_large(end, done)) fs_note_large(&end->large_out, FS_BY_RING);
    return done > 0 ? (ssize_t)done : -EAGAIN;
}

/* ---- receiving ---- */

void fs_end_relieve_writer(struct fs_end *end, int descriptor)
{
    struct fs_direction *in = end->in.shared;
    if (atomic_load(&in->writer_sleeps) == 0 && atomic_load(&in->stuffed) == 0) return;
    ssize_t unread = fs_ring_unread(&end->in);
    if (unread < 0 || (uint64_t)unread > fs_ring_capacity(&end->in) / 2) return;
    if (atomic_exchange(&in->writer_sleeps, 0) != 0) {
        fs_futex_wake_all(&in->writer_sleeps);
        fs_count_wake(end);
    }
    end->signals->room(end, descriptor);
}

ssize_t fs_end_take(struct fs_end *end, int descriptor, unsigned char *target, size_t length, uint64_t *patience)
{
    size_t done = 0, past = 0;
    while (done < length) {
        ssize_t used = fs_ring_used(&end->in);
        if (used < 0) return used;
        if (used == 0) {
            ssize_t pulled = fs_cma_take(end, target + done, length - done);
            if (pulled < 0) return pulled;
            if (pulled == 0 && !fs_await_promised(end, patience)) break;
            done += (size_t)pulled;
            past += (size_t)pulled;
            continue;
        }
        size_t part = length - done < (size_t)used ? length - done : (size_t)used;
        if (part > CHUNK) part = CHUNK;
        uint64_t position = atomic_load_explicit(&end->in.shared->tail, memory_order_relaxed);
        int timed = part == CHUNK && fs_ring_is_touched(&end->in, position, part);
        uint64_t start = timed ? fs_ticks() : 0;
        fs_ring_copy_out(&end->in, 0, target + done, part);
        fs_ring_consume(&end->in, part);
        if (timed) fs_cma_note_take(end, part, fs_ticks() - start);
        if (part == CHUNK) fs_end_assist(end); /* more comes meanwhile, and the other end needs the room */
        done += part;
        fs_end_relieve_writer(end, descriptor);
    }
    end->signals->taken(end, descriptor);
    fs_count(&end->statistics.bytes_received, done);
    if (past == 0 && fs_end_is_large(end, done)) fs_note_large(&end->large_in, FS_BY_RING);
    return (ssize_t)done;
}
