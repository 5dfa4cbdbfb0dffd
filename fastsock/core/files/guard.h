/* A mapped file may shrink, and a disk be full: who touches such a page gets SIGBUS.  Here that ends the copy alone. */
#ifndef FASTSOCK_FILES_GUARD_H
#define FASTSOCK_FILES_GUARD_H

#include <stddef.h>

/* Calls `copy`.  0, or -EFAULT where it touched a page of [start, start + length) that is not to be had: then it was left
 * where it stood, so it may hold nothing that must be given back.  Any other signal goes where it went before. */
int fs_guarded(void (*copy)(void *context), void *context, const void *start, size_t length);

#endif
