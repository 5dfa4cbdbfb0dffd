#include <errno.h>
#include <poll.h>

#include "end.h"
#include "system.h"

#define PATIENCE_NS 50000000ull

void fs_end_watch(struct fs_end *end, int doorbell)
{
    uint32_t nobody = FS_WATCHED_NOT;
    if (!atomic_compare_exchange_strong(&end->in.shared->watched, &nobody, FS_WATCHED_EXACTLY)) {
        /* asked for again: a token that came late, behind the receive that had not waited for it, is no event */
        if (fs_end_has_stale_token(end)) fs_end_settle(end, doorbell, FS_AT_ONCE);
        return;
    }
    fs_end_settle(end, doorbell, 0); /* also where our own direction is raw: tokens of the other one may lie there */
    if (end->raw_out) return;
    if (fs_lock(end->exclusion.sender, PATIENCE_NS) != 0) return;
    fs_farewell_show(end, doorbell);
    if (fs_ring_space(&end->out, 1) == 0 && !fs_ring_grow(&end->out)) fs_doorbell_stuff(end, doorbell);
    fs_unlock(end->exclusion.sender);
}

void fs_end_set_lazy(struct fs_end *end, int lazy)
{
    uint32_t now = lazy ? FS_WATCHED_EXACTLY : FS_WATCHED_LAZILY;
    end->lazy = lazy;
    atomic_compare_exchange_strong(&end->in.shared->watched, &now, lazy ? FS_WATCHED_LAZILY : FS_WATCHED_EXACTLY);
}

int fs_end_settle(struct fs_end *end, int doorbell, int flags)
{
    fs_end_rely(end, 1);
    fs_end_rely(end, 0); /* nobody says when its sleep ends: until it looks again */
    int error = fs_lock(end->exclusion.receiver, flags & FS_AT_ONCE ? 0 : PATIENCE_NS);
    if (error != 0) return flags & FS_AT_ONCE ? error : 1;
    if (!end->raw_in) fs_doorbell_settle(end, doorbell);
    fs_unlock(end->exclusion.receiver);
    return fs_end_has_data(end);
}

int fs_end_has_stale_token(const struct fs_end *end)
{
    const struct fs_direction *in = end->in.shared;
    uint64_t word = atomic_load(&in->bell);
    return !end->ended && !end->gone && !fs_end_other_left(end) && !atomic_load(&in->producer_shut) && !fs_is_raw(in) &&
           atomic_load(&in->notice) == end->notice_seen &&
           ((word & FS_BELL_STATE) != FS_BELL_SILENT || atomic_load(&in->eaten) < word >> FS_BELL_SHIFT) &&
           fs_published(in) == atomic_load(&in->tail);
}

int fs_end_writable(struct fs_end *end, size_t least)
{
    struct fs_direction *out = end->out.shared;
    ssize_t room = fs_ring_room(&end->out);
    int enough = room < 0 || (room != 0 && (size_t)room >= least); /* a send finds out what is wrong */
    return end->gone || fs_is_raw(out) || atomic_load(&out->producer_shut) || enough;
}
