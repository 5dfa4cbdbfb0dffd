/* Frames travel between two engines.  A frame has a fixed header, and some have payload behind it.
 *
 * Both ends run the same version on machines of the same byte order.  The greeting tells both, and is checked.
 */
#ifndef FASTSOCK_FRAME_H
#define FASTSOCK_FRAME_H

#include <stdint.h>

#define FS_FRAME_MAGIC 0xf5u
#define FS_FRAME_VERSION 4u
#define FS_FRAME_ORDER 0x01020304u /* as the sender writes it */

enum fs_frame_kind {
    FS_FRAME_GREETING = 1, /* first of all, with a struct fs_greeting as its payload */
    FS_FRAME_EAGER,        /* tag, context, length and as many bytes; id: to be acknowledged, or 0; word: consumed */
    FS_FRAME_KEY, /* right in front of a READY_TO_SEND that is keyed.  word: where its bytes lie; tag: the key of that
                     memory.  The receiver's device may read them there: rndv_key.c, rndv_get.c */
    FS_FRAME_READY_TO_SEND,    /* tag, context, length, id, keyed; word: where the bytes lie, or 0 */
    FS_FRAME_READY_TO_RECEIVE, /* id: of the send; length: bytes wanted; word: id of the receive */
    FS_FRAME_DATA,             /* id: of the receive; length and as many bytes */
    FS_FRAME_ACKNOWLEDGE,      /* id: of the send: matched, or its bytes were fetched or read */
    FS_FRAME_CREDIT,           /* word: consumed so far; length: how much may be announced beyond the credit */
    FS_FRAME_CANCEL,           /* id: of the send.  Answered by: */
    FS_FRAME_CANCELLED,        /* id: of the send; length: 1 done, 0 too late */
    FS_FRAME_WITHDRAWN,        /* id: of the receive; its bytes will not come */
    FS_FRAME_SHARE,    /* id: of the send; length: bytes wanted; word: where they go; context: id of the receive;
                                  tag: of this copy.  Both ends copy, one from each side: share.c */
    FS_FRAME_SHARED,   /* id: of the receive; length: pieces that the sender copied; word: 1 where one of them failed */
    FS_FRAME_PUT,      /* id: of the send; length: bytes wanted; word: where they go; context: id of the receive;
                                  tag: the key of that memory.  The sender's device writes them there: rndv_put.c */
    FS_FRAME_PUT_DONE, /* id: of the receive; its bytes are there */
    FS_FRAME_GOODBYE,  /* nothing will follow */
    FS_FRAME_KINDS,
    FS_TURN_REFUSED = FS_FRAME_KINDS, /* a CANCELLED that says 0 comes in another turn */
    FS_TURNS
};

struct fs_frame {
    uint8_t magic, kind;
    uint8_t limit; /* the sender of this frame would rather fetch messages of 2^limit bytes and more; 0: none */
    uint8_t keyed;
    int32_t tag;
    uint32_t context;
    uint32_t id;
    uint64_t length;
    uint64_t word;
};

_Static_assert(sizeof(struct fs_frame) == 32, "no padding");

#endif
