/* The pieces of a message that both ends copy: who claimed each, and the end of the sender's claims. */
#include <sched.h>

#include "link.h"
#include "stream/end.h"

uint64_t fs_share_word(uint32_t number, uint32_t front, uint32_t back)
{
    return (uint64_t)number << 32 | front << 16 | back;
}

int fs_claim_piece(_Atomic uint64_t *word, uint32_t number, uint32_t all, int back)
{
    uint64_t seen = atomic_load(word);
    for (;;) {
        uint32_t from_front = (uint32_t)(seen >> 16) & 0xffff, from_back = (uint32_t)seen & 0xffff;
        if (seen >> 32 != number || from_front + from_back >= all) return -1;
        uint64_t next = fs_share_word(number, from_front + !back, from_back + (back != 0));
        if (atomic_compare_exchange_weak(word, &seen, next)) return (int)(back ? all - 1 - from_back : from_front);
    }
}

uint32_t fs_claimed_by_sender(const struct fs_link *link)
{
    return (uint32_t)atomic_load(&link->end->in.shared->offer) & 0xffff;
}

void fs_claim_the_rest(struct fs_link *link, uint32_t all)
{
    while (fs_claim_piece(&link->end->in.shared->offer, link->share_number, all, 0) >= 0) {}
}

/* Takes the sender's right to write away: 1 once nothing of it is under way. */
int fs_share_revoke(struct fs_link *link)
{
    int late;
    return fs_guard_revoke(&link->guard, &late);
}

/* The sender begins no other piece: 1 where it has not begun any, or told that they are done. */
int fs_share_stop(struct fs_link *link)
{
    fs_claim_the_rest(link, fs_pieces_of(fs_wanted(link->sharing, link->sharing->envelope.length)));
    return fs_claimed_by_sender(link) == 0 || link->sharing->state == FS_SHARED;
}

void fs_share_end(struct fs_link *link)
{
    if (fs_share_stop(link)) return;
    while (!fs_share_revoke(link) && !atomic_load(&link->hung_up)) sched_yield();
}
