/* Cross-memory attach: one call of the kernel copies between the memory of two processes, without the other's help.
 *
 * A process number can come to name another process.  So a process that may be read keeps a nonce in its memory, and
 * tells the nonce and its place.  A copy counts only where the same call finds the nonce there.
 */
#ifndef FASTSOCK_CMA_H
#define FASTSOCK_CMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct fs_cma_identity {
    int64_t process;
    uint64_t address, nonce; /* of the nonce, and the nonce */
};

uint64_t fs_cma_nonce(void); /* never 0, and odd */

/* Reads from `address` on into `parts`.  The array has room for one more part.  The nonce is read last: where it is
 * still right, the bytes were there.  0: not permitted, or another process, or another nonce. */
int fs_cma_read(const struct fs_cma_identity *there, uint64_t address, struct iovec *parts, int count);
/* Writes the parts in order, each to a place of its length.  Whether all were written. */
int fs_cma_write(int64_t process, const struct iovec *parts, const struct iovec *places, int count);

#endif
