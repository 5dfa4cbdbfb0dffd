/* Copies of memory, also of more than the caches hold. */
#ifndef FASTSOCK_COPY_H
#define FASTSOCK_COPY_H

#include <stddef.h>

/* As memcpy().  The bytes of a very long copy go past the caches. */
void fs_copy(void *target, const void *source, size_t bytes);

#endif
