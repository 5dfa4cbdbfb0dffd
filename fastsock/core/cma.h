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
/* Reads many places there, one after the other, into one here.  The array has room for one more place. */
int fs_cma_gather(const struct fs_cma_identity *there, struct iovec *places, int count, void *target, size_t bytes);
/* Writes the parts, one after the other, to the places: both are as long.  Whether all were written. */
int fs_cma_write(int64_t process, const struct iovec *parts, int count, const struct iovec *places, int many);

#endif
