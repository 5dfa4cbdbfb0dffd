/* How a sender gets at a loop of another process: its page and its bell.
 *
 * The loop listens at an abstract UNIX name made of its number.  Who asks there is answered in the loop's next calls.  Both
 * see by the kernel's word that the other one runs as the same user.  Nothing here waits.
 *
 * The bell is a pipe.  An eventfd cannot be told from another one of the process by looking at it (descriptor.h), and
 * whoever shares it could make a write to it block.  A sender opens the pipe anew, so its writes never block, whatever the
 * other end does.  It opens both directions, so a loop that is dead raises no SIGPIPE.
 */
#ifndef FASTSOCK_LOOP_NAMES_H
#define FASTSOCK_LOOP_NAMES_H

#include <stdint.h>
#include <sys/types.h>

#include "descriptor.h"
#include "loop_page.h"

struct fs_loop_home {
    struct fs_loop_page *page;
    struct fs_descriptor memory, bell, rope, listener; /* a byte into `rope` makes `bell` readable */
};

int fs_loop_open(struct fs_loop_home *home, uint64_t id); /* 0 or -errno */
void fs_loop_close(struct fs_loop_home *home);            /* also in a forked child, for the page alone */
void fs_loop_answer(const struct fs_loop_home *home);     /* those who have asked by now */
void fs_loop_ring_own(const struct fs_loop_home *home);   /* as a sender does */
void fs_loop_still(const struct fs_loop_home *home);      /* the bell is not readable any more */

/* Of the sender.  0: it was asked.  -ECONNREFUSED: there is no such loop; other errors: not now. */
int fs_loop_ask(struct fs_descriptor *stream, uint64_t id, pid_t *process);
/* 0: the page and the rope, and the stream is closed.  -EAGAIN: not yet; others: never. */
int fs_loop_take(struct fs_descriptor *stream, uint64_t id, struct fs_loop_page **page, struct fs_descriptor *rope);

#endif
