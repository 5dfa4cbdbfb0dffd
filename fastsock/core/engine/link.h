/* A peer in another process: a stream of frames in each direction, over any path that carries bytes in order. */
#ifndef FASTSOCK_LINK_H
#define FASTSOCK_LINK_H

#include <poll.h>

#include "cma_guard.h"
#include "cma_pieces.h"
#include "cost.h"
#include "internal.h"

struct fs_connection;
struct fs_ibvx_pair;
struct fs_link;

/* With the engine's lock unless said otherwise. */
struct fs_link_calls {
    const char *path;
    /* As many bytes as can go, or come, now: 0 for none, or -errno (-EPIPE: the other end is gone). */
    ssize_t (*write)(struct fs_link *link, const struct iovec *parts, int count);
    ssize_t (*read)(struct fs_link *link, void *target, size_t length);
    /* For data with gaps, which come and go without another copy where the path's memory can be reached; else NULL.  Where
     * the next bytes go, and that many are there now; where those that came lie.  How many, 0 or -errno as above. */
    ssize_t (*place)(struct fs_link *link, unsigned char **place);
    int (*placed)(struct fs_link *link, size_t length);
    ssize_t (*look)(struct fs_link *link, const unsigned char **found);
    void (*taken)(struct fs_link *link);                    /* the end of a round of reading */
    int (*has_input)(const struct fs_link *link);           /* without the lock: worth reading */
    int (*has_room)(const struct fs_link *link);            /* without the lock: worth writing */
    int (*watch)(struct fs_link *link, struct pollfd *one); /* before a sleep; 1: there is something to do already */
    int (*is_near)(const struct fs_link *link);             /* without the lock: the other end runs on this core */
    const char *(*failure)(const struct fs_link *link);     /* what the path says of it, or NULL; may be NULL itself */
    /* Nothing will be written any more.  1: a close loses nothing of what was.  May be NULL: it never does. */
    int (*delivered)(struct fs_link *link);
    void (*close)(struct fs_link *link);
};

struct fs_greeting {
    uint32_t version, byte_order;
    int32_t rank;
    uint32_t reserved;
    uint64_t credit, eager_limit;
    uint64_t nonce, stamps; /* where its stamps lie (stamps.c) */
    uint64_t calls, gate;   /* pages that whoever writes its memory must pass (cma_guard.h), or 0 */
};

/* Of messages of one class (costs.c). */
struct fs_link_costs {
    uint64_t put, take; /* ticks for a unit: into the ring, out of it */
    uint64_t pull;      /* and past it */
    uint64_t moved;     /* bytes that came, either way */
    struct fs_trials ring, fetch;
};

struct fs_link {
    const struct fs_link_calls *calls;
    int peer, descriptor;
    _Atomic int open, hung_up, pending; /* `pending`: something is still to be written or fetched */
    int leaving; /* the goodbye is said, or queued: nothing follows it, and nothing is answered */
    /* coming in */
    struct fs_frame frame;
    size_t frame_bytes; /* of it that are there */
    int in_payload;
    size_t in_left;                /* bytes of payload still to come */
    struct fs_request *in_request; /* they go there */
    size_t in_wanted;              /* and so many of them */
    struct fs_message *in_message; /* or there; or nowhere */
    struct fs_greeting greeting;
    int greeted;
    /* going out */
    union {
        struct {
            struct fs_frame out_key, out_frame; /* the key goes in front of some */
        };
        unsigned char out_frames[2 * sizeof(struct fs_frame)];
    };
    size_t out_header, out_left;    /* bytes of the frame under way, and of its payload, that have not gone */
    struct fs_request *out_request; /* whose payload it carries */
    unsigned char *out_copy;        /* or what is left of one that was abandoned */
    size_t out_copied;
    unsigned char *stage; /* or, of items with gaps, those that are packed already */
    size_t packed_from, packed;
    struct fs_frame *control; /* frames that go before others */
    size_t control_first, control_count, control_room;
    struct fs_queue sends;   /* their first frame is still to go */
    struct fs_queue streams; /* their bytes are asked for */
    struct fs_queue fetches; /* receives that read the other process's memory */
    int turn;
    /* credit: cost of eager messages and of announcements since the start */
    uint64_t credit, extra, sent, acknowledged;     /* ours over there; `extra`: for announcements alone */
    uint64_t received, consumed, credited, granted; /* theirs here; `granted`: their extra */
    /* the other process's memory */
    int process;       /* 0: cannot be read */
    size_t fetch_from; /* bytes from which the other end would rather fetch than be sent to */
    uint8_t limit;     /* what our frames say of that */
    struct fs_link_costs costs[FS_COST_CLASSES];
    /* share.c: a fetch that the sender helps with, as receiver and as sender */
    struct fs_request *sharing, *pushing;
    uint32_t share_number, push_number, push_to, push_done;
    int share_failed, share_waits;
    uint32_t share_pieces; /* copied by this end */
    uint32_t cancels;      /* asked for and not answered */
    uint64_t push_address, push_calls;
    struct fs_guard guard;
    /* link_shm.c */
    struct fs_end *end;
    struct fs_connection *connection; /* that stays TCP; NULL: `descriptor` is a doorbell */
    _Atomic uint64_t position;        /* read up to here; what was published may lag behind */
    uint64_t published;
    /* link_socket.c */
    unsigned char *staging;
    size_t staged_from, staged;
    int drained, ready, long_ones; /* `long_ones`: the last payload was */
    int is_local, is_shut;
    /* link_verbs.c */
    struct fs_engine *engine;
    struct fs_ibvx_pair *pair;
    struct fs_queue transfers;        /* sends that the device writes, and receives that it reads */
    struct fs_source next_key;        /* what the last frame said of the message that the next one announces */
    struct fs_verbs_meeting *meeting; /* until both ends are connected */
};

#define FS_FIRST_CREDIT 65536u /* until the greeting says more */
#define FS_MOST_CREDIT (1ull << 48)
#define FS_MOST_GRANTED (64ull << 20)  /* of bookkeeping for one peer's announcements that nobody waits for */
#define FS_LEAST_TRANSFER (16u * 1024) /* by the device: shorter ones are copied faster than memory is registered */
#define FS_SHARED_FROM (512u * 1024)   /* shorter ones are copied by one end before both know of it */
#define FS_STAMPS 4096u                /* sends that can be fetched at the same time */

static inline struct fs_frame fs_frame_of(int kind, uint32_t id, uint64_t length, uint64_t word)
{
    return (struct fs_frame){.magic = FS_FRAME_MAGIC, .kind = (uint8_t)kind, .id = id, .length = length, .word = word};
}

static inline uint64_t fs_cost(size_t length) { return length + FS_MESSAGE_COST; }

static inline int fs_links_count(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->link_count, memory_order_acquire);
}

static inline int fs_link_is_open(const struct fs_link *link)
{
    return atomic_load_explicit(&link->open, memory_order_relaxed);
}

/* What each file offers, in order, as in internal.h. */

/* stamps.c: the receiver reads the sender's memory */
#define FS_INDEX_MASK ((1u << 20) - 1) /* of a request's number */
int fs_stamps_new(struct fs_engine *engine);
uint64_t fs_stamp(struct fs_engine *engine, struct fs_request *request); /* the address to tell, 0 for none */
void fs_unstamp(struct fs_engine *engine, uint32_t id);
/* Bytes of the message `id` from byte `offset` on, into `parts`, which have room for one more. 0: not permitted, or
 * withdrawn. */
int fs_pull(const struct fs_link *link, uint32_t id, uint64_t address, size_t offset, struct iovec *parts, int count);

/* request_ids.c: the numbers under which other ends know requests */
uint32_t fs_slot_take(struct fs_engine *engine, struct fs_request *request, int peer);   /* 0: no memory */
struct fs_slot *fs_slot_find(struct fs_engine *engine, uint32_t id, int peer, int kind); /* NULL: there is no such */
void fs_slot_give(struct fs_engine *engine, uint32_t id);
/* The request goes.  Its number stays, in that state. */
struct fs_slot *fs_slot_abandon(struct fs_engine *engine, uint32_t id, int state, size_t left);

/* costs.c: which way is faster, by what they took lately.  `message`: the length of all of it, `length`: what was copied. */
void fs_note_put(struct fs_link *link, size_t message, size_t length, uint64_t ticks);
void fs_note_take(struct fs_link *link, size_t message, size_t length, uint64_t ticks);
void fs_note_pull(struct fs_link *link, size_t message, size_t length, uint64_t ticks);
/* `busy`: as fs_ends_are_busy() says. */
int fs_fetch_is_faster(struct fs_link *link, size_t length, int busy);
void fs_costs_changed(struct fs_link *link);

/* Neither end has time to copy for the other: both send, or they share a core. */
static inline int fs_ends_are_busy(const struct fs_engine *engine, const struct fs_link *link)
{
    return engine->peers[link->peer].given != 0 || engine->options.crowded || link->calls->is_near(link);
}

/* pieces.c: of a message that both ends copy */
uint64_t fs_share_word(uint32_t number, uint32_t front, uint32_t back);
/* Claims one piece of `all`, from the front or the back: its index, or -1 when none is left. */
int fs_claim_piece(_Atomic uint64_t *word, uint32_t number, uint32_t all, int back);
uint32_t fs_claimed_by_sender(const struct fs_link *link);
void fs_claim_the_rest(struct fs_link *link, uint32_t all);
int fs_share_stop(struct fs_link *link);
int fs_share_revoke(struct fs_link *link);
void fs_share_end(struct fs_link *link); /* with the link: on return the sender writes nothing any more */

/* losing.c */
void fs_link_broken(struct fs_engine *engine, struct fs_link *link, const char *what);
void fs_link_ended(struct fs_engine *engine, struct fs_link *link); /* by the other end, without a goodbye */

/* rndv_key.c */
/* 1: out_key is filled in. */
int fs_rndv_key(struct fs_engine *engine, struct fs_link *link, struct fs_request *request);
/* 1: nobody reads the bytes of that send any more.  `patient`: the other end is given time to say so. */
int fs_rndv_key_end(struct fs_request *request, int patient);

/* payload.c */
int fs_may_pack(struct fs_link *link); /* 0: no memory for it */
/* The next bytes of the frame under way, as a vector of no more than `most`; how many.  Then how many of them went. */
int fs_payload(struct fs_link *link, struct iovec *vector, int most);
void fs_payload_gone(struct fs_link *link, size_t length);
int fs_packs_straight(const struct fs_link *link); /* into the path's memory: instead of fs_payload() and a write */
ssize_t fs_pack_straight(struct fs_link *link);
/* At most so many bytes that have come, to their places in a request with gaps. */
ssize_t fs_read_items(struct fs_link *link, const struct fs_request *request, size_t wanted);

/* outgoing.c */
void fs_link_greet(struct fs_engine *engine, struct fs_link *link);
void fs_link_control(struct fs_engine *engine, struct fs_link *link, struct fs_frame frame);
int fs_link_flush(struct fs_engine *engine, struct fs_link *link);
void fs_stream(struct fs_link *link, struct fs_request *request, uint32_t receive); /* its bytes go in DATA */
void fs_link_set_pending(struct fs_link *link);

/* rndv_rtr.c */
/* Readies a request for an announced message: how many bytes are wanted.  For 0 the sender is told, and the request is
 * done. */
size_t fs_accept_announced(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id);
void fs_rndv_rtr(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id,
                 size_t wanted);
/* Asks for bytes that could not be read in the sender's memory, from the first byte on. */
void fs_rndv_rtr_instead(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id);

/* share.c */
int fs_share_begin(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id);
int fs_share_some(struct fs_engine *engine, struct fs_link *link);
int fs_take_share(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot);
int fs_take_shared(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot);
int fs_push_some(struct fs_engine *engine, struct fs_link *link);
void fs_push_stop(struct fs_engine *engine, struct fs_link *link);
/* 1: the sender cannot write any more.  `patient`: it is given time to say so by itself. */
int fs_share_abandon(struct fs_engine *engine, struct fs_link *link, int patient);

/* transfers.c */
/* The bytes go, or come, as `state` says: `there`, `key` and `region` are known.  `other`: its number over there. */
void fs_transfer(struct fs_link *link, struct fs_request *request, int state, uint32_t other);
int fs_transfer_some(struct fs_engine *engine, struct fs_link *link);

/* rndv_get.c */
int fs_rndv_take_key(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame);
/* 1: the device reads the bytes where the sender has them. */
int fs_rndv_get(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id, size_t wanted,
                const struct fs_source *source);

/* rndv_put.c */
/* 1: the sender was told where its device may write the bytes. */
int fs_rndv_put_ask(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id,
                    size_t wanted);
int fs_rndv_take_put(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                     struct fs_slot *slot);
int fs_rndv_take_put_done(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                          struct fs_slot *slot);

/* cma_fetch.c */
int fs_fetch_is_possible(const struct fs_link *link, const struct fs_request *request, uint32_t id, uint64_t address);
void fs_fetch_begin(struct fs_link *link, struct fs_request *request, uint32_t id, uint64_t address);
int fs_fetch_some(struct fs_engine *engine, struct fs_link *link);

/* credit.c */
static inline uint64_t fs_most_unconsumed(const struct fs_engine *engine)
{
    return engine->options.credit > FS_FIRST_CREDIT ? engine->options.credit : FS_FIRST_CREDIT;
}
static inline size_t fs_charged_length(const struct fs_message *message) /* bytes that its source's credit pays for */
{
    return message->announced ? 0 : message->envelope.length;
}
void fs_link_consumed(struct fs_engine *engine, struct fs_link *link, size_t length);
int fs_link_credited(struct fs_link *link, uint64_t word); /* by the other end: 0 where that cannot be */
void fs_unexpected(struct fs_engine *engine, struct fs_link *link, struct fs_message *message);

/* rendezvous.c */
/* A message that was announced is matched. */
void fs_rendezvous(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id,
                   const struct fs_source *source);

/* turns.c */
int fs_turn_of(const struct fs_frame *frame); /* its kind, or FS_TURN_REFUSED */
/* A frame of that turn and number names a request or none: its state, and its slot or NULL. */
int fs_state_named(struct fs_engine *engine, const struct fs_link *link, int turn, uint32_t id, struct fs_slot **slot);
int fs_is_in_turn(int turn, int state);
void fs_out_of_turn(struct fs_engine *engine, struct fs_link *link, int turn, int state); /* ends the link */

/* incoming.c */
int fs_link_take(struct fs_engine *engine, struct fs_link *link);

/* link.c */
struct fs_link *fs_link_new(int peer, const struct fs_link_calls *calls, int descriptor);
int fs_link_attach(struct fs_engine *engine, struct fs_link *link);

#endif
