/* Memory that processes share.  Its descriptor is sealed: who maps it trusts nobody to leave its size as it is, because a page
 * that is gone would be a SIGBUS. */
#ifndef FASTSOCK_SEALED_H
#define FASTSOCK_SEALED_H

#include <stddef.h>
#include <stdint.h>

int fs_sealed_create(const char *name, size_t bytes); /* a descriptor, all zero, or -errno */
int64_t
fs_sealed_bytes(int memory); /* of a descriptor that may be another's: its size; -EPROTO where it is not sealed */

/* The first bytes, readable and writable; munmap() ends it.  NULL, and *error is -errno. */
void *fs_sealed_map(int memory, size_t bytes, int *error);
/* All of it, of another's: -EPROTO where it is not sealed, or not so long. */
void *fs_sealed_join(int memory, size_t bytes, int *error);

#endif
