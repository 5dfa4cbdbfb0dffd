/* Whether the kernel refuses this process a call that memory needs and TCP does not (seccomp).
 *
 * A program that may poll(), but not ppoll(), would lose its connection by a wait that it did not ask for.
 */
#ifndef FASTSOCK_REFUSALS_H
#define FASTSOCK_REFUSALS_H

#include <poll.h>
#include <time.h>

/* Where a filter came with the program, each call is tried once. */
int fs_refusals_are_known(void);

/* The program installs a filter of its own: what it refuses, or ends the process for, nobody tells. */
void fs_refusals_begin(void);

/* Of an errno that a wait never has otherwise. */
int fs_is_refusal(int error);

/* ppoll() without a mask, also where the filter lets the program have poll() alone: a thread may have begun to wait before
 * there was a filter. */
int fs_poll_on(struct pollfd *list, nfds_t count, const struct timespec *limit);

#endif
