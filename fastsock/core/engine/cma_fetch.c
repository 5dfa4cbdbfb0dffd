/* Long messages on one host: the receiver reads them in the sender's memory.
 *
 * A send that may be fetched has a stamp, which stands while its bytes are there.  The receiver reads the stamp behind
 * the bytes, in one call: they were the message's if it is the right one, whoever has that process number by now.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/uio.h>

#include "cma.h"
#include "link.h"

#define PIECE (1024u * 1024) /* then others have a turn */
#define PARTS 8
#define SHORTEST_TIMED (16u * 1024)
#define ALONE (256u * 1024)  /* where others wait, shorter ones go faster without the sender's help */

int fs_stamps_new(struct fs_engine *engine)
{
    _Atomic uint64_t *stamps = calloc(FS_STAMPS, sizeof *stamps);
    if (!stamps) return 0;
    engine->nonce = fs_cma_nonce(); /* and no stamp is 0 */
    stamps[0] = engine->nonce; /* no send has this one: it says whose memory it is */
    engine->stamps = stamps;
    return 1;
}

static uint64_t stamp_of(uint64_t nonce, uint32_t id) { return nonce + ((uint64_t)id << 1); }

uint64_t fs_stamp(struct fs_engine *engine, struct fs_request *request)
{
    uint32_t index = request->id & FS_INDEX_MASK;
    if (request->count != 1 || index >= FS_STAMPS || !engine->stamps) return 0;
    atomic_store(&engine->stamps[index], stamp_of(engine->nonce, request->id));
    return (uint64_t)(uintptr_t)request->parts[0].iov_base;
}

void fs_unstamp(struct fs_engine *engine, uint32_t id)
{
    uint32_t index = id & FS_INDEX_MASK;
    if (index < FS_STAMPS && engine->stamps) atomic_store(&engine->stamps[index], 0);
}

int fs_fetch_is_possible(const struct fs_link *link, const struct fs_request *request, uint32_t id, uint64_t address)
{
    return link->process > 0 && address != 0 && (id & FS_INDEX_MASK) < FS_STAMPS && request->length != 0;
}

/* `sequence`: the number of the send. */
void fs_fetch_begin(struct fs_link *link, struct fs_request *request, uint32_t id, uint64_t address)
{
    request->sequence = id;
    request->there = address;
    request->state = FS_FETCHING;
    request->moved = 0;
    fs_queue_add(&link->fetches, request);
    atomic_store_explicit(&link->pending, 1, memory_order_relaxed);
}

int fs_pull(const struct fs_link *link, uint32_t id, uint64_t address, size_t offset, struct iovec *parts, int count)
{
    uint64_t stamp = link->greeting.stamps + (id & FS_INDEX_MASK) * sizeof stamp;
    struct fs_cma_identity there = {link->process, stamp, stamp_of(link->greeting.nonce, id)};
    return fs_cma_read(&there, address + offset, parts, count);
}

/* A piece of the oldest one: how much was done. */
int fs_fetch_some(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->fetches.first;
    uint32_t id = (uint32_t)request->sequence;
    if (link->sharing) return 0; /* that one first */
    size_t all = fs_wanted(request, request->envelope.length);
    int helped = !request->next || all >= ALONE;
    if (request->moved == 0 && helped && fs_share_begin(engine, link, request, id)) return 1;
    struct iovec parts[PARTS + 1];
    size_t left = all - request->moved, length = 0;
    int count = fs_parts_from(request, request->moved, left < PIECE ? left : PIECE, parts, PARTS);
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    uint64_t start = fs_ticks();
    if (!fs_pull(link, id, request->there, request->moved, parts, count)) {
        /* not permitted, or withdrawn: whatever it is, the sender says so when it is asked for the bytes */
        link->process = 0;
        fs_queue_remove(&link->fetches, request);
        fs_rendezvous(engine, link, request, id, 0);
        return 1;
    }
    if (length >= SHORTEST_TIMED) fs_note_pull(link, length, fs_ticks() - start);
    request->moved += length;
    if (length < left) return 1;
    fs_queue_remove(&link->fetches, request);
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
    fs_complete(engine, request, request->error);
    return 1;
}
