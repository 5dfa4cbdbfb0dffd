/* The message engine of one rank: matching, progress and waiting, over links to the other ranks.
 *
 * Every function may be called by several threads at once; none calls back.  What a caller must do after a call is in
 * its result.  A request belongs to the caller and is never moved; its buffers stay as they are until it is done.
 */
#ifndef FASTSOCK_ENGINE_H
#define FASTSOCK_ENGINE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { FS_ANY = -1 };                                                                /* source and tag */
enum { FS_STANDARD = 0, FS_SYNCHRONOUS = 1 };                                        /* modes of sending */
enum { FS_SENDING, FS_RECEIVING, FS_USER_REQUEST, FS_REMOTE_WRITE, FS_REMOTE_READ }; /* kinds of request */
enum fs_failure {
    FS_FINE,
    FS_TRUNCATED,
    FS_PEER_FAILED,
    FS_PROTOCOL,
    FS_CANCELLED,
    FS_CLOSED,
    FS_NO_MEMORY,
    FS_PEER_LEFT,     /* of a receive that no message matched: its sender has finished */
    FS_SENDER_FAILED, /* of a receive from anybody that no message matched: somebody failed; fs_engine_receive() again */
    FS_CONTEXT_REVOKED, /* the context was revoked */
};

/* What a call asks of its caller; FS_PENDING may come with FS_PEER_MISSING. */
enum {
    FS_DONE = 0,         /* the request is complete, and nothing else will be heard of it */
    FS_PENDING = 1,      /* it will complete */
    FS_PEER_MISSING = 2, /* first need of a peer that is not attached: connect to it */
    FS_LATER = 4,        /* of fs_engine_expect(): the message has come, and is still to be received */
    FS_UNREACHED = 8,    /* of fs_engine_reach(): nothing was begun: messages are to do it */
};

/* Results of waiting. */
enum {
    FS_SATISFIED = 0,
    FS_FINISHED_SOME = 1, /* requests with a callback completed: fs_engine_finished() has them */
    FS_LOOK_UP = 2,       /* look for signals, then call again */
};

struct fs_engine;
struct fs_layout;
struct fs_message;
struct fs_collective;
struct fs_end;

struct fs_envelope {
    int source, tag;
    size_t length;
};

struct fs_request {
    struct fs_request *next, *previous; /* in whichever queue it stands */
    struct fs_engine *engine;
    struct iovec one;
    const struct iovec *parts; /* &one, or the caller's */
    size_t count, length;
    const struct fs_layout *layout; /* of items with gaps, from one.iov_base on: then there are no parts */
    int64_t extent;                 /* from one item to the next */
    size_t moved;                   /* bytes that went, or came, already */
    struct fs_envelope envelope;    /* of a receive: what came */
    void *payload;                  /* of a receive that allocates; the caller's once done: free() */
    void *owner;                    /* the caller's; with it the request is handed to fs_engine_finished() */
    struct fs_message *message; /* a send that waits in a queue of this process; a receive that waits for the rest */
    uint64_t sequence;
    int peer, tag;
    uint32_t context;
    uint32_t id; /* under which the other end knows it; 0 for none */
    uint8_t kind, mode, allocates, tracked, state;
    uint8_t has_callback; /* wakes whoever waits: he runs it */
    uint8_t late;         /* its caller's: fs_engine_expect() said FS_LATER */
    uint8_t cancelled;
    int error; /* enum fs_failure */
    _Atomic int done;
    struct fs_collective *awaited_by; /* goes on when it completes, and nobody else waits for it */
    /* what the device moves */
    uint64_t there;                       /* where the bytes lie in the other process */
    const struct fs_layout *layout_there; /* as items with gaps, from there on; NULL: in one piece */
    int64_t extent_there;
    struct fs_ibvx_region *region; /* its memory, while the device knows it */
    uint32_t key;                  /* of the memory `there` */
};

struct fs_engine_options {
    size_t eager_limit; /* bytes up to which a message travels with its envelope */
    size_t credit;      /* bytes of such messages that one peer may have unconsumed here */
    double spin_us;     /* longest busy wait */
    int crowded;        /* more ranks than cores on this host: hand the core over while waiting */
};

/* Of an interpreter whose lock a caller may hold: `leave` gives it up, NULL where the thread has it not; `enter` takes it
 * back. Before the first engine. */
void fs_engines_heed_interpreter(void *(*leave)(void), void (*enter)(void *left));
/* The engine of rank `rank` of `size`, held once.  NULL with `error`: -EINVAL for such ranks, or -ENOMEM. */
struct fs_engine *fs_engine_new(int rank, int size, const struct fs_engine_options *options, int *error);
/* Another user holds it; each release takes one hold back, and the last one frees the engine. */
void fs_engine_hold(struct fs_engine *engine);
void fs_engine_release(struct fs_engine *engine);
/* Before its first message: other processes of this user see what it counts (shown.h). */
void fs_engine_show(struct fs_engine *engine);
void fs_engine_note_collective(struct fs_engine *engine); /* its caller begins one, however it is done */
/* One round of leaving: of writing what was sent, of saying goodbye behind it.  1: a close loses nothing of that, nor
 * does the end of this process.  Who has been told goodbye is answered no more. */
int fs_engine_leave(struct fs_engine *engine);
/* Everything pending ends with FS_CLOSED.  Then fs_engine_finished() once more, and release. */
void fs_engine_close(struct fs_engine *engine);
int fs_engine_is_usable(const struct fs_engine *engine); /* not closed, and not a forked child's copy */
void fs_engine_after_fork(struct fs_engine *engine);     /* in the child: gives the descriptors back */

/* 0 or -errno: -EEXIST attached already, -EINVAL, -EPIPE failed already. The engine owns what it was given only on 0. */
int fs_engine_attach_local(struct fs_engine *engine, int peer, struct fs_engine *other);
int fs_engine_attach_end(struct fs_engine *engine, int peer, struct fs_end *end, int doorbell);
int fs_engine_attach_descriptor(struct fs_engine *engine, int peer, int descriptor);
/* A TCP connection both of whose directions go through memory (switch/owned.h); -ENOTCONN: they do not. */
int fs_engine_attach_memory(struct fs_engine *engine, int peer, int descriptor);
/* Opens an RDMA device, once for all peers: 0 or -errno, as fs_ibvx_open().  `offers`: long messages that are sent are read
 * by the receiver's device; else the sender's writes them. */
struct fs_ibvx_options;
int fs_engine_open_verbs(struct fs_engine *engine, const struct fs_ibvx_options *options, int offers);
/* A queue pair to whoever does the same at the other end of a connected stream.  The ends tell each other over the stream
 * where their queue pairs are.  It stays open: its end is the peer's. */
int fs_engine_attach_verbs(struct fs_engine *engine, int peer, int descriptor);
/* What went over that link: 1, or 0 where it is none of verbs. */
struct fs_ibvx_counts;
/* The device knows that memory from now on, until `pins` is 0.  0, or -ENODEV, -EOPNOTSUPP, -ENOMEM, -ENOENT. */
int fs_engine_pin(struct fs_engine *engine, void *memory, size_t length, int pins);
int fs_engine_verbs_counts(struct fs_engine *engine, int peer, struct fs_ibvx_counts *counts, char *device,
                           size_t size);
/* All messages from and to the peer end with FS_PEER_FAILED from now on; fs_engine_reason() tells `reason`. */
void fs_engine_fail(struct fs_engine *engine, int peer, const char *reason);
/* That peer finished before it was attached.  Where it is attached, its goodbye says so. */
void fs_engine_left(struct fs_engine *engine, int peer);
/* Ranks of other jobs, by what they call themselves: the number of the first of them here, or -ENOSPC. */
int fs_engine_add_peers(struct fs_engine *engine, const int *ranks, size_t count);
/* A receive from anybody in that context fails where one of these ranks has failed; the job's by default.  0, -ENOMEM. */
int fs_engine_set_members(struct fs_engine *engine, uint32_t context, const int *ranks, size_t count);
int fs_engine_clear_members(struct fs_engine *engine, uint32_t context);
/* Nothing goes on in these contexts any more: what is pending there ends with FS_CONTEXT_REVOKED, and so does what begins.
 * Who sees one of them revoked sees all.  0, -ENOMEM. */
int fs_engine_revoke(struct fs_engine *engine, const uint32_t *contexts, size_t count);
int fs_engine_is_revoked(struct fs_engine *engine, uint32_t context);
/* When that peer failed: 1 for the first one that this engine heard of, and so on; 0: it has not. */
uint32_t fs_engine_failure(struct fs_engine *engine, int peer);
/* A member of that context which failed, or FS_ANY. */
int fs_engine_failed_member(struct fs_engine *engine, uint32_t context);
/* Receives from anybody in that context go on without those who failed up to then.  0, -ENOMEM. */
int fs_engine_acknowledge(struct fs_engine *engine, uint32_t context, uint32_t failure);
/* From now on contexts of odd numbers below FS_APART are of collective operations: when one of their members has failed, nobody
 * waits in them for long, whoever else is waited for. */
#define FS_APART (1u << 31)
void fs_engine_has_collectives(struct fs_engine *engine);
void fs_engine_forget_fate(struct fs_engine *engine, uint32_t context); /* nobody uses that context any more */
/* Copies why the peer failed and over which path it was reached; 1 when there was anything to tell. */
int fs_engine_reason(struct fs_engine *engine, int peer, char *reason, size_t reason_size, const char **path);
int fs_engine_only_local(const struct fs_engine *engine); /* whoever it waits for is a thread of this process */

/* 1: the waiting ones will be told of its completion by FS_FINISHED_SOME; 0: it is done already. */
int fs_engine_set_callback(struct fs_engine *engine, struct fs_request *request);

/* Prepares a request; `parts` stay the caller's, and may be NULL for `one`. */
void fs_request_prepare(struct fs_request *request, int kind, const struct iovec *parts, size_t count);
/* Of `length` bytes of data in items with gaps (strided.h).  The layout stays the caller's. */
void fs_request_prepare_items(struct fs_request *request, int kind, void *origin, const struct fs_layout *layout,
                              int64_t extent, size_t length);
/* To a rank that has finished a message up to the eager limit is sent in vain, and well; a longer or synchronous one ends
 * with FS_PEER_FAILED.  That is so whichever came first, the goodbye or the send.
 *
 * Sending and receiving give FS_DONE (the request's `error` tells how it ended) or FS_PENDING, perhaps with FS_PEER_MISSING.
 * `peer` and `tag` of a receive may be FS_ANY. */
int fs_engine_send(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context, int mode);
int fs_engine_receive(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context);
/* Of a request that ended with FS_SENDER_FAILED: fs_engine_receive() may be called with it once more. */
void fs_engine_again(struct fs_request *request);
/* For whoever receives and sends at the same time.  As fs_engine_receive(), unless the message has come: then FS_LATER, and
 * fs_engine_receive() is to be called behind the sends.  To take a message that is here takes as long as to copy it, and
 * the other end waits for what is sent: if each took first, the two would copy by turns. */
int fs_engine_expect(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context);
/* Nobody connects to that peer, though FS_PEER_MISSING was said: it is said once more. */
void fs_engine_ask_again(struct fs_engine *engine, int peer);
/* 1: cancelled, or the other end was asked to; 0: too late.  One that ended with FS_PEER_LEFT or FS_SENDER_FAILED still can be. */
int fs_engine_cancel(struct fs_engine *engine, struct fs_request *request);
/* The caller's memory is about to go: on return the engine knows nothing more of the request. */
void fs_engine_abandon(struct fs_engine *engine, struct fs_request *request);

/* A request that moves nothing: it completes when its caller says so, once. */
void fs_engine_begin_user_request(struct fs_engine *engine, struct fs_request *request);
void fs_engine_end_user_request(struct fs_engine *engine, struct fs_request *request, int error);

/* One-sided: devices of other ranks may write and read that memory by the key, without this rank, until it is concealed.
 * 0, or -ENODEV, -ENOMEM. */
int fs_engine_expose(struct fs_engine *engine, void *memory, size_t length, uint32_t *key);
void fs_engine_conceal(struct fs_engine *engine, uint32_t key);
/* The device writes the bytes of a request to a peer's exposed memory, or reads them there, by its kind.  They are moved in
 * the order of these calls, writes before what is read or sent behind them.  A write is done once its bytes may change:
 * one that is read behind it is there.  Neither can be cancelled or abandoned.  `layout`: of the items over there, which
 * stays the caller's; NULL: there are no gaps. */
int fs_engine_reach(struct fs_engine *engine, struct fs_request *request, int peer, uint32_t context, uint64_t address,
                    uint32_t key, const struct fs_layout *layout, int64_t extent);

/* What a probe finds.  FS_NEVER: fs_engine_probe_failed() tells why, unless it was never so. */
enum { FS_NEVER = -1, FS_NOT_YET, FS_HERE };
int fs_engine_probe(struct fs_engine *engine, int peer, int tag, uint32_t context, struct fs_envelope *envelope);
/* 1: no such message will ever come; the request is filled in for the error: FS_PEER_LEFT where that is no failure. */
int fs_engine_probe_failed(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context);
/* A count that moves with each message that no receive was posted for, and with each failure.  It wraps. */
uint32_t fs_engine_arrivals(const struct fs_engine *engine);
/* A probe that takes the message: nobody else finds it, and it must be received. */
int fs_engine_match(struct fs_engine *engine, int peer, int tag, uint32_t context, struct fs_envelope *envelope,
                    struct fs_message **message);
/* As fs_engine_receive(), for a message that fs_engine_match() gave: exactly one of these two takes it. */
int fs_engine_receive_matched(struct fs_engine *engine, struct fs_request *request, struct fs_message *message);
void fs_engine_drop_matched(struct fs_engine *engine, struct fs_message *message);

/* One round, without waiting; how much was done. */
int fs_engine_progress(struct fs_engine *engine);
/* For whoever looks again and again without waiting, after each look in vain: 1 where others may need this core, or the
 * interpreter, to answer.  Then it is time for fs_engine_give_way(). */
int fs_engine_is_in_the_way(struct fs_engine *engine);
void fs_engine_give_way(struct fs_engine *engine);
/* Rounds with the interpreter's lock, for short or until the request is done: 1 when it is. */
int fs_engine_look(struct fs_engine *engine, const struct fs_request *request);
/* The same, until fs_engine_arrivals() has moved. */
int fs_engine_look_out(struct fs_engine *engine, uint32_t arrivals);
/* The next request with an owner that completed, or NULL. */
struct fs_request *fs_engine_finished(struct fs_engine *engine);
int fs_engine_has_finished(const struct fs_engine *engine);

struct fs_wait {
    struct fs_engine *engine;
    struct fs_request *const *requests;
    size_t count, first; /* `first`: those before it are done (all), or the one that is (any) */
    int all;
    int any_message;      /* instead: until `events`, from fs_engine_arrivals() before a probe in vain, has moved */
    int any_finished;     /* instead: until fs_engine_finished() has something */
    uint64_t deadline_ns; /* UINT64_MAX for none */
    uint64_t spin_until;
    uint32_t events;
    int looked_up;
    uint64_t working_since;
    uint32_t worked; /* rounds with progress */
};
void fs_wait_prepare(struct fs_wait *wait, struct fs_engine *engine, struct fs_request *const *requests, size_t count,
                     int all, uint64_t deadline_ns);
/* FS_SATISFIED, FS_FINISHED_SOME, FS_LOOK_UP, -ETIMEDOUT or -EINTR. */
int fs_wait(struct fs_wait *wait);

static inline int fs_request_is_done(const struct fs_request *request)
{
    return atomic_load_explicit(&request->done, memory_order_acquire);
}

#endif
