/* What the two ends of a connection share of its changes of carrier, in the segment.
 *
 * A direction's payload goes over TCP up to byte X of that direction, then through the ring up to its position Y, then
 * over TCP again, any number of times.  While it goes through the ring, TCP carries tokens: single bytes that wake a
 * reader.  tests/model has the protocol as models; its README the rules.
 *
 * Positions on TCP count modulo 2^48 (record.h).  The other process can write everything here at any moment.
 */
#ifndef FASTSOCK_WORDS_H
#define FASTSOCK_WORDS_H

#include <stdatomic.h>
#include <stdint.h>

#include "system.h"

/* `joined`, of the segment.  Both ends, by compare-and-swap from OPEN. */
enum { FS_JOIN_OPEN = 0, FS_JOINED = 1, FS_JOIN_DECLINED = 2 };

/* `tokens`.  TOKEN_WANTED: the reader asks for one.  BIT_WANTED: its loop wants its bit set.  ENDED: it takes no more.
 * The count of those sent since X lies above. */
enum {
    FS_TOKEN_WANTED = 1,
    FS_TOKENS_ENDED = 2,
    FS_BIT_WANTED = 4,
    FS_TOKEN_SHIFT = 3,
    FS_MOST_TOKENS = 2 /* on their way at once */
};

/* `release`: the reader's end needs the descriptor for other code.  By compare-and-swap, but for ASKED. */
enum { FS_RELEASE_NONE = 0, FS_RELEASE_ASKED = 1, FS_RELEASE_GRANTED = 2, FS_RELEASE_REFUSED = 3 };

enum { FS_ANSWERERS = 4 };

struct fs_switch_words {
    /* written by the sender, under its lock */
    _Alignas(FS_LINE) _Atomic uint32_t seq; /* changes of carrier so far; odd: payload goes into the ring */
    _Atomic uint64_t x;                     /* bytes on TCP, tokens among them, when it went to the ring */
    _Atomic uint64_t y;                     /* the ring's head when it went back to TCP */
    _Atomic uint64_t tokens;                /* by both ends, by compare-and-swap of the whole word */
    /* the processes of the sending end that can be asked to answer `release` (core/switch/answering.h), 0: none.  The
     * reader takes out what is gone */
    _Atomic uint64_t answerers[FS_ANSWERERS];
    /* written by the reader, under its lock */
    _Alignas(FS_LINE) _Atomic uint32_t rseq; /* the last `seq` that it has carried out */
    _Atomic uint32_t rx_in;                  /* it may be within a recv() that began before it could know X */
    _Atomic uint32_t release;
    _Atomic uint64_t drained; /* as far on TCP as it has taken tokens: for a sender whose reader is watched */
    _Atomic uint64_t loop;    /* where BIT_WANTED belongs (switch/loop_page.h); 0: nowhere */
    _Atomic uint32_t slot;
};

#endif
