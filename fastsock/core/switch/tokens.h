/* Tokens: single bytes on TCP that wake a reader while the payload goes through the ring. */
#ifndef FASTSOCK_TOKENS_H
#define FASTSOCK_TOKENS_H

#include "connection.h"

/* The sender's side, under its lock, while its direction is in the ring. */
void fs_tokens_ring(struct fs_connection *connection, struct fs_end *end,
                    int descriptor);                                 /* if the reader asks for one */
int fs_tokens_pay(struct fs_connection *connection, int descriptor); /* those that TCP refused: 0, or -EAGAIN */
int fs_tokens_recover(struct fs_connection *connection, int descriptor);

/* The reader's side, under its lock, while it reads the ring.  -EPROTO: an impossible count. */
int fs_tokens_on_their_way(struct fs_connection *connection, struct fs_end *end);
/* Takes those that are counted so far, and there: 0; 1: some are still to come. */
int fs_tokens_drain(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* For who sleeps on the descriptor.  1: there is something to look at.  0: the ring is empty, no token lies on TCP, and the
 * next byte brings one. */
int fs_tokens_settle(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* With bytes unread in the ring: one token lies on TCP or comes, and the next byte brings another one. */
int fs_tokens_keep_one(struct fs_connection *connection, struct fs_end *end, int descriptor);

#endif
