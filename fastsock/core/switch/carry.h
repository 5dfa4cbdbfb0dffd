/* Sending and receiving, over whichever carrier is the right one.
 *
 * All calls take a connection and the number by which the caller knows it.  Where the number is not that connection's any
 * more they answer -EBADF and have done nothing.  Counts are >= 0, or a negative errno as in stream/end.h.
 *
 * Of flags: FS_PATIENT, FS_NO_SIGNAL, FS_PEEK, FS_AT_ONCE, FS_UNPOLLED as in stream/end.h.
 * MAY_SLEEP: the caller has no interpreter's lock.  On a blocking socket the kernel's call sleeps as long as it is the
 * right one; a receive does not any more once memory is offered.  -EAGAIN then says to wait by waiting.h, or to call again
 * where no memory is there any more.  FS_KERNELS_END is what the kernel's call says by EAGAIN: the socket does not block, or
 * its time (SO_RCVTIMEO, SO_SNDTIMEO) is over.
 * WILL_WAIT, of a receive: the caller waits by waiting.h if there is nothing.  So whether the connection has ended is asked
 * of the kernel only from time to time, and after each sleep.
 *
 * LOOKS, of a receive with FS_AT_ONCE: where nothing is there it looks for a moment, as fs_carry_look() does.
 *
 * `kernel_flags`: of MSG_*, as for TCP.  MSG_DONTWAIT takes MAY_SLEEP and FS_PATIENT back.  MSG_WAITALL is left out: the
 * caller goes on until it has all.  MSG_PEEK shows what there is on both carriers.
 */
#ifndef FASTSOCK_CARRY_H
#define FASTSOCK_CARRY_H

#include <errno.h>
#include <sys/socket.h>

#include "connection.h"
#include "kernel.h"

enum { FS_MAY_SLEEP = 16, FS_WILL_WAIT = 32, FS_LOOKS = 64 };
enum { FS_KERNELS_END = -ETIME }; /* TCP never says that */

/* Takes off what goes.  What TCP alone can carry (MSG_OOB, MSG_ZEROCOPY) goes there, and that direction stays there. */
ssize_t fs_carry_send(struct fs_connection *connection, int descriptor, struct fs_parts *parts, int flags,
                      int kernel_flags);
ssize_t fs_carry_receive(struct fs_connection *connection, int descriptor, void *target, size_t length, int flags,
                         int kernel_flags);

/* With the reader's lock, as the way out holds it: all that there is now, as a receive that never waits. */
ssize_t fs_carry_take(struct fs_connection *connection, int descriptor, void *target, size_t length);

/* For calls of the kernel that the caller makes itself: sendmsg() with ancillary data, sendfile(), recvmsg().
 * Send begins: 0: the direction is on TCP, and stays there until `ended`.  `pinned`: for good.  -EAGAIN: not now.
 * Receive begins: 0: the connection is plain, and the call may be made.  -EBUSY: memory is offered or attached: only
 * fs_carry_receive() brings bytes now, and there is no ancillary data.  `lasts`: the call may go on when bytes have come
 * (MSG_WAITALL).  A token would not end it, so the connection stays plain meanwhile.
 * `within`: what `begins` has stored.  `moved`: what came of the call; < 0: nothing. */
int fs_carry_send_begins(struct fs_connection *connection, int descriptor, int pinned, struct fs_record **within);
void fs_carry_send_ended(struct fs_connection *connection, int descriptor, struct fs_record *within, ssize_t moved);
int fs_carry_receive_begins(struct fs_connection *connection, int descriptor, int lasts, struct fs_record **within);
/* The payload in what came: less than `moved` where tokens lay behind it.  -EAGAIN: there was nothing else. */
ssize_t fs_carry_receive_ended(struct fs_connection *connection, int descriptor, int lasts, struct fs_record *within,
                               ssize_t moved, int peeked);

/* Cheap, and without a lock: whether memory is offered or attached, so that the caller waits by waiting.h. */
static inline int fs_carry_is_attached(const struct fs_connection *connection)
{
    const struct fs_record *record = atomic_load_explicit(&connection->record, memory_order_relaxed);
    return record != NULL && !fs_record_is_plain(record);
}
/* Likewise: whether TCP carries what is sent now. */
static inline int fs_carry_sends_by_tcp(const struct fs_connection *connection)
{
    const struct fs_record *record = atomic_load_explicit(&connection->record, memory_order_relaxed);
    return record == NULL || !atomic_load_explicit(&record->out_ring, memory_order_relaxed);
}
ssize_t fs_carry_unread(struct fs_connection *connection, int descriptor); /* as FIONREAD */

/* Somebody whom fastsock does not see polls the number: what the kernel shows of it is exact from now on. */
void fs_connection_watch(struct fs_connection *connection, int descriptor);
/* Somebody begins to hear of it by the kernel alone, and has said so (fs_carry_listen()).  A loop may have heard of what is
 * unread, so that no token tells of it: then the other end is asked for one.  May wait. */
void fs_carry_show(struct fs_connection *connection, int descriptor);
/* Nobody does, as far as this process knows.  Where another one holds the connection too, it stays exact. */
void fs_connection_unwatch(struct fs_connection *connection, int descriptor);

struct fs_carriers {
    int state;                                   /* enum fs_record_state */
    int in_ring, out_ring;                       /* what carries that direction now */
    uint64_t since_ns;                           /* attached */
    uint64_t tcp_in, tcp_out, ring_in, ring_out; /* bytes of the program; those on TCP without tokens */
    uint64_t switches, spills;                   /* of the direction that this end sends */
    uint64_t direct, written, waits, wakes;      /* as of struct fs_end's statistics */
    uint32_t large_in, large_out;                /* as of struct fs_end: how the last large block came and went */
    int peer;                                    /* the other end's process, 0 where it is unknown */
};
void fs_connection_report(struct fs_connection *connection, int descriptor, struct fs_carriers *carriers);

#endif
