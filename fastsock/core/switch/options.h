/* Options that hold one value underneath, while the program reads back another one that it set.
 *
 * TCP_NODELAY and TCP_CORK: a token must not wait for more bytes.  SO_RCVLOWAT: one byte must wake a reader.  TCP alone waits
 * for more: so whoever sets more takes the way out first.
 * SO_ERROR is read alone: the kernel tells an error once, and may have told it to a token's send.
 */
#ifndef FASTSOCK_OPTIONS_H
#define FASTSOCK_OPTIONS_H

#include "connection.h"

/* Whether TCP alone can serve what the program set.  0, or -EINVAL. */
int fs_options_permit(int descriptor);
/* With the sender's lock, before a token may flow, and after the last one. */
void fs_options_take(struct fs_record *record, int descriptor);
void fs_options_give_back(struct fs_record *record, int descriptor);

/* As setsockopt() and getsockopt() of these options.  1: done here; 0: it is none of them: the kernel's to do; -errno. */
int fs_option_set(struct fs_connection *connection, int descriptor, int level, int option, int value);
int fs_option_get(struct fs_connection *connection, int descriptor, int level, int option, int *value);

/* A program that set SO_SNDBUF or SO_RCVBUF bounds what is unread in the ring, too.  The first is for
 * memory that is added now, the second for after a change. */
void fs_options_bound_end(struct fs_end *end, int descriptor);
void fs_options_bound(struct fs_connection *connection, int descriptor);

#endif
