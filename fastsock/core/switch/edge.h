/* What a watcher of edges was told of last: where the head of the ring was, and of which memory.  Unread bytes before it are
 * no news to him.  All zero: he was told of nothing. */
#ifndef FASTSOCK_EDGE_H
#define FASTSOCK_EDGE_H

#include "connection.h"

struct fs_edge {
    uint64_t head, since_ns;
};

static inline void fs_edge_report(struct fs_edge *edge, const struct fs_record *record, const struct fs_end *end)
{
    edge->since_ns = atomic_load(&record->since_ns);
    edge->head = fs_published(end->in.shared);
}

/* Whether unread bytes came since.  NULL: whether there are any. */
static inline int fs_edge_has_news(const struct fs_edge *edge, const struct fs_record *record, const struct fs_end *end)
{
    if (!fs_end_has_data(end)) return 0;
    return edge == NULL || edge->head != fs_published(end->in.shared) ||
           edge->since_ns != atomic_load(&record->since_ns);
}

#endif
