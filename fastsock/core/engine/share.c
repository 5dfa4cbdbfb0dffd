/* Very long messages on one host: both ends copy, the receiver from the front by reading the sender's memory, the sender
 * from the back by writing the receiver's.
 *
 * Who copies which piece is decided by one word of the shared memory, which only moves by compare-and-swap: the number of
 * this copy, and how many pieces were claimed from the front and from the back.  When all are claimed nobody begins
 * another; the sender tells when its own are done, so that nothing is written into a buffer that was given back. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/uio.h>

#include "cma.h"
#include "link.h"
#include "stream/end.h"

#define LEAST (64u * 1024)
#define SHORTEST_PIECE (16u * 1024)
#define LONGEST_PIECE (128u * 1024)
#define MOST_PIECES 60000u
#define LONGEST_WRITE_NS 1000000000ull

static uint64_t word_of(uint32_t number, uint32_t front, uint32_t back)
{
    return (uint64_t)number << 32 | front << 16 | back;
}

/* Both ends compute the same: eighths, so that neither waits long for the other's last one. */
static size_t piece_of(size_t length)
{
    size_t piece = SHORTEST_PIECE;
    while (piece < LONGEST_PIECE && piece * 8 < length) piece *= 2;
    return piece;
}

static uint32_t pieces_of(size_t length) { return (uint32_t)((length + piece_of(length) - 1) / piece_of(length)); }

/* Claims one piece of `all`, from the front or the back: its index, or -1 when none is left. */
static int claim(_Atomic uint64_t *word, uint32_t number, uint32_t all, int back)
{
    uint64_t seen = atomic_load(word);
    for (;;) {
        uint32_t from_front = (uint32_t)(seen >> 16) & 0xffff, from_back = (uint32_t)seen & 0xffff;
        if (seen >> 32 != number || from_front + from_back >= all) return -1;
        uint64_t next = word_of(number, from_front + !back, from_back + (back != 0));
        if (atomic_compare_exchange_weak(word, &seen, next)) return (int)(back ? all - 1 - from_back : from_front);
    }
}

static uint32_t claimed_by_sender(const struct fs_link *link)
{
    return (uint32_t)atomic_load(&link->end->in.shared->offer) & 0xffff;
}

static size_t length_of_piece(size_t length, uint32_t index)
{
    size_t piece = piece_of(length), from = (size_t)index * piece;
    return length - from < piece ? length - from : piece;
}

/* ---- the receiver ---- */

/* 1: begun, and in the queue of fetches no more. */
int fs_share_begin(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id)
{
    size_t wanted = fs_wanted(request, request->envelope.length);
    if (!link->guard.gate || link->sharing || request->count != 1 || wanted < LEAST || pieces_of(wanted) > MOST_PIECES) return 0;
    if (link->calls->is_near(link) || !fs_slot_take(engine, request, link->peer)) return 0;
    fs_queue_remove(&link->fetches, request); /* before anything is written: the link may be lost by that */
    link->sharing = request;
    link->share_failed = link->share_waits = 0;
    link->share_pieces = 0;
    link->share_number++;
    atomic_store(&link->end->in.shared->offer, word_of(link->share_number, 0, 0));
    request->state = FS_SHARING;
    struct fs_frame frame = fs_frame_of(FS_FRAME_SHARE, id, wanted, (uint64_t)(uintptr_t)request->parts[0].iov_base);
    frame.context = request->id;
    frame.tag = (int32_t)link->share_number;
    fs_link_control(engine, link, frame);
    fs_link_flush(engine, link); /* now: the other end can begin */
    return 1;
}

static void finish(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->sharing;
    uint32_t id = (uint32_t)request->sequence;
    link->sharing = NULL;
    fs_slot_give(engine, request->id);
    if (link->share_failed) { /* the slow way: from the first byte, and for the rest of this link's life */
        link->process = 0;
        fs_rendezvous(engine, link, request, id, 0);
        return;
    }
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
    fs_complete(engine, request, request->error);
}

static void claim_the_rest(struct fs_link *link, uint32_t all)
{
    while (claim(&link->end->in.shared->offer, link->share_number, all, 0) >= 0) {}
}

/* The next piece of the copy under way: how much was done. */
int fs_share_some(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->sharing;
    size_t wanted = fs_wanted(request, request->envelope.length);
    uint32_t all = pieces_of(wanted);
    int index = claim(&link->end->in.shared->offer, link->share_number, all, 0);
    if (index >= 0 && link->share_pieces++ == all) {
        fs_link_broken(engine, link, "impossible values in the shared memory");
        return 1;
    }
    if (index >= 0) {
        size_t offset = (size_t)index * piece_of(wanted), length = length_of_piece(wanted, (uint32_t)index);
        struct iovec part[2] = {{(char *)request->parts[0].iov_base + offset, length}};
        uint64_t start = fs_ticks();
        if (fs_pull(link, (uint32_t)request->sequence, request->there, offset, part, 1)) {
            fs_note_pull(link, length, fs_ticks() - start);
            return 1;
        }
        link->share_failed = 1;
        claim_the_rest(link, all);
    }
    link->share_waits = claimed_by_sender(link) != 0 && request->state == FS_SHARING;
    if (link->share_waits) return 0; /* its own are not done */
    finish(engine, link);
    return 1;
}

int fs_take_shared(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
{
    if (!slot->request) { /* abandoned meanwhile: `left` is the number of the send */
        uint32_t id = (uint32_t)slot->left;
        fs_slot_give(engine, frame->id);
        fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
        return 1;
    }
    slot->request->state = FS_SHARED;
    link->share_waits = 0;
    fs_link_set_pending(link);
    if (frame->word != 0 || frame->length != claimed_by_sender(link)) {
        link->share_failed = 1;
        claim_the_rest(link, pieces_of(fs_wanted(link->sharing, link->sharing->envelope.length)));
    }
    return 1;
}

/* Takes the sender's right to write away: 1 once nothing of it is under way.  What has begun is in the kernel, where no
 * stop holds it; so after this long it has failed and was not told yet. */
static int revoke(struct fs_link *link)
{
    if (link->guard.gate) link->shut_at = fs_now_ns();
    fs_guard_shut(link);
    return fs_guard_is_quiet(link) || fs_now_ns() - link->shut_at > LONGEST_WRITE_NS;
}

/* The sender begins no other piece: 1 where it has not begun any, or told that they are done. */
static int stop(struct fs_link *link)
{
    claim_the_rest(link, pieces_of(fs_wanted(link->sharing, link->sharing->envelope.length)));
    return claimed_by_sender(link) == 0 || link->sharing->state == FS_SHARED;
}

void fs_share_end(struct fs_link *link)
{
    if (stop(link)) return;
    while (!revoke(link) && !atomic_load(&link->hung_up)) sched_yield();
}

int fs_share_abandon(struct fs_engine *engine, struct fs_link *link, int patient)
{
    struct fs_request *request = link->sharing;
    uint32_t id = (uint32_t)request->sequence;
    int stopped = stop(link);
    if (!stopped && (patient || !revoke(link))) return 0;
    link->sharing = NULL;
    if (!stopped) { /* its word is still to come: then the send is acknowledged */
        link->process = 0;
        fs_slot_abandon(engine, request->id, FS_REVOKED, id);
        return 1;
    }
    fs_slot_give(engine, request->id);
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
    return 1;
}

/* ---- the sender ---- */

/* Help is never owed: a share that is not taken is copied by the receiver alone. */
int fs_take_share(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    if (!request) return 1; /* abandoned meanwhile */
    if (frame->length == 0 || frame->length > request->length || !link->end || link->pushing) {
        fs_link_broken(engine, link, "it wants to copy what was not announced, or two messages at once");
        return 0;
    }
    request->state = FS_HELPED;
    if (request->count != 1 || link->process == 0 || link->greeting.gate == 0 || pieces_of(frame->length) > MOST_PIECES) return 1;
    request->state = FS_HELPING;
    request->envelope.length = frame->length;
    link->pushing = request;
    link->push_address = frame->word;
    link->push_number = (uint32_t)frame->tag;
    link->push_to = frame->context;
    link->push_done = 0;
    atomic_store_explicit(&link->pending, 1, memory_order_relaxed);
    return 1;
}

static void tell_shared(struct fs_engine *engine, struct fs_link *link, int failed)
{
    link->pushing->state = FS_HELPED;
    link->pushing = NULL;
    if (link->push_done == 0) return;
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_SHARED, link->push_to, link->push_done, (uint64_t)failed));
}

void fs_push_stop(struct fs_engine *engine, struct fs_link *link) { tell_shared(engine, link, 0); }

/* A process number can come to name somebody else: only the peer has its nonce at that place.  Who comes to have the number
 * after this look has no gate. */
static int is_the_peer(const struct fs_link *link)
{
    struct fs_cma_identity there = {link->process, link->greeting.stamps, link->greeting.nonce};
    struct iovec nothing[1];
    return fs_cma_read(&there, 0, nothing, 0);
}

int fs_push_some(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->pushing;
    size_t wanted = request->envelope.length;
    uint32_t all = pieces_of(wanted);
    int permitted = link->push_done > 0 || is_the_peer(link);
    int index = permitted && link->push_done < all ? claim(&link->end->out.shared->offer, link->push_number, all, 1) : -1;
    if (index < 0) {
        tell_shared(engine, link, 0);
        return 1;
    }
    size_t offset = (size_t)index * piece_of(wanted), length = length_of_piece(wanted, (uint32_t)index);
    link->push_done++;
    request->state = FS_COPYING;
    void *source = (char *)request->parts[0].iov_base + offset;
    if (!fs_guarded_write(link, source, link->push_address + offset, length)) tell_shared(engine, link, 1);
    return 1;
}
