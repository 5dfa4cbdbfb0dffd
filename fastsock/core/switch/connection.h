/* A connection as one process holds it. */
#ifndef FASTSOCK_CONNECTION_H
#define FASTSOCK_CONNECTION_H

#include <stdatomic.h>
#include <stdint.h>

#include "record.h"
#include "stream/end.h"

struct fs_candidate; /* candidates.c's own */

/* Its memory is never given back, and serves a later connection.  `end` may be used under the sender's or the receiver's
 * lock, or by a user who entered (fs_connection_enter()), after a look at the table: is this still the descriptor's? */
struct fs_connection {
    _Atomic uint32_t generation;  /* moves when it serves another connection */
    _Atomic uint32_t users;       /* see fs_connection_enter() */
    _Atomic uint32_t descriptors; /* of this process */
    struct fs_record *_Atomic record;
    struct fs_end *_Atomic end;                     /* NULL until memory is offered or joined */
    struct fs_candidate *_Atomic candidate;         /* NULL at first; `forget` lets it go */
    void (*_Atomic forget)(struct fs_connection *); /* candidates.c's; called once the connection has left */
    struct fs_end *withdrawn[8];                    /* offers that nobody took: until the connection leaves */
    _Atomic uint64_t identity;                      /* of the socket that memory was added to (identity.h) */
    uint32_t forks;                                 /* the last fork that has counted it */
    _Atomic uint32_t answers_as;                    /* the generation of process that is named to the other end */
    int is_last;                                    /* no other process holds it */
    struct fs_connection *next;                     /* among those that are free */
};

/* The segment's words of the direction that this end sends, or reads. */
static inline struct fs_switch_words *fs_words_out(const struct fs_end *end) { return &end->header->words[end->side]; }
static inline struct fs_switch_words *fs_words_in(const struct fs_end *end) { return &end->header->words[!end->side]; }
static inline int fs_connection_is_joined(const struct fs_end *end)
{
    return atomic_load(&end->header->joined) == FS_JOINED;
}

#endif
