/* A pump between an end and a kernel stream.  It never waits, so one thread serves many (bridge.c has threads of its
 * own).  Half-closes, ends and resets pass through both ways. */
#ifndef FASTSOCK_RELAY_H
#define FASTSOCK_RELAY_H

#include "end.h"

struct fs_relay {
    struct fs_end *end;
    int doorbell, stream;
    uint64_t skip;                      /* bytes of the ring that the stream had before */
    int outwards_over, inwards_over;    /* no more comes from the ring; from the stream */
    short doorbell_wants, stream_wants; /* what to wait for now: POLLIN, POLLOUT */
};

/* Passes on what can be passed on.  1: everything is over; the caller calls fs_relay_end(). */
int fs_relay_turn(struct fs_relay *relay, char *buffer, size_t size);
void fs_relay_end(struct fs_relay *relay); /* closes both descriptors, and the end */

#endif
