/* Very long messages on one host: both ends copy, the receiver from the front by reading the sender's memory, the sender
 * from the back by writing the receiver's.
 *
 * Who copies which piece is decided by one word of the shared memory, which only moves by compare-and-swap: the number of
 * this copy, and how many pieces were claimed from the front and from the back.  When all are claimed nobody begins
 * another; the sender tells when its own are done, so that nothing is written into a buffer that was given back. */
#include <sys/uio.h>

#include "cma.h"
#include "link.h"
#include "stream/end.h"

#define MOST_PIECES 60000u

/* ---- the receiver ---- */

/* 1: begun, and in the queue of fetches no more. */
int fs_share_begin(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id)
{
    size_t wanted = fs_wanted(request, request->envelope.length);
    if (!link->guard.gate || link->sharing || request->count != 1 || wanted < FS_SHARED_FROM ||
        fs_pieces_of(wanted) > MOST_PIECES)
        return 0;
    if (fs_ends_are_busy(engine, link) || !fs_slot_take(engine, request, link->peer)) return 0;
    fs_queue_remove(&link->fetches, request); /* before anything is written: the link may be lost by that */
    link->sharing = request;
    link->share_failed = link->share_waits = 0;
    link->share_pieces = 0;
    link->share_number++;
    atomic_store(&link->end->in.shared->offer, fs_share_word(link->share_number, 0, 0));
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
        fs_rndv_rtr_instead(engine, link, request, id);
        return;
    }
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
    fs_complete(engine, request, request->error);
}

/* The next piece of the copy under way: how much was done. */
int fs_share_some(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->sharing;
    size_t wanted = fs_wanted(request, request->envelope.length);
    uint32_t all = fs_pieces_of(wanted);
    int index = fs_claim_piece(&link->end->in.shared->offer, link->share_number, all, 0);
    if (index >= 0 && link->share_pieces++ == all) {
        fs_link_broken(engine, link, "impossible values in the shared memory");
        return 1;
    }
    if (index >= 0) {
        size_t offset = (size_t)index * fs_piece_of(wanted), length = fs_length_of_piece(wanted, (uint32_t)index);
        struct iovec part[2] = {{(char *)request->parts[0].iov_base + offset, length}};
        uint64_t start = fs_ticks();
        if (fs_pull(link, (uint32_t)request->sequence, request->there, offset, part, 1)) {
            fs_note_pull(link, wanted, length, fs_ticks() - start);
            return 1;
        }
        link->share_failed = 1;
        fs_claim_the_rest(link, all);
    }
    link->share_waits = fs_claimed_by_sender(link) != 0 && request->state == FS_SHARING;
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
    if (frame->word != 0 || frame->length != fs_claimed_by_sender(link)) {
        link->share_failed = 1;
        fs_claim_the_rest(link, fs_pieces_of(fs_wanted(link->sharing, link->sharing->envelope.length)));
    }
    return 1;
}

int fs_share_abandon(struct fs_engine *engine, struct fs_link *link, int patient)
{
    struct fs_request *request = link->sharing;
    uint32_t id = (uint32_t)request->sequence;
    int stopped = fs_share_stop(link);
    if (!stopped && (patient || !fs_share_revoke(link))) return 0;
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
    if (request->count != 1 || link->process == 0 || link->greeting.gate == 0 ||
        fs_pieces_of(frame->length) > MOST_PIECES)
        return 1;
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

static void send_shared(struct fs_engine *engine, struct fs_link *link, int failed)
{
    link->pushing->state = FS_HELPED;
    link->pushing = NULL;
    if (link->push_done == 0) return;
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_SHARED, link->push_to, link->push_done, (uint64_t)failed));
}

void fs_push_stop(struct fs_engine *engine, struct fs_link *link) { send_shared(engine, link, 0); }

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
    uint32_t all = fs_pieces_of(wanted);
    int permitted = link->push_done > 0 || is_the_peer(link);
    int index = permitted && link->push_done < all
                    ? fs_claim_piece(&link->end->out.shared->offer, link->push_number, all, 1)
                    : -1;
    if (index < 0) {
        send_shared(engine, link, 0);
        return 1;
    }
    size_t offset = (size_t)index * fs_piece_of(wanted), length = fs_length_of_piece(wanted, (uint32_t)index);
    link->push_done++;
    request->state = FS_COPYING;
    void *source = (char *)request->parts[0].iov_base + offset;
    struct fs_guard_place there = {link->process, link->greeting.calls, link->greeting.gate};
    if (!fs_guarded_write(&there, ++link->push_calls, source, link->push_address + offset, length))
        send_shared(engine, link, 1);
    return 1;
}
