/* Copies of memory, also of more than the caches hold. */
#ifndef FASTSOCK_COPY_H
#define FASTSOCK_COPY_H

#include <stddef.h>

/* As memcpy(), beside other copies: `moved` bytes are read and written by all of them, this one too.  Where they are very
 * many, the bytes go past the caches. */
void fs_copy(void *target, const void *source, size_t bytes, size_t moved);

#endif
