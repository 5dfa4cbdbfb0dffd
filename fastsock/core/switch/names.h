/* How the two ends of a live TCP connection find each other on one host.
 *
 * One end listens at a name in the abstract UNIX namespace, made of both addresses.  The other end connects
 * there and passes its memory.  A stream, because both ends then ask the kernel who the other one is before anything is
 * passed or taken: of a datagram socket it does not tell who has bound it.  A name that nobody has costs one system call.
 * Nothing here waits.
 */
#ifndef FASTSOCK_NAMES_H
#define FASTSOCK_NAMES_H

#include <stddef.h>
#include <sys/types.h>

#include "counters.h"
#include "descriptor.h"
#include "tuple.h"

enum fs_name_kind {
    FS_NAME_OFFERS, /* the accepting end takes offers there */
    FS_NAME_WAITS   /* the connecting end waits there until the accepting end listens */
};

/* Which users' processes may be the other end. */
enum fs_name_peers { FS_PEERS_OWN, FS_PEERS_ANY };

/* `listens`: whether the caller is the end that listens.  0, or -errno: -EADDRINUSE: somebody has that name. */
int fs_name_listen(struct fs_descriptor *listener, enum fs_name_kind kind, const struct fs_tuple *tuple, int listens);

/* A stream to whoever listens there.  0; -ECONNREFUSED: nobody; -EACCES: a process of another user; other errors. */
int fs_name_find(struct fs_descriptor *stream, enum fs_name_kind kind, const struct fs_tuple *tuple, int listens,
                 enum fs_name_peers peers, pid_t *process);

/* A stream of whoever came.  0; -EAGAIN: nobody yet; -EACCES: a process of another user, which is sent away; -EBADF: the
 * program closed the listener. */
int fs_name_accept(const struct fs_descriptor *listener, struct fs_descriptor *stream, enum fs_name_peers peers,
                   pid_t *process);

int fs_offer_send(const struct fs_descriptor *stream, const struct fs_counters *counters, int memory); /* 0 or -errno */

/* 0: the memory, which nobody has looked into, and of the other end's counters those that tell whether both agree.
 * -EAGAIN: not yet; -ECONNRESET: none will come; -EPROTO: something else came, or an offer of another version; -EMFILE: no
 * number is free for the memory. */
int fs_offer_take(const struct fs_descriptor *stream, struct fs_descriptor *memory, struct fs_counters *counters);

#endif
