/* What two hosts say to each other about one connection.
 *
 * A frame travels in order and exactly once: the carrier promises that.  All numbers are little-endian on the wire.
 * Every value comes from the other host: span.c checks it before it is used.
 */
#ifndef FASTSOCK_REMOTE_FRAME_H
#define FASTSOCK_REMOTE_FRAME_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define FS_FRAME_BYTES 32u

enum fs_frame_kind {
    FS_FRAME_HELLO = 1, /* the connecting end speaks first: before that, iWARP lets nobody else speak */
    FS_FRAME_ACCEPTED,  /* the accepting end's program has called accept() */
    FS_FRAME_WITHDRAW,  /* the connecting end stays on TCP, unless the other end has accepted already */
    FS_FRAME_WITHDRAWN, /* it had not */
    FS_FRAME_DATA,      /* `length` bytes follow the frame */
    FS_FRAME_WRITTEN,   /* `length` bytes were written into the window, at their position */
    FS_FRAME_CREDIT,    /* nothing but the counts that every frame has */
    FS_FRAME_SHUT,      /* no bytes come behind `position` */
    FS_FRAME_RESET,     /* the connection is broken off */
    FS_FRAME_RESUME,    /* the first on the next carrier: `position` bytes of the other end's have arrived */
    FS_FRAME_OFFERED,   /* `length` bytes lie in the sender's ring, for the other end's device to read */
    FS_FRAME_TAKEN,     /* the stream of the other end was read from there as far as `position` */
    FS_FRAME_KINDS
};

struct fs_frame {
    uint32_t kind;
    uint32_t length;
    uint64_t position; /* of the first byte in the stream from the sender of the frame */
    uint64_t consumed; /* how far the stream to the sender of the frame was consumed there */
    uint64_t heard;    /* frames that the sender of the frame has heard */
};

static inline void fs_frame_put(unsigned char *target, const struct fs_frame *frame)
{
    uint32_t words[2] = {htole32(frame->kind), htole32(frame->length)};
    uint64_t counts[3] = {htole64(frame->position), htole64(frame->consumed), htole64(frame->heard)};
    memcpy(target, words, sizeof words);
    memcpy(target + sizeof words, counts, sizeof counts);
}

static inline struct fs_frame fs_frame_get(const unsigned char *source)
{
    uint32_t words[2];
    uint64_t counts[3];
    memcpy(words, source, sizeof words);
    memcpy(counts, source + sizeof words, sizeof counts);
    return (struct fs_frame){le32toh(words[0]), le32toh(words[1]), le64toh(counts[0]), le64toh(counts[1]),
                             le64toh(counts[2])};
}

#endif
