/* What the epolls of this process watch a number for.
 *
 * A registration follows the open file, not its number.  Where a number comes to mean another file, who registered it
 * would hear of the first one for ever, and never of the second: so it is taken out before and made again behind that.
 */
#ifndef FASTSOCK_REGISTRATIONS_H
#define FASTSOCK_REGISTRATIONS_H

/* dup3(), and each of them that watches `number` watches it still.  0 or -errno. */
int fs_replace_watched(int source, int number, int flags);

#endif
