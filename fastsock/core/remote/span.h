/* A span: one connection between this host and another one.
 *
 * The program's socket is an ordinary end of a connection in shared memory (stream/).  The other end of that memory
 * belongs to the span.  It passes on what the program sends, and places what arrives.  A carrier (carrier.h) joins the
 * two hosts.  So everything that a socket owes to its program, and to code that only knows its descriptor, is the
 * stream's business; the span's is that each byte arrives once and in order, or that the program hears an error.
 *
 * Short data is copied into a frame.  Large data the device takes out of the sender's ring, and writes it into the
 * receiver's (Java Fast Sockets, section 4: no copy of its own).  Or the sender offers it, where it chose so: then the
 * receiver's device reads it, one offer at a time, and the receiver tells how far it has it.  Credits: each frame tells
 * how many frames its sender has heard, and how far the program has read.  So no frame finds no buffer, and no byte
 * finds no room.
 *
 * Where both ends chose it, a connection whose carrier breaks goes on over TCP.  Each end tells how many bytes have
 * arrived, and keeps those that it has sent until the carrier says that the other host has them.
 */
#ifndef FASTSOCK_REMOTE_SPAN_H
#define FASTSOCK_REMOTE_SPAN_H

#include <stdatomic.h>
#include <stdint.h>

#include "carrier.h"
#include "stream/end.h"

enum fs_span_state {
    FS_SPAN_OFFERED,   /* nobody has accepted yet, at the accepting end */
    FS_SPAN_WAITING,   /* the same, at the connecting end */
    FS_SPAN_OPEN,      /* both ends take part */
    FS_SPAN_WITHDRAWN, /* it stays on TCP, as both ends know */
    FS_SPAN_BROKEN,    /* before it was known which: the connection is lost */
};

struct fs_span_counts {
    _Atomic uint64_t frames_sent, frames_heard;
    _Atomic uint64_t written, taken; /* bytes that this end's device wrote there, and read from there, without a copy */
};

struct fs_span {
    _Atomic int holders;
    _Atomic uint32_t state;   /* a futex word: enum fs_span_state */
    _Atomic uint32_t greeted; /* a futex word, where the carrier has a greeting of its own (rsocket_carrier.h) */
    _Atomic int withdrawing;  /* the connecting end does not wait any longer */
    int connecting;
    int offers;          /* the other end's device reads large data here; else this one's writes it there */
    int resumes;         /* both ends go on over TCP where the carrier breaks */
    _Atomic int resumed; /* it does */
    struct fs_segment *segment;
    struct fs_end *end;
    struct fs_carrier *carrier;
    int doorbell;    /* the span's, or -1: the program has not taken its end yet */
    _Atomic int tcp; /* the connection beside it: its end is the other process's end; or -1 */
    struct fs_span_counts counts;

    /* Of the thread that serves it alone. */
    uint64_t sent;       /* position behind what was posted */
    uint64_t read_there; /* how far the other end's program has read */
    uint64_t frames, heard_there;
    uint64_t posted;  /* bytes of the ring that were posted and not consumed */
    uint64_t arrived; /* position behind what arrived and was placed */
    uint64_t heard, announced_heard, announced_read;
    int64_t taking; /* ticket of what the first arrival offers: its bytes come now, or lie in the ring; or 0 */
    uint64_t taken, announced_taken; /* position behind what this end's device has read there */
    uint64_t taken_there;            /* the same of the other end's, here */
    int said_hello, said_accepted, said_withdraw, said_withdrawn, said_shut, said_reset, said_resume;
    int64_t shut_ticket;
    int heard_hello, heard_shut, heard_reset, heard_resume;
    int disconnected; /* errno: the connection manager said so; what had arrived before is still taken */
    int leaving;      /* the process ends: what the program has sent is all that it will send */
    int program_left; /* nobody holds the program's descriptor any more, or all its halves are shut */
    int lost;         /* errno: the carrier broke, or the other host is gone */
    int unpublished;  /* the doorbell itself carries what arrives */
    struct {
        int64_t ticket;
        uint64_t offered; /* position behind it: the other end must have taken it.  0: it is done with its ticket */
        uint64_t consume;
    } pending[2 * FS_FRAMES]; /* pieces whose bytes lie in the ring until they are done */
    unsigned first_pending, pending_count;
    struct { /* what the doorbell itself carried: it is nowhere else */
        int64_t ticket;
        uint32_t length, delivered;
        unsigned char bytes[FS_FRAME_PAYLOAD];
    } kept;
    struct fs_arrival waiting[2 * FS_FRAMES]; /* arrived and not placed yet; also those of a carrier before */
    unsigned first_waiting, waiting_count;
    unsigned char *bytes_before; /* of these */
    uint32_t placed;             /* bytes of the first one */
    short awaited;               /* what the thread waits for at the doorbell */
    int lent; /* a thread of the program turns it: what takes a system call is left to the other one */
    _Atomic uint64_t looked_at; /* when a thread of the program last looked for news, 0: none may come back to it */
    _Atomic int relying;        /* such threads that sleep */
    int doorbell_is_quiet;      /* it has shown nothing since it was last looked at, and would wake the thread */
    int held_up;                /* what the program has sent waits for credit, or for others that are served */
    int looks_seldom;           /* there may be room again from time to time */
    int wants_room; /* the doorbell must become writable before more can be placed, or credit can be given */
};

/* A new one with its memory and its end, without a carrier: NULL and -errno. */
struct fs_span *fs_span_make(int connecting, int *error);
struct fs_span *fs_span_hold(struct fs_span *span);
void fs_span_drop(struct fs_span *span);
/* The rings as a device must know them. */
unsigned char *fs_span_out(const struct fs_span *span, size_t *bytes);
unsigned char *fs_span_in(const struct fs_span *span, size_t *bytes);

/* The program takes its end: the other end of `doorbell`, which is taken over.  0 or -errno. */
int fs_span_begin(struct fs_span *span, int doorbell);
enum fs_span_turned {
    FS_SPAN_GOES_ON,
    FS_SPAN_OVER,
    FS_SPAN_LEAVES_CARRIER, /* which is broken: to be followed by the two functions below */
};
/* Does what can be done now.  `wants`: what to wait for at the doorbell (POLLIN, POLLOUT). */
enum fs_span_turned fs_span_turn(struct fs_span *span, short *wants);
/* Takes what the carrier still has.  It may be closed then.  0 or -ENOMEM. */
int fs_span_leave_carrier(struct fs_span *span, uint64_t patience_ns);
/* Goes on over the next carrier. */
void fs_span_resume(struct fs_span *span, struct fs_carrier *next);
int fs_span_has_resumed(const struct fs_span *span); /* in any thread */
/* The other process's end showed on TCP, or the carrier said so. */
void fs_span_other_ended(struct fs_span *span, int error);
/* Both doorbells, the end and the carrier.  The program hears of a reset unless all was carried and told. */
void fs_span_finish(struct fs_span *span);
int fs_span_is_orderly(const struct fs_span *span); /* every byte and both ends were told */

/* The connecting end waits until the state is another one: that one, or FS_SPAN_WAITING at the deadline. */
uint32_t fs_span_await(struct fs_span *span, uint64_t deadline_ns);
/* The accepting end's program has accepted.  1: it takes part from now on; 0: it was withdrawn or is lost. */
int fs_span_claim(struct fs_span *span);

#endif
