/* A send that may be fetched has a stamp.  The stamp stands while its bytes are there.  Whoever fetches them reads the stamp
 * behind the bytes, in one call: they were the message's if it is the right one, whoever has that process number by now. */
#include <stdlib.h>

#include "cma.h"
#include "link.h"

int fs_stamps_new(struct fs_engine *engine)
{
    _Atomic uint64_t *stamps = calloc(FS_STAMPS, sizeof *stamps);
    if (!stamps) return 0;
    engine->nonce = fs_cma_nonce(); /* and no stamp is 0 */
    stamps[0] = engine->nonce;      /* no send has this one: it says whose memory it is */
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

int fs_pull(const struct fs_link *link, uint32_t id, uint64_t address, size_t offset, struct iovec *parts, int count)
{
    uint64_t stamp = link->greeting.stamps + (id & FS_INDEX_MASK) * sizeof stamp;
    struct fs_cma_identity there = {link->process, stamp, stamp_of(link->greeting.nonce, id)};
    return fs_cma_read(&there, address + offset, parts, count);
}
