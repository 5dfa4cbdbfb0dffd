#define _GNU_SOURCE
#include "endings.h"

#include <poll.h>

int fs_ending_is_unreported_reset(const struct fs_record *record, const struct fs_end *end)
{
    if (atomic_load(&fs_words_out(end)->release) != FS_RELEASE_NONE) return 0; /* it reads elsewhere */
    return fs_connection_is_joined(end) && !atomic_load(&record->read_shut) && !fs_end_other_left(end) &&
           !atomic_load(&end->in.shared->producer_shut) && fs_ring_unread(&end->out) > 0;
}

int fs_ending_is_of_a_token(const struct fs_record *record, const struct fs_end *end)
{
    return fs_connection_is_joined(end) && atomic_load(&end->header->reset[!end->side]) == FS_ORDERLY &&
           (atomic_load(&record->out_seq) & 1) != 0 && fs_ring_unread(&end->out) == 0 &&
           atomic_load(&fs_words_out(end)->tokens) >> FS_TOKEN_SHIFT != 0;
}

int fs_ending_owes_reset(const struct fs_record *record, const struct fs_end *end, int descriptor)
{
    if (atomic_load(&record->pending_error) != 0) return 1;
    if (atomic_load(&record->reset_reported) || !fs_ending_is_unreported_reset(record, end)) return 0;
    struct pollfd one = {descriptor, POLLRDHUP, 0};
    return poll(&one, 1, 0) > 0 && (one.revents & POLLERR) == 0;
}
