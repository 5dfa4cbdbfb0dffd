/* What the files of the engine share. */
#ifndef FASTSOCK_ENGINE_INTERNAL_H
#define FASTSOCK_ENGINE_INTERNAL_H

#include <pthread.h>

#include "engine.h"
#include "frame.h"
#include "schedule.h"
#include "shown.h"
#include "stream/end.h"
#include "system.h"

#define FS_BUCKETS 256u
#define FS_MOST_OTHERS 65536 /* ranks of other jobs that one rank can know */
#define FS_IDLE_ROUNDS 64u   /* of progress without anything to do, until the other ends' lives are looked at */
#define FS_MESSAGE_COST 96u  /* what the bookkeeping of an unexpected message counts besides its bytes */

/* Of a request, and of what a frame names: turns.c says which frame may come in which. */
enum fs_state {
    FS_IDLE,
    /* sends */
    FS_QUEUED,    /* nothing of it has gone */
    FS_BEGINNING, /* its first frame is on its way */
    FS_SENT,      /* it went with its envelope, and will be acknowledged */
    FS_ANNOUNCED, /* only its envelope went */
    FS_HELPING,   /* announced; this end may copy a part of it (share.c) */
    FS_COPYING,   /* and has begun */
    FS_HELPED,    /* announced; this end copies no part of it any more */
    FS_STREAMING, /* its bytes were asked for */
    FS_PUTTING,   /* the device writes them over there */
    FS_SEND_GONE, /* abandoned: its number waits for the other end's last word */
    /* receives */
    FS_POSTED,
    FS_MATCHED,      /* its message is known; how it comes is not decided yet */
    FS_ARRIVING,     /* its message's bytes come behind the envelope */
    FS_FETCHING,     /* read in the sender's memory */
    FS_SHARING,      /* and written by the sender too */
    FS_SHARED,       /* whose part is there */
    FS_EXPECTING,    /* its bytes were asked for */
    FS_OPENED,       /* and the sender's device may write them here */
    FS_GETTING,      /* this end's device reads them over there */
    FS_RECEIVE_GONE, /* abandoned: bytes still come for its number, and are dropped */
    FS_REVOKED,      /* abandoned while the sender copied */
    /* neither: no frame names them */
    FS_WRITING, /* the device writes exposed memory over there */
    FS_READING, /* or reads it */
    /* no request */
    FS_STRANGER, /* a link before its greeting */
    FS_MET,      /* and behind it */
    FS_NOBODY,   /* a number without meaning */
    FS_STATES
};

struct fs_queue {
    struct fs_request *first, *last;
};

/* Where the bytes of an announced message lie. */
struct fs_source {
    uint64_t address; /* 0: the sender does not say */
    uint32_t key;
    uint8_t keyed; /* the sender's device lets others read them, by that key */
};

/* A message that no receive was posted for, or one that a matched probe took out. */
struct fs_message {
    struct fs_message *next, *previous; /* of the same bucket */
    struct fs_message *newer, *older;   /* of all, by arrival */
    struct fs_envelope envelope;
    uint32_t context, id; /* `id` of the send over there: to be acknowledged */
    uint8_t queued;       /* in the two lists above */
    uint8_t announced;    /* only its envelope came: ready to send */
    uint8_t lost;         /* its sender failed, or left, before all of it had come */
    uint8_t charged;      /* counts against the credit of its source */
    unsigned char *payload;
    size_t received;
    struct fs_source source;
    struct fs_request *claimed; /* receives it once the rest has come */
    /* of a rank in this process: */
    struct fs_engine *sender; /* held */
    struct fs_request *request;
};

struct fs_bucket {
    struct fs_queue posted;
    struct fs_message *first, *last;
};

enum fs_peer_state { FS_MISSING, FS_LINKED, FS_LOCAL, FS_LEFT, FS_FAILED };

struct fs_peer {
    uint8_t state, asked, was_local;
    int calls_itself; /* its rank, in its own job */
    struct fs_link *link;
    struct fs_engine *local; /* held */
    struct fs_queue waiting; /* sends to a peer that is missing still */
    uint32_t given;          /* sends that it knows by a number, long ones above all */
    uint32_t failure;        /* which of the failures that this engine heard of */
    size_t buffered;         /* bytes of a local peer's messages that wait here */
    char *reason;
};

struct fs_members {
    struct fs_members *next;
    uint32_t context;
    size_t count;
    int ranks[]; /* in order */
};

/* What has become of a context. */
struct fs_fate {
    struct fs_fate *next;
    uint32_t context;
    uint32_t acknowledged; /* failures up to this one */
    int revoked;
};

/* Requests that the other ends know by a number. */
struct fs_slot {
    struct fs_request *request; /* NULL: free, or abandoned */
    int peer;                   /* -1: free */
    uint32_t generation;
    uint32_t next_free;
    uint8_t kind, gone; /* `gone`: the state of an abandoned one */
    size_t left;        /* of an abandoned receive: bytes still to come and be dropped */
};

/* A collective under way (collectives.c). */
struct fs_collective {
    struct fs_collective *next, *previous; /* of all that are under way */
    struct fs_collective *next_ready;
    const struct fs_schedule *schedule;
    struct fs_engine *engine;
    struct fs_request *whole;
    struct fs_request *requests; /* by the schedule's numbers */
    struct iovec *parts;
    size_t at, done;        /* the step, and how many of its bytes are done */
    uint64_t patient_until; /* 0: no member has failed */
    uint32_t missing;       /* requests that it waits for */
    uint32_t late;          /* receives that begin behind the sends beside them */
    int waits;              /* for them, or in vain */
    int tags[FS_CHANNELS];
};

struct fs_ibvx;

struct fs_engine {
    _Atomic uint32_t lock;
    _Atomic uint32_t contenders;
    _Atomic int holders;
    _Atomic int closed;
    _Atomic int revoked;                    /* so many contexts are */
    uint32_t generation;                    /* a forked child has a copy that it must not use */
    void (*free)(struct fs_engine *engine); /* life.c's: for the last who lets go */
    struct fs_engine *next, *previous;      /* of this process */
    struct fs_engine *next_held;            /* of those that a fork under way holds */
    int rank, size;
    _Atomic int peer_count; /* the ranks of the job, and behind them those of other jobs */
    struct fs_engine_options options;
    uint64_t spin_ticks;
    struct fs_peer *peers; /* they never move: room for FS_MOST_OTHERS more is reserved */
    /* links are never freed before the engine: whoever waits looks at them without the lock */
    struct fs_link **links;
    _Atomic int link_count;
    /* matching.c */
    struct fs_bucket buckets[FS_BUCKETS];
    struct fs_queue posted_any;         /* receives with a wildcard */
    struct fs_message *oldest, *newest; /* unexpected */
    struct fs_message *matched;         /* by a probe: received by whoever has them */
    uint64_t sequence;
    struct fs_members *members;
    struct fs_fate *_Atomic fates; /* of few contexts */
    uint32_t failures;
    int has_collectives;
    uint64_t doomed_at; /* then what waits in a collective context without one of its members ends; 0: nothing does */
    /* what is known to the other ends by number */
    struct fs_slot *slots;
    uint32_t slot_count, free_slot;
    _Atomic uint64_t *stamps; /* stamps.c: read by other processes */
    uint64_t nonce;
    int descriptor_links;
    struct fs_ibvx *verbs; /* NULL: no link goes over verbs */
    int verbs_events;      /* an epoll: completions, and the ends of such links */
    int opens_keys;        /* others may read its long messages */
    uint32_t round;
    /* completed requests that have an owner */
    struct fs_request *finished_first, *finished_last;
    _Atomic uint32_t finished, finished_callbacks;
    struct fs_request *settled; /* sends of other engines of this process that completed under our lock */
    void *left;                 /* what its lock's holder gave up to wait for it (lock.c) */
    /* collectives.c */
    struct fs_collective *collectives, *ready_first, *ready_last;
    _Atomic uint32_t ready;         /* that many can go on */
    _Atomic uint64_t patient_until; /* then one of them may be without hope; 0: none */
    /* waiting.c */
    _Alignas(64) _Atomic uint32_t events;
    _Atomic uint32_t sleepers;  /* on `events` */
    _Atomic uint32_t driver;    /* somebody sleeps, or is about to, on the descriptors */
    _Atomic uint32_t asleep;    /* the driver */
    _Atomic uint32_t arrivals;  /* messages that were unexpected */
    _Atomic uint32_t watchers;  /* who wait for one */
    _Atomic uint64_t looked_at; /* whether other ends hung up */
    _Atomic uint32_t idle;      /* rounds of progress without anything to do */
    _Atomic uint32_t looks_in_vain;
    struct fs_yielding yielding; /* after those */
    _Atomic uint32_t has_local;  /* other ranks are, or were, threads of this process */
    int kick;                    /* eventfd, -1 until needed */
    struct fs_shown_rank *shown; /* what it counts, for others to read; or its own, which nobody reads */
    struct fs_shown_rank unread;
};

/* What each file offers to those below it on this page; nothing here calls what stands behind it.  Links have their own part,
 * in link.h: it stands between local.c and rendezvous.c. */

static inline int fs_peer_count(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->peer_count, memory_order_acquire);
}
static inline int fs_is_peer(const struct fs_engine *engine, int peer)
{
    return peer >= 0 && peer < fs_peer_count(engine);
}
static inline int fs_has_failed(const struct fs_engine *engine, int peer)
{
    return engine->peers[peer].state == FS_FAILED || engine->peers[peer].state == FS_LEFT;
}

/* How a send to a rank that has finished ends.  A short one is complete, as if it lay there: nobody will take it.  What would
 * have waited for its receive fails. */
static inline int fs_sent_in_vain(const struct fs_engine *engine, const struct fs_request *request)
{
    int is_short = request->mode == FS_STANDARD && request->length <= engine->options.eager_limit;
    return is_short ? FS_FINE : FS_PEER_FAILED;
}

static inline void fs_queue_add(struct fs_queue *queue, struct fs_request *request)
{
    request->next = NULL;
    request->previous = queue->last;
    if (queue->last) queue->last->next = request;
    else queue->first = request;
    queue->last = request;
}

static inline void fs_queue_remove(struct fs_queue *queue, struct fs_request *request)
{
    if (request->previous) request->previous->next = request->next;
    else queue->first = request->next;
    if (request->next) request->next->previous = request->previous;
    else queue->last = request->previous;
    request->next = request->previous = NULL;
}

/* registry.c */
struct fs_engines {
    pthread_mutex_t lock;
    struct fs_engine *first;
    uint64_t changes;
};
extern struct fs_engines fs_engines; /* of this process */
void fs_engine_register(struct fs_engine *engine);

/* completion.c: with the lock held */
void fs_doom_later(struct fs_engine *engine); /* a member of some context has failed, and somebody waits */
void fs_wake(struct fs_engine *engine);       /* whoever sleeps looks again */
void fs_complete(struct fs_engine *engine, struct fs_request *request, int error);
void fs_complete_elsewhere(struct fs_engine *engine, struct fs_request *request, int error);
void fs_collective_is_ready(struct fs_engine *engine, struct fs_collective *collective);
void fs_collective_is_doomed(struct fs_engine *engine,
                             struct fs_collective *collective); /* it will not wait for ever */

/* lock.c */
struct fs_interpreter {
    void *(*leave)(void);
    void (*enter)(void *left);
};
void fs_engine_lock_slowly(struct fs_engine *engine);
/* Keeps the interpreter's lock: a child must find that as its parent left it. */
void fs_engine_lock_to_fork(struct fs_engine *engine);
static inline int fs_engine_try_lock(struct fs_engine *engine)
{
    uint32_t nobody = 0;
    return atomic_compare_exchange_strong_explicit(&engine->lock, &nobody, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}
static inline void fs_engine_lock(struct fs_engine *engine)
{
    if (!fs_engine_try_lock(engine)) fs_engine_lock_slowly(engine);
}
void fs_engine_unlock(struct fs_engine *engine); /* and completes what waits in `settled` */

/* forks.c */
void fs_engines_heed_forks(void);

/* members.c: with the lock held */
int fs_is_member(const struct fs_engine *engine, uint32_t context, int rank);

/* fates.c: with the lock held */
struct fs_fate *fs_fate_of(struct fs_engine *engine, uint32_t context); /* made where there is none; NULL: no memory */
int fs_has_been_revoked(const struct fs_engine *engine, uint32_t context);
static inline int fs_is_revoked(const struct fs_engine *engine, uint32_t context)
{
    return atomic_load_explicit(&engine->revoked, memory_order_relaxed) != 0 && fs_has_been_revoked(engine, context);
}
/* How what is withdrawn in that context ends: FS_CONTEXT_REVOKED, FS_PEER_FAILED where one of the members of a collective context has
 * failed, FS_FINE otherwise. */
int fs_ending(const struct fs_engine *engine, uint32_t context);
/* A member of that context which failed, or FS_ANY.  `all`: also of those that it goes on without. */
int fs_failed_member(const struct fs_engine *engine, uint32_t context, int all);

/* copying.c: between a request's memory and plain memory, from byte `offset` of the message on */
#define FS_STAGE (4u * 1024) /* bytes that stay in the nearest cache between two copies */
void fs_copy_in(const struct fs_request *request, size_t offset, const void *source, size_t length);
void fs_copy_out(const struct fs_request *request, size_t offset, void *target, size_t length);
void fs_copy_across(const struct fs_request *from, const struct fs_request *to, size_t length);
/* Its parts as a vector, no more than `most`; how many. */
int fs_parts_from(const struct fs_request *request, size_t offset, size_t length, struct iovec *vector, int most);
void *fs_in_one_piece(const struct fs_request *request,
                      size_t length); /* its first bytes, or NULL: they are in several, or have gaps */

/* matching.c: with the lock held */
struct fs_bucket *fs_bucket_of(struct fs_engine *engine, uint32_t context, int source, int tag);
void fs_post(struct fs_engine *engine, struct fs_request *request);
void fs_unpost(struct fs_engine *engine, struct fs_request *request);
int fs_waits_for(const struct fs_engine *engine, int peer); /* a posted receive may be that peer's */
struct fs_request *fs_find_posted(struct fs_engine *engine, uint32_t context, int source, int tag); /* taken out */
struct fs_message *fs_message_new(uint32_t context, int source, int tag, size_t length);
void fs_message_free(struct fs_message *message);
void fs_message_add(struct fs_engine *engine, struct fs_message *message);
void fs_message_remove(struct fs_engine *engine, struct fs_message *message);
void fs_matched_add(struct fs_engine *engine, struct fs_message *message);
void fs_matched_remove(struct fs_engine *engine, struct fs_message *message);
struct fs_message *fs_find_message(struct fs_engine *engine, uint32_t context, int source, int tag);
/* Ready for that many bytes: allocates where the request says so.  0, or the failure. */
int fs_accept_envelope(struct fs_request *request, const struct fs_envelope *envelope);
/* How many of the message's bytes the receive takes. */
static inline size_t fs_wanted(const struct fs_request *request, size_t length)
{
    return length < request->length ? length : request->length;
}

/* local.c */
int fs_local_send(struct fs_engine *engine, struct fs_request *request, struct fs_engine *other);
/* Without any lock.  1: nobody had matched it and nobody will.  `by_copy`: where somebody has, he gets a copy. */
int fs_local_withdraw(struct fs_request *request, struct fs_engine *other, int by_copy);
void fs_local_receive(struct fs_engine *engine, struct fs_request *request, struct fs_message *message);

/* losing.c: with the lock held */
#define FS_CLOSED_HERE "this rank's engine was closed"
void fs_peer_lost(struct fs_engine *engine, int peer, int code, const char *reason);
/* They keep their places: a receive that is theirs must fail, and not take one that was sent later for it.  `failed`: one of
 * the two ranks; else one of them has finished. */
void fs_lose_messages(struct fs_engine *engine, int peer, int failed);

/* outgoing.c: with the lock held */
int fs_protocol_send(struct fs_engine *engine, struct fs_request *request, struct fs_link *link);
int fs_link_goodbye(struct fs_engine *engine, struct fs_link *link); /* 1: it is said */
/* Says goodbye as soon as everything is written.  1: a close loses nothing. */
int fs_link_leave(struct fs_engine *engine, struct fs_link *link);

/* credit.c: with the lock held */
void fs_protocol_consumed(struct fs_engine *engine, const struct fs_message *message);
/* A message of that peer (FS_ANY: of anybody) is waited for and is not here: it may be held back over there. */
void fs_protocol_wanted(struct fs_engine *engine, int peer);

/* rendezvous.c: with the lock held */
void fs_receive_message(struct fs_engine *engine, struct fs_request *request, struct fs_message *message);

/* link.c: with the lock held, but where it says otherwise */
void fs_link_abandon_descriptor(struct fs_link *link); /* in a forked child */
void fs_link_free(struct fs_link *link);
void fs_verbs_close(struct fs_engine *engine); /* behind the links */
const char *fs_link_path(const struct fs_link *link);
int fs_links_have_work(const struct fs_engine *engine); /* without the lock: a cache line a link */
int fs_links_are_near(const struct fs_engine *engine);  /* every other end runs on this core; says where we do */
struct pollfd;
/* Before a sleep: what to poll for.  Fills at most `most`; -1: there is something to do at once. */
int fs_links_watch(struct fs_engine *engine, struct pollfd *list, int most);
void fs_links_look(struct fs_engine *engine); /* whether other ends hung up, without the lock */

/* progress.c */
int fs_links_progress(struct fs_engine *engine); /* with the lock held */
int fs_links_round(struct fs_engine *engine);    /* without; how much was done */

/* withdrawal.c: with the lock held */
int fs_protocol_cancel(struct fs_engine *engine, struct fs_request *request, struct fs_link *link); /* 2: asked for */
/* 1: the engine knows nothing more of it.  `patient`: the other end is given time to answer. */
int fs_protocol_abandon_send(struct fs_engine *engine, struct fs_request *request, struct fs_link *link, int patient);
int fs_protocol_abandon_receive(struct fs_engine *engine, struct fs_request *request, int patient);

/* revoking.c: with the lock held */
void fs_end_doomed(struct fs_engine *engine);

/* peers.c */
int fs_peers_reserve(struct fs_engine *engine); /* 0, or -ENOMEM */
void fs_peers_free(struct fs_engine *engine);
void fs_leave_local_peers(struct fs_engine *engine); /* takes the lock of each in turn */

/* collectives.c: without the lock */
static inline int fs_collectives_are_ready(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->ready, memory_order_relaxed) != 0;
}
static inline int fs_collectives_have_work(const struct fs_engine *engine)
{
    return fs_collectives_are_ready(engine) || atomic_load_explicit(&engine->patient_until, memory_order_relaxed) != 0;
}
int fs_collectives_advance(struct fs_engine *engine); /* how many went on */
void fs_collectives_close(struct fs_engine *engine);  /* all end */

#endif
