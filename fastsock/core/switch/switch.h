/* The change of carrier of the direction that this end sends, under the sender's lock. */
#ifndef FASTSOCK_SWITCH_H
#define FASTSOCK_SWITCH_H

#include "connection.h"

int fs_switch_is_due(const struct fs_connection *connection, const struct fs_end *end);      /* cheap, and of no lock */
int fs_switch_to_ring(struct fs_connection *connection, struct fs_end *end, int descriptor); /* 1: it did; 0: not now */
int fs_switch_to_tcp(struct fs_connection *connection, struct fs_end *end, int descriptor);  /* the same */

#endif
