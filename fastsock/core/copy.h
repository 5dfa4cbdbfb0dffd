/* Copies of plain memory that keep their speed where memcpy() does not. */
#ifndef FASTSOCK_COPY_H
#define FASTSOCK_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FS_COPY_PAGE = 4096, FS_COPY_NEAR = 32, FS_COPY_PIECE = 2048 };

/* As memcpy().  The C library copies large blocks by one instruction, `rep movsb`.  Some processors (AMD's family 19h) do
 * that at a tenth of their speed where the target lies 1 to 31 bytes behind the source, counted within a page: each load
 * waits for a store that seems to be its own.  Such blocks go in pieces that are too short for the instruction. */
static inline void fs_copy(void *target, const void *source, size_t length)
{
    size_t behind = ((uintptr_t)target - (uintptr_t)source) % FS_COPY_PAGE, piece = FS_COPY_PIECE;
    if (length <= piece || behind == 0 || behind >= FS_COPY_NEAR) {
        memcpy(target, source, length);
        return;
    }
    for (size_t done = 0; done < length; done += piece) {
        if (piece > length - done) piece = length - done;
        memcpy((unsigned char *)target + done, (const unsigned char *)source + done, piece);
    }
}

/* The same beside other copies: `moved` bytes are read and written by all of them, this one too.  Where they are very
 * many, the bytes go past the caches. */
void fs_copy_beside(void *target, const void *source, size_t bytes, size_t moved);

#endif
