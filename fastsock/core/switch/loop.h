/* A loop of this process: a selector, or an epoll object, that fastsock sees.
 *
 * Each connection that it watches for reading has a slot.  The other end's process sets the slot's bit when bytes come that
 * were asked for by it, and rings the bell if the loop sleeps.  So nobody looks at connections that are silent, however many
 * there are.  The loop watches the numbers themselves too, by the kernel: of bytes on TCP, of ends, and of tokens by senders
 * that do not know it yet.
 *
 * A connection is hot while a look at it is due: at first, when its bit is set, when the kernel has told something of it, and
 * as long as there is something to read.
 *
 * Threads may call all of this at once, and several may sleep in one loop.  A forked child does not own its parent's loops:
 * all calls but fs_loop_free() answer -ECHILD there, and it hears by tokens.  With FS_AT_ONCE nobody waits: -EBUSY where
 * another thread is at work.
 */
#ifndef FASTSOCK_LOOP_H
#define FASTSOCK_LOOP_H

#include "connection.h"
#include "edge.h"

struct fs_loop;

struct fs_loop *fs_loop_make(int *error);           /* NULL, and `error` is -errno: without it tokens do */
void fs_loop_free(struct fs_loop *loop);            /* nobody is within any more */
int fs_loop_descriptor(const struct fs_loop *loop); /* readable once it is rung; -1: the program has closed it */

/* The slot, and it is hot.  -EAGAIN: not attached yet; -EBUSY: another loop has it, and the caller must hear by tokens
 * (fs_carry_listen(), fs_carry_settle()); -ENOSPC, -ENOMEM: likewise. */
/* edge: of a number that is watched by edges, else NULL.  It stays where it is until fs_loop_leave(); its owner keeps it up. */
int fs_loop_join(struct fs_loop *loop, struct fs_connection *connection, int descriptor, const struct fs_edge *edge);
/* Once for each join; also after the connection was closed. */
void fs_loop_leave(struct fs_loop *loop, int slot);
/* The kernel has told something of it, or its ring has something.  asked: a look is to say whether TCP shows it still. */
void fs_loop_heat(struct fs_loop *loop, int slot, int asked);

/* Looks at the hot ones.  How many have something to read, or an end to tell, or news where edges are watched, and their numbers: `most` at most, and in turn.
 * The others are asked for by their bits, and not hot any more.  -EBUSY: there are none, but some could not be looked at. */
int fs_loop_look(struct fs_loop *loop, int *numbers, int most, int flags);
/* The same.  0: and the caller may sleep on the loop's descriptor and those of its connections: whatever comes now wakes.
 * Then he calls fs_loop_awake(), and looks. */
int fs_loop_sleep(struct fs_loop *loop, int *numbers, int most, int flags);
void fs_loop_awake(struct fs_loop *loop, int rung); /* rung: the loop's descriptor is readable */
/* By who was told and goes: a look is due still, and others sleep here. */
void fs_loop_pass_on(struct fs_loop *loop);
void fs_loop_hush(struct fs_loop *loop); /* it is not any more; of who has not slept */

#endif
