/* One engine, and at the other end of its link nothing but a hand that writes frames. */
#ifndef LYING_PEER_H
#define LYING_PEER_H

#include "connection.h"
#include "engine/engine.h"
#include "engine/link.h"

#define LIAR_LIMIT 100000u       /* bytes that go with their envelope */
#define LIAR_LONG (1024u * 1024) /* bytes that both ends copy */

struct liar {
    struct fs_engine *engine; /* rank 0; the liar is rank 1 */
    struct fs_end *end;       /* the liar's; NULL: the link is a stream socket */
    int bell;
    uint64_t nonce;
    _Atomic uint64_t stamps[FS_STAMPS];
    struct fs_guard_calls calls; /* what its greeting says of its own memory */
    uint64_t gate;
    unsigned char *memory; /* LIAR_LONG bytes, which its announcements are about; of all liars */
};

struct liar *liar_new(void);
struct liar *liar_over_a_socket(void);
void liar_free(struct liar *liar); /* it goes, and the engine ends */
void liar_greet(struct liar *liar);
int liar_write(struct liar *liar, const void *data, size_t length); /* 0: the engine reads no more */
size_t liar_read(struct liar *liar, void *target, size_t length);   /* what the engine wrote, as much as is there */
void liar_put(struct liar *liar, struct fs_frame frame);            /* payload: nothing, or zeros */
/* The greeting of the engine, which comes first. */
struct fs_greeting liar_get_greeting(struct liar *liar);
/* The next frame of that kind from the engine; others are skipped.  The test fails where none comes. */
struct fs_frame liar_get(struct liar *liar, int kind);
void liar_progress(struct liar *liar); /* one round of the engine, which takes the liar to run on another core */
void liar_stamp(struct liar *liar, uint32_t id); /* that announcement may be fetched */
struct fs_frame liar_announcement(struct liar *liar, uint32_t id, uint64_t length, int fetched);

/* A request in memory of its own, and so is its buffer: both are freed as soon as it is done, as a program would. */
struct held {
    struct fs_request *request;
    unsigned char *buffer;
};
struct held held_new(int kind, size_t length);
int held_settle(struct held *held); /* 1: it was done, and is freed */

#endif
