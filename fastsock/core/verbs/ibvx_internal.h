/* What the files of IBVX share. */
#ifndef FASTSOCK_IBVX_INTERNAL_H
#define FASTSOCK_IBVX_INTERNAL_H

#include "ibvx.h"
#include "library.h"
#include "unmapping.h"

#ifdef FS_HAS_VERBS

#include <stdatomic.h>

#define FS_IBVX_SEGMENT 8192u /* bytes of a buffer, with the header and the word behind it */
#define FS_IBVX_WORD 8u       /* of a ring */
#define FS_IBVX_CREDITS 64u   /* buffers for each peer, and slots to send from */
#define FS_IBVX_RESERVED 2u   /* credits that only the return of credits may take */
#define FS_IBVX_PIECES 16u    /* pieces of long messages under way with one peer */
#define FS_IBVX_BUCKETS 64u
#define FS_IBVX_INLINE 220u
#define FS_IBVX_BUFFER 16384u /* bytes of a piece whose memory the device does not know */

/* In front of each segment.  Tag, context and type of a message stand in its frame. */
struct fs_ibvx_header {
    int32_t source, destination;
    uint32_t credits; /* returned */
    uint32_t length;  /* of the segment, with this */
};

/* A registered buffer of the receive queue. */
struct fs_ibvx_buffer {
    struct fs_ibvx_buffer *next;
    unsigned char *data;
    uint32_t key, length, offset;
    uint32_t behind; /* returns of credits that came behind it: their slots are in use until its own is free */
};

/* The buffers that came with one peer.  They stay in the shared queue when it goes. */
struct fs_ibvx_block {
    struct fs_ibvx_block *next;
    struct ibv_mr *region;
    unsigned char *memory;
    size_t size;
    struct fs_ibvx_buffer buffers[FS_IBVX_CREDITS];
};

/* Memory here that one peer's device writes. */
struct fs_ibvx_ring {
    struct ibv_mr *region;
    unsigned char *memory;
    uint32_t next; /* segment to come */
    struct fs_ibvx_buffer buffers[FS_IBVX_CREDITS];
};

/* Memory of a program.  Where the device keeps it, it is in a list, the one that was used last in front. */
struct fs_ibvx_region {
    struct fs_ibvx_region *next;
    struct fs_ibvx *device;
    struct ibv_mr *known;
    uintptr_t start;
    size_t length, pages; /* pages: bytes, in whole ones */
    enum fs_ibvx_use use;
    int is_kept;
    int is_pinned; /* one of its users is the program itself */
    unsigned users;
    struct fs_watched_memory watched;
};

struct fs_ibvx {
    const struct fs_verbs_library *library;
    struct ibv_context *context;
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel;
    struct ibv_cq *completions;
    struct ibv_srq *receives;
    struct ibv_port_attr port;
    union ibv_gid gid;
    uint8_t port_number, gid_index;
    char name[64];
    int most_pairs, pairs_made, has_rings;
    uint8_t most_reads, most_answered; /* of a pair at once: that it begins, that it answers */
    size_t bound;
    _Atomic size_t registered, most_registered; /* bytes of programs' memory, in whole pages */
    struct fs_unmapping *unmapping;             /* NULL: no memory is kept beyond its message */
    struct fs_ibvx_region *kept, *exposed;
    unsigned kept_count;
    struct fs_ibvx_block *blocks;
    _Atomic uint32_t lock; /* of what follows, and of the pairs */
    uint32_t vain;         /* looks at the completions since the last look at the device's own events */
    struct fs_ibvx_pair *pairs[FS_IBVX_BUCKETS];
};

struct fs_ibvx_pair {
    struct fs_ibvx_pair *next; /* of its bucket */
    struct fs_ibvx *device;
    struct ibv_qp *queue;
    int32_t rank, peer;
    uint32_t sequence, most_inline;
    struct ibv_mr *region;
    unsigned char *slots;
    struct fs_ibvx_ring *ring; /* segments come there; NULL: to the receive queue */
    uint64_t ring_there;       /* and go there */
    uint32_t ring_there_key;
    _Atomic int begun, failed; /* `failed`: 1 + enum ibv_wc_status */
    _Atomic uint32_t posted, completed, credits, arrived;
    _Atomic uint32_t pieces_begun, pieces_done;
    uint32_t pieces_seen;
    struct ibv_mr *buffers_region; /* for pieces, in turn; NULL: none was needed yet */
    unsigned char *buffers;
    struct iovec landings[FS_IBVX_PIECES]; /* where those that are read so belong */
    uint32_t owed;                         /* credits to return */
    struct fs_ibvx_buffer *first, *last;
    int broken; /* a segment was not what it should be: nothing behind it is taken */
    int closed; /* the last request of all has completed */
    struct fs_ibvx_counts counts;
};

/* The upper byte of a work request's number says what it was. */
enum { FS_IBVX_RECEIVED = 1, FS_IBVX_SENT, FS_IBVX_MOVED, FS_IBVX_LAST };
#define FS_IBVX_NUMBER(kind, value) ((uint64_t)(kind) << 56 | (uint64_t)(value))

void fs_ibvx_lock(struct fs_ibvx *device);
int fs_ibvx_try_lock(struct fs_ibvx *device);
void fs_ibvx_unlock(struct fs_ibvx *device);

void fs_ibvx_forget_all(struct fs_ibvx *device);

/* ibvx_buffers.c */
unsigned char *fs_ibvx_buffer_of(struct fs_ibvx_pair *pair, uint32_t piece);
void fs_ibvx_land(struct fs_ibvx_pair *pair, uint32_t piece); /* what was read into its buffer goes where it belongs */
void fs_ibvx_buffers_close(struct fs_ibvx_pair *pair);
void fs_ibvx_buffers_free(struct fs_ibvx_pair *pair);

/* ibvx_ring.c */
int fs_ibvx_ring_new(struct fs_ibvx_pair *pair); /* 0 or -errno */
void fs_ibvx_ring_close(struct fs_ibvx_pair *pair);
void fs_ibvx_ring_free(struct fs_ibvx_pair *pair);
void fs_ibvx_set_word(unsigned char *slot, uint32_t position);       /* of a slot to send from */
struct fs_ibvx_buffer *fs_ibvx_ring_next(struct fs_ibvx_pair *pair); /* NULL: none has come */

/* ibvx_pair.c */
void fs_ibvx_fail(struct fs_ibvx_pair *pair, enum ibv_wc_status status);

/* All with the lock. */
int fs_ibvx_add_buffers(struct fs_ibvx *device); /* FS_IBVX_CREDITS; 0 or -errno */
int fs_ibvx_post_receive(struct fs_ibvx *device, struct fs_ibvx_buffer *buffer);
int fs_ibvx_poll(struct fs_ibvx *device); /* how many completions */
void fs_ibvx_return_credits(struct fs_ibvx_pair *pair);

#endif
#endif
