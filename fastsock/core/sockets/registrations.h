/* What the epolls of this process watch a number for.
 *
 * A registration follows the open file, not its number.  Where a number comes to mean another file, its epoll would
 * hear of the first file for ever, and never of the second.  So the registration is taken out before, and made again
 * after.
 */
#ifndef FASTSOCK_REGISTRATIONS_H
#define FASTSOCK_REGISTRATIONS_H

/* dup3(): each epoll that watches `number` watches it still.  0 or -errno. */
int fs_replace_watched(int source, int number, int flags);

#endif
