/* One end of a connection, as one process holds it.
 *
 * The doorbell is the descriptor of a connected UNIX stream socket.  It carries readiness, hang-up and wake-ups.  It
 * carries no payload until the end is released (release.c).  Callers pass it to each call, because duplicates of a
 * socket share one end but each has its own descriptor.
 *
 * Unless said otherwise functions return a count >= 0 or a negative errno:
 *   -EAGAIN      nothing to read, or no room, right now
 *   -ECONNRESET  the other end closed with our bytes unread, or was reset (told once, as TCP does)
 *   -EPIPE       the other end is gone, or this end shut its writing half
 *   -EPROTO      the other end wrote something impossible into the shared memory
 *   -EBUSY       told with FS_AT_ONCE only
 */
#ifndef FASTSOCK_END_H
#define FASTSOCK_END_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "cma_guard.h"
#include "exclusion.h"
#include "layout.h"
#include "parts.h"
#include "ring.h"
#include "shown.h"

enum { FS_SIDE_ACCEPTED = 0, FS_SIDE_CONNECTED = 1 };
enum { FS_READABLE = 1, FS_WRITABLE = 2 };
/* Of a send: PATIENT: the caller will wait for room.  NO_SIGNAL: EPIPE raises no signal.  UNPOLLED: nobody polls for
 * room, so its lack need not be shown.  Of a receive: PEEK leaves the bytes.  Of any call: AT_ONCE, for whoever keeps the
 * interpreter's lock, answers -EBUSY where another thread, or a forked process, works at this end, or the call has to
 * wait for the other end: nothing was done. */
enum { FS_PATIENT = 1, FS_NO_SIGNAL = 2, FS_PEEK = 1, FS_AT_ONCE = 4, FS_UNPOLLED = 8 };

struct fs_limits {
    double spin_us;    /* longest busy wait before sleeping */
    size_t direct_min; /* bytes from which a message may be copied directly, 0 for never */
    int peer;          /* the other process's number as the kernel tells it, 0 where unknown: the end's at first */
};

/* Busy waiting pays only where the answer comes in time.  Its measured success, 0 to 1, decides. */
struct fs_spin {
    _Atomic float success;
    _Atomic uint32_t skipped, rest; /* waits without a spin since the last one; before the next one */
};

/* The same holds for handing the core over.  `rest`: how many waits go without it. */
struct fs_yielding {
    _Atomic uint32_t rest;
};

/* Counts waits in a row that ended at once although nothing had moved: the other end may feign readiness. */
struct fs_feint {
    _Atomic uint32_t rounds;
    _Atomic uint64_t moved; /* bytes by then */
};

/* How a large block was copied. */
enum { FS_BY_NOBODY_YET = 0, FS_BY_RING = 1, FS_BY_RECEIVER = 2, FS_BY_BOTH = 3 };

/* What copying costs lately, in ticks a unit (cma_choice.c); 0: unknown. */
struct fs_copy_costs {
    uint64_t take, put;               /* out of the ring, into it */
    uint64_t direct[FS_COST_CLASSES]; /* past it, for buffers of that class */
    struct fs_trials ring_trials, direct_trials[FS_COST_CLASSES];
    int asked;                      /* the class of the buffer that was asked for last */
    uint32_t cpu_in[2], cpu_out[2]; /* where this end and the other one ran then */
};

struct fs_statistics {
    /* bytes_direct: of both, those that did not go through the ring; bytes_written: what the sender copied of
     * large blocks, which it may have done in vain */
    _Atomic uint64_t bytes_sent, bytes_received, bytes_direct, bytes_written, waits, wakes, spins;
    _Atomic uint64_t calls_out, calls_in; /* that moved bytes; switch/ counts them */
};

/* The mapping of one segment. */
struct fs_segment {
    _Atomic int holders;
    struct fs_segment_header *header;
    size_t mapped;
    uint32_t small; /* checked copy of the header's */
    int (*unmap)(void *, size_t);
};

/* Who serves the other end from within this process.  A thread of the program that waits or has sent does it at once,
 * rather than wake the thread that does it else. */
struct fs_assistant {
    void (*assist)(void *of); /* NULL: nobody.  What can be done now; never waits */
    void (*look)(void *of);   /* the same for news, by a thread that will look again, or rely on the other one */
    void (*rely)(void *of);   /* before a sleep: the other one hears of all news from now on */
    void (*rely_no_more)(void *of);
    void (*drop)(void *of);
    void *of;
};

struct fs_end;

/* How the other end hears that something has moved, and who polls the descriptor sees it: by the doorbell, or by tokens on
 * a connection that keeps its TCP socket (core/switch).  Called with that direction's lock. */
struct fs_signals {
    void (*published)(struct fs_end *end, int descriptor, int edge); /* edge: the first or the last bytes of a send */
    void (*room)(struct fs_end *end, int descriptor);                /* half of the ring at least */
    void (*taken)(struct fs_end *end, int descriptor);               /* at the end of a receive */
};
extern const struct fs_signals fs_doorbell_signals;

struct fs_end {
    const struct fs_signals *signals;
    void *owner;         /* the signals' */
    _Atomic int holders; /* of this structure, within the process */
    _Atomic int peer;    /* the other process's number as the kernel tells it, 0 where unknown */
    struct fs_segment *segment;
    struct fs_segment_header *header;
    int side;
    uint32_t forks_at_start;
    struct fs_exclusion exclusion;
    struct fs_ring out, in;
    /* Threads of this process may look while another one writes: */
    _Atomic uint32_t notice_seen; /* of the other end's closing, what was last looked into at the doorbell */
    _Atomic uint64_t looked_at;   /* ticks of the last look at the doorbell */
    _Atomic int gone;             /* the other end is closed: known from the kernel */
    _Atomic int reset;            /* and it left with a reset */
    _Atomic int closed;           /* by this process: nothing of it will use the end any more */
    _Atomic int end_shown;     /* by the doorbell, perhaps to a sender: a receiver that waits briefly must look too */
    _Atomic int ended;         /* nothing more will come in */
    _Atomic int pending_error; /* errno to be told once */
    _Atomic int pretended;     /* one send after the other end's close was swallowed, as TCP does */
    _Atomic int buried;        /* its descriptor lay in this end's queue, and is closed */
    _Atomic int sleepers;      /* threads of this process that poll the doorbell until something comes in */
    _Atomic int kernel_reading_shut; /* the kernel was told of our shutdown(SHUT_RD) */
    _Atomic int abrupt;              /* its pump, or the other end's, goes by HUP: it bids no farewell */
    int lifeline;                    /* through it our descriptor will travel (farewell.c), or -1 */
    ino_t lifeline_file;
    struct fs_end *next, *previous; /* of this process */
    /* bytes, by who waits for room in a ring that could grow: less would cut what is sent; 0: any are enough */
    _Atomic size_t room_wanted;
    _Atomic int lazy;            /* fastsock's own loop settles the doorbell before it blocks */
    _Atomic int raw_in, raw_out; /* that direction goes over the doorbell itself */
    /* direct copy (cma_offer.c), as sender and as receiver */
    uint64_t nonce, writes;
    uint64_t answered; /* the last asking that was */
    uint32_t offers;
    uint16_t askings;
    int unwritable; /* the receiver's memory */
    int wants, unreadable, unguarded;
    struct fs_guard guard;
    struct fs_copy_costs costs;
    _Atomic uint32_t large_in, large_out; /* how large blocks come and go, lately: FS_BY_RING ... */
    struct fs_spin spin_read, spin_write;
    struct fs_yielding yield_read, yield_write;
    struct fs_feint feint_read, feint_write;
    struct fs_assistant assistant;
    struct fs_limits limits;
    struct fs_statistics statistics;
    struct fs_shown *_Atomic shown; /* where others read some of it; NULL: nowhere */
};

/* These two are rare beside calls: they are shown where they are counted. */
static inline void fs_count_wake(struct fs_end *end)
{
    uint64_t wakes = fs_count(&end->statistics.wakes, 1);
    struct fs_shown *shown = atomic_load_explicit(&end->shown, memory_order_acquire);
    if (shown != NULL) fs_show(&shown->wakes, wakes);
}

static inline void fs_count_wait(struct fs_end *end)
{
    uint64_t waits = fs_count(&end->statistics.waits, 1);
    struct fs_shown *shown = atomic_load_explicit(&end->shown, memory_order_acquire);
    if (shown != NULL) fs_show(&shown->waits, waits);
}

static inline void fs_note_large(_Atomic uint32_t *kept, uint32_t how)
{
    if (atomic_load_explicit(kept, memory_order_relaxed) != how) atomic_store_explicit(kept, how, memory_order_relaxed);
}

/* segment.c: sealed memory.  `fs_segment_create` returns a descriptor or -errno. */
int fs_segment_create(uint32_t small_bytes);
struct fs_segment *fs_segment_make(uint32_t small_bytes, int *memory); /* mapped at once; NULL: `memory` is -errno */
struct fs_segment *fs_segment_map(int memory, int *error);
/* The same for memory that is mapped already.  It is page-aligned and cannot shrink.  `unmap` gives it back, also where
 * this fails.  Its contents are checked as those of any other segment. */
struct fs_segment *fs_segment_adopt(void *memory, size_t size, int (*unmap)(void *, size_t), int *error);
size_t fs_segment_bytes(uint32_t small_bytes); /* that a segment takes; 0 for a size that none can have */
int fs_segment_format(void *memory, size_t size, uint32_t small_bytes); /* of zeroes, before anybody maps it */
/* sysv.c: System V shared memory, by its identifier.  -ESTALE: a segment, but with another token. */
int fs_sysv_format(int id, uint32_t small_bytes, uint64_t token);
struct fs_segment *fs_sysv_attach(int id, uint64_t token, int *error);
struct fs_segment *fs_segment_hold(struct fs_segment *segment);
void fs_segment_drop(struct fs_segment *segment); /* the last holder unmaps it */
unsigned char *
fs_segment_rings(const struct fs_segment *segment); /* behind the header: that of side 0, then the other */

/* ends.c */
struct fs_end *fs_end_open_on(struct fs_segment *segment, int side, const struct fs_limits *limits, int *error);
/* With locks that the caller keeps, whose page is NULL, and its own signals.  NULL: there is no memory. */
struct fs_end *fs_end_open_with(struct fs_segment *segment, int side, const struct fs_limits *limits,
                                const struct fs_exclusion *exclusion, const struct fs_signals *signals, void *owner);
struct fs_end *fs_end_open(int memory, int side, const struct fs_limits *limits, int *error);
struct fs_end *fs_end_hold(struct fs_end *end);
void fs_end_free(struct fs_end *end);         /* the last holder unmaps the memory */
void fs_ends_leave(const struct fs_end *but); /* a fresh child that lets go of all ends but one, and says so */
int fs_end_is_last(struct fs_end *end);       /* of all processes that hold it; counts this one out: once */

/* What this process knows of an end without a system call. */
static inline int fs_end_shared(const struct fs_end *end) { return end->forks_at_start != fs_fork_count(); }
static inline int fs_end_is_watched(const struct fs_end *end)
{
    return (int)atomic_load_explicit(&end->in.shared->watched, memory_order_relaxed);
}
static inline int fs_end_has_data(const struct fs_end *end) /* in the ring */
{
    return !end->raw_in && fs_published(end->in.shared) != atomic_load(&end->in.shared->tail);
}
static inline void fs_end_assist(const struct fs_end *end)
{
    if (end->assistant.assist != NULL) end->assistant.assist(end->assistant.of);
}
static inline void fs_end_look_once(const struct fs_end *end)
{
    if (end->assistant.assist != NULL) end->assistant.look(end->assistant.of);
}
static inline void fs_end_rely(const struct fs_end *end, int relies) /* around a sleep */
{
    if (end->assistant.assist != NULL) (relies ? end->assistant.rely : end->assistant.rely_no_more)(end->assistant.of);
}
static inline int fs_end_is_elsewhere(const struct fs_end *end) /* the other end ran last on another core, or host */
{
    if (end->assistant.assist != NULL) return 1;
    return atomic_load_explicit(&end->header->cpu[!end->side], memory_order_relaxed) != fs_current_cpu();
}
static inline uint32_t fs_side_mark(int side) { return 1u << side; }
static inline void fs_end_show_importer(const struct fs_end *end, uint64_t importer)
{
    atomic_store(&end->header->importer[end->side], importer);
}
static inline uint64_t fs_end_other_importer(const struct fs_end *end)
{
    return atomic_load(&end->header->importer[!end->side]);
}
static inline int fs_end_other_left(const struct fs_end *end) /* it was closed in good order */
{
    return (atomic_load(&end->header->left) & fs_side_mark(!end->side)) != 0;
}

/* moving.c: with that direction's lock. */
ssize_t fs_end_put(struct fs_end *end, int descriptor, struct fs_parts *parts, int flags); /* what fits, or -EAGAIN */
/* What is there.  Takes off the patience what it waited for bytes that are promised. */
ssize_t fs_end_take(struct fs_end *end, int descriptor, unsigned char *target, size_t length, uint64_t *patience);
int fs_end_is_large(const struct fs_end *end, size_t length);   /* so that it may go past the ring */
void fs_end_wake_reader(struct fs_end *end);                    /* of the other end, from its futex */
void fs_end_relieve_writer(struct fs_end *end, int descriptor); /* of the other end, where there is room again */

/* transfer.c */
/* What has FS_TOGETHER bytes at most becomes readable at once, where there is room for all of it.  What has more goes in
 * chunks, so that the other end reads one while this end writes the next.  Where there is too little room the first bytes
 * go, as of any stream. */
enum { FS_TOGETHER = 64 * 1024 + 256 };
ssize_t fs_end_send(struct fs_end *end, int doorbell, const void *data, size_t length, int flags);
ssize_t fs_end_send_parts(struct fs_end *end, int doorbell, struct fs_parts *parts,
                          int flags); /* takes off what goes */
ssize_t fs_end_receive(struct fs_end *end, int doorbell, void *target, size_t length, int flags, int look_for_end);
ssize_t fs_end_unread(struct fs_end *end, int doorbell);
/* For a pump whose device reads and writes the rings itself (fs_ring_run()).
 * Place: `length` bytes come behind what was published; NULL: they lie there already.  There must be room.  0; -EPIPE:
 * nobody will read them; -EBUSY: the doorbell carries them, so fs_end_send() must take them.
 * Consume: bytes that were read in place. */
int fs_end_place(struct fs_end *end, int doorbell, const void *data, size_t length);
int fs_end_consume(struct fs_end *end, int doorbell, size_t length);
int fs_end_shutdown(struct fs_end *end, int doorbell, int how);
void fs_end_leaves(struct fs_end *end, uint32_t how); /* FS_BY_RESET ...: what its end will mean to the other end */
/* Around the last close of `doorbell` in this process. */
void fs_end_closing(struct fs_end *end, int doorbell, int reset);
void fs_end_closed(struct fs_end *end);
int fs_end_urgent_inline(const struct fs_end *end); /* what the other end set by the next one: SO_OOBINLINE */
void fs_end_set_urgent_inline(struct fs_end *end, int on);
/* As SO_SNDBUF and SO_RCVBUF.  The first alone keeps a ring from growing; both together bound what is unread in it. */
void fs_end_set_send_buffer(struct fs_end *end, uint64_t bytes);
void fs_end_set_receive_buffer(struct fs_end *end, int doorbell, uint64_t bytes);
int fs_end_was_reset(struct fs_end *end, int doorbell);
int fs_end_is_over(struct fs_end *end, int doorbell); /* so, or both ends shut their halves: not connected any more */
int fs_end_take_error(struct fs_end *end, int doorbell); /* what SO_ERROR answers: a positive errno or 0 */

/* farewell.c */
int fs_farewell_shut(struct fs_end *end, int doorbell, int how, int locked); /* with the producer's lock, if locked */
void fs_farewell_show(struct fs_end *end, int doorbell); /* somebody polls who must see that reading is shut */
void fs_farewell_read_to_the_end(struct fs_end *end, int doorbell); /* with the consumer's lock */
void fs_farewell_close(struct fs_end *end, int doorbell);           /* with everything read, and before the close */
void fs_farewell_close_raw(struct fs_end *end, int doorbell);       /* the same, where the doorbell carries payload */
void fs_farewell_bury(struct fs_end *end, int doorbell, int with_error); /* the other end, by a send to it */
void fs_farewell_drop_lifeline(struct fs_end *end);

/* doorbell.c: called with that direction's lock held */
int fs_doorbell_end(struct fs_end *end, int doorbell); /* the other end's, for good: 0, or -EAGAIN while it rings */
void fs_doorbell_begin_again(struct fs_end *end);      /* after fs_doorbell_end() */
int fs_doorbell_is_rung(const struct fs_end *end);
void fs_doorbell_ring(struct fs_end *end, int doorbell, int knock); /* knock: also where nothing is unread */
void fs_doorbell_stuff(struct fs_end *end, int doorbell);
int fs_doorbell_settle(struct fs_end *end, int doorbell); /* 1: nothing to read and the doorbell says so */
void fs_doorbell_unstuff(struct fs_end *end, int doorbell);
int fs_doorbell_eat_all(struct fs_end *end, int doorbell); /* 0, or -EAGAIN when tokens are still under way */
/* Bytes that are neither tokens nor a farewell: code that knows nothing of the ring writes to the other end's
 * descriptor. -EAGAIN: a farewell is under way, so the bytes cannot be told apart. */
ssize_t fs_doorbell_foreign(const struct fs_end *end, int doorbell);
int fs_doorbell_prepare(int doorbell);
int fs_doorbell_plain(int doorbell);

/* wait.c: called without any lock, and without the interpreter's.  0: look again; -EINTR; -ETIMEDOUT; -EBADF: `leaving`
 * is set.  A caller that looks in vain again and again sleeps a little each time: no value written by another process
 * keeps it busy for ever.  `deadline_ns` is on fs_now_ns()'s clock, UINT64_MAX for none. */
int fs_end_wait(struct fs_end *end, int doorbell, int what, uint64_t deadline_ns, const _Atomic int *leaving);
/* The two halves of fs_end_wait(): first spin and futex (FS_IN_VAIN: now the other half), then the sleep that may last.
 * A signal during the first half does not end the second: a caller that runs handlers looks for them in between. */
enum { FS_IN_VAIN = 1 };
int fs_end_wait_briefly(struct fs_end *end, int what, uint64_t deadline_ns, const _Atomic int *leaving);
/* And those of the first one.  Awake: it spins, or hands its core over, once: 1 where there is something then.  No clock is
 * asked and no bound holds, so whoever looks in vain after it goes on by one of the others.  Then the futex alone. */
int fs_end_wait_awake(struct fs_end *end, int what);
int fs_end_doze(struct fs_end *end, int what, uint64_t deadline_ns, const _Atomic int *leaving);
int fs_end_wait_long(struct fs_end *end, int doorbell, int what, uint64_t deadline_ns, const _Atomic int *leaving);
int fs_end_look(struct fs_end *end, int what); /* with the interpreter's lock, and for short: 1 when it became so */
int fs_yield_is_due(struct fs_yielding *past); /* 0: it rests, for one more call */
int fs_spin_is_due(struct fs_spin *past);      /* then to be told whether it was answered */
void fs_spin_learn(struct fs_spin *past, int answered);
/* While it spins: whether so much time has gone by since the clock was read last that somebody else had this core.  Then
 * others have work for it, and waits go without a spin for a while. */
int fs_spin_has_lost_core(uint64_t *last);
void fs_spin_put_off(struct fs_spin *past);
int fs_yield_try(struct fs_yielding *past, uint64_t *start); /* 1: did so; then to be told whether that was answered */
void fs_yield_learn(struct fs_yielding *past, uint64_t start, int ready, int ends); /* for how many ends at once */
/* The same bound for other waits on an end.  They began at those ticks and say `result`, 0: look again; so many bytes have
 * moved ever. */
int fs_end_heed_feints(struct fs_end *end, int what, uint64_t moved, uint64_t began, uint64_t deadline_ns, int result);
int fs_leaving_descriptor(void); /* readable while somebody of this process leaves; -1: there is none */
void fs_wake_leaving(void);      /* makes every sleeper of this process look at its `leaving` */
void fs_wake_leaving_done(void);
void fs_end_wake(struct fs_end *end); /* futex sleepers on this end, whoever they are */

/* readiness.c */
void fs_end_watch(struct fs_end *end, int doorbell); /* the descriptor was given away: be exact from now on */
void fs_end_set_lazy(struct fs_end *end, int lazy);  /* whether fastsock's own loop settles it before it blocks */
/* Called before fastsock's own loop blocks: 1 when the ring holds something.  `flags`: 0 or FS_AT_ONCE. */
int fs_end_settle(struct fs_end *end, int doorbell, int flags);

int fs_end_writable(struct fs_end *end, size_t least); /* bytes of room, or any where it is 0 */
int fs_end_has_stale_token(const struct fs_end *end); /* the doorbell shows nothing else, as far as can be known here */

/* promise.c */
void fs_promise(struct fs_end *end, size_t length); /* that many bytes follow in this send; with its lock held */
size_t fs_promised(const struct fs_end *end);       /* by the other end */
int fs_await_promised(struct fs_end *end,
                      uint64_t *patience_ticks); /* 1 when more is there; takes off what it waited */

/* release.c: the way back to the kernel.  0: `doorbell` itself now carries the bytes, both ways.  -EAGAIN: unread bytes
 * are in the way. */
int fs_end_release(struct fs_end *end, int doorbell);
/* Code without fastsock has the other end's descriptor (fs_doorbell_foreign()) and reads there too.  Called with the
 * receiver's lock.  0: the doorbell carries the bytes both ways.  -EPROTO: that code was sent bytes that it cannot
 * read. -EAGAIN: look again. */
int fs_end_follow(struct fs_end *end, int doorbell);

/* bridge.c: a pump between the ring and `inner`.  It holds `end` and takes over `doorbell` and `inner`: 0.  On -errno
 * nothing was moved or closed. */
int fs_bridge_start(struct fs_end *end, int doorbell, int inner);
/* The same in a process of its own.  That process outlives this one. */
int fs_bridge_fork(struct fs_end *end, int doorbell, int inner);

#endif
