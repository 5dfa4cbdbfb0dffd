/* Connections whose other end has not called accept() yet, kept on behalf of it.
 *
 * The connecting end uses shared memory already, but what it sends goes to TCP as well, within the same call: so a
 * server that turns out to be foreign has everything, and so has the kernel whatever becomes of this process.  The
 * accepting side's things (doorbell, memory, TCP's descriptor, the name to connect back to) are in the custody of one
 * thread.  An accepting end that connects back is handed them and answers by one byte: it has joined, and TCP is done
 * with, but for its port, which stays the connection's.  When it says no, or somebody else accepted, the thread becomes
 * the pump between the ring and TCP (relay.c).
 */
#ifndef FASTSOCK_CUSTODY_H
#define FASTSOCK_CUSTODY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct fs_end;
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
    int any_user;                                  /* else only this process's own */
    uint64_t patience_ns;                          /* for one who accepted and does not connect back */
};

/* `end` is the connecting one, `doorbell` the accepting one's.  Takes all descriptors over, unless it fails: -errno,
 * -EMFILE also where custody would use up what the program may open. */
int fs_custody_begin(struct fs_end *end, int doorbell, int memory, int stream, int listener,
                     const struct fs_custody_terms *terms);
/* Gives TCP's descriptor back, and custody up: whoever connects back later finds nobody.  -EBUSY: too late. */
int fs_custody_take_back(struct fs_custody *custody);
/* Hands the pump to a process of its own, which survives this one.  -EBUSY: not now, or not needed any more. */
int fs_custody_fork(struct fs_custody *custody);
/* Becomes the pump at once, if nobody connected back. */
void fs_custody_relay(struct fs_custody *custody);

/* TCP's descriptor, which is kept for its port once the other end has joined, to whoever goes on without the end; or -1. */
int fs_custody_take_port(struct fs_custody *custody);

int fs_custody_state(const struct fs_custody *custody);
int fs_custody_is_accepted(const struct fs_custody *custody); /* as far as was seen */
uint64_t fs_custody_lasted_ns(const struct fs_custody *custody); /* until it was decided, or now */
pid_t fs_custody_joined_by(const struct fs_custody *custody);

/* What the end itself calls (end.c, doorbell.c, wait.c). */
int fs_custody_is_pending(const struct fs_custody *custody);
int fs_custody_is_full(const struct fs_custody *custody); /* TCP has no room */
/* Sends to TCP what will be put into the ring: how much of it, 0 where the ring alone is enough by now, or -errno. */
ssize_t fs_custody_pass(struct fs_custody *custody, const void *data, size_t length, int flags);
void fs_custody_await_room(struct fs_custody *custody, int ring_is_full); /* after -EAGAIN, when the doorbell shows it */
void fs_custody_shutdown(struct fs_custody *custody, int how);
void fs_custody_closed(struct fs_custody *custody, int reset);
void fs_custody_drop(struct fs_custody *custody); /* the end is freed */

/* Before a fork, as fs_linger_rest: ends the thread where nothing is in custody. */
void fs_custody_rest(void);

#endif
