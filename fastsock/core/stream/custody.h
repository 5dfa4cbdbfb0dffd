/* Custody: a connection whose other end has not called accept() yet is kept on behalf of that end.
 *
 * The connecting end uses shared memory already.  What it sends goes to TCP as well, within the same call.  So a server
 * without fastsock misses nothing, and the kernel has every byte whatever becomes of this process.
 *
 * One thread keeps the accepting side's things: doorbell, memory, TCP's descriptor, the name to connect back to.  It
 * hands them to an accepting end that connects back.  That end answers by one byte and has joined: TCP is done with,
 * but its port stays the connection's.  When the end says no, or other code accepted, the thread becomes the pump
 * between the ring and TCP (relay.c).  Other code shows itself: it speaks on TCP, or reads what TCP has.  Where it does
 * neither, time tells, but not of a listener with the sign (sockets/accepted.h).
 */
#ifndef FASTSOCK_CUSTODY_H
#define FASTSOCK_CUSTODY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "end.h"

struct fs_custody;

enum {
    FS_CUSTODY_PENDING, /* nobody connected back */
    FS_CUSTODY_HANDED,  /* somebody did, was told everything, and has not answered */
    FS_CUSTODY_JOINED,
    FS_CUSTODY_RELAYED, /* the other end is on TCP for good */
    FS_CUSTODY_ENDED,   /* closed, or taken back, before any of that */
};

struct fs_custody_terms {
    struct sockaddr_storage connecting, listening; /* TCP's addresses */
    unsigned char hello[64];                       /* to whoever connects back, with the memory and the doorbell */
    size_t hello_length;
    int any_user;         /* else only this process's own */
    uint64_t patience_ns; /* for one who accepted and does not connect back */
};

/* `end` is the connecting one, `doorbell` the accepting one's.  Takes all descriptors over, unless it fails: -errno.
 * -EMFILE also means that custody would use up the descriptors that the program may open. */
int fs_custody_begin(struct fs_end *end, int doorbell, int memory, int stream, int listener,
                     const struct fs_custody_terms *terms);
/* Gives TCP's descriptor back and ends custody: an end that connects back later finds nobody.  -EBUSY: too late. */
int fs_custody_take_back(struct fs_custody *custody);
/* Hands the pump to a process of its own.  That process survives this one.  -EBUSY: not now, or not needed any more. */
int fs_custody_fork(struct fs_custody *custody);
/* Becomes the pump at once, if nobody connected back. */
void fs_custody_relay(struct fs_custody *custody);

/* Gives TCP's descriptor to a caller that goes on without the end, or -1.  Once the other end has joined, the
 * descriptor is kept only for its port. */
int fs_custody_take_port(struct fs_custody *custody);

/* The state, once the answer is heard that has come by now: the thread may not have come to that. */
int fs_custody_hear(struct fs_custody *custody);
int fs_custody_is_accepted(const struct fs_custody *custody);    /* as far as was seen */
uint64_t fs_custody_lasted_ns(const struct fs_custody *custody); /* until it was decided, or now */
pid_t fs_custody_joined_by(const struct fs_custody *custody);

/* What the connecting end sees of custody.  The rest stands above ends, so an end calls it through these. */
struct fs_custody_calls {
    ssize_t (*pass)(struct fs_custody *custody, const struct fs_parts *parts, size_t most, int flags);
    void (*await_room)(struct fs_custody *custody, int ring_is_full);
    void (*shutdown)(struct fs_custody *custody, int how);
    void (*closed)(struct fs_custody *custody, int reset);
    void (*drop)(struct fs_custody *custody);
};
struct fs_custody {
    const struct fs_custody_calls *calls;
    _Atomic int state, full; /* FS_CUSTODY_...; TCP has no room */
};

static inline int fs_custody_state(const struct fs_custody *custody) { return atomic_load(&custody->state); }
static inline int fs_custody_is_pending(const struct fs_custody *custody)
{
    return atomic_load_explicit(&custody->state, memory_order_relaxed) <= FS_CUSTODY_HANDED;
}
static inline int fs_custody_is_full(const struct fs_custody *custody)
{
    return fs_custody_is_pending(custody) && atomic_load(&custody->full);
}
/* Sends to TCP what will be put into the ring, `most` bytes at most, and says how much of it was sent.  0: the ring alone
 * is enough by now.  Else -errno. */
static inline ssize_t fs_custody_pass(struct fs_custody *custody, const struct fs_parts *parts, size_t most, int flags)
{
    return custody->calls->pass(custody, parts, most, flags);
}
static inline void fs_custody_await_room(struct fs_custody *custody,
                                         int ring_is_full) /* after -EAGAIN, when the doorbell shows it */
{
    custody->calls->await_room(custody, ring_is_full);
}
static inline void fs_custody_shutdown(struct fs_custody *custody, int how) { custody->calls->shutdown(custody, how); }
static inline void fs_custody_closed(struct fs_custody *custody, int reset) { custody->calls->closed(custody, reset); }
static inline void fs_custody_drop(struct fs_custody *custody) { custody->calls->drop(custody); } /* the end is freed */

/* There is room in the ring, but not in TCP.  TCP gets the same bytes. */
static inline int fs_end_awaits_tcp(const struct fs_end *end)
{
    return end->custody != NULL && fs_custody_is_full(end->custody);
}

/* Before a fork, as fs_linger_rest: ends the thread where nothing is in custody. */
void fs_custody_rest(void);

#endif
