/* How poll() and select() wait where some of their numbers are connections with memory.
 *
 * A thread that waits for several such connections gets a loop of its own (switch/loop.h), once the kernel has told of
 * them a few times.  Then their senders tell it by bits, and the loop's bell stands behind the program's numbers in the
 * kernel's list.  Until then, for one connection alone, and wherever another watcher has the bit, tokens tell.
 */
#ifndef FASTSOCK_PRELOAD_POLLED_H
#define FASTSOCK_PRELOAD_POLLED_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>

enum {
    FS_POLLED_FEW = 64, /* without an allocation, and without a look at the limit of numbers */
    FS_POLLED_READABLE = POLLIN | POLLRDNORM,
};

/* Whether the kernel's answer must be looked at. */
int fs_polled_concerns(const struct pollfd *list, nfds_t count);
int fs_polled_has_memory(int descriptor);
int fs_polled_is_due(void);

/* As ppoll(), with -errno.  `limit_ns`: UINT64_MAX: none. */
int fs_polled_wait(struct pollfd *list, nfds_t count, uint64_t limit_ns, const sigset_t *mask);
/* The numbers of this thread's loop: all hear by tokens.  Other threads give theirs back at their next wait. */
void fs_polled_give_back(void);

#endif
