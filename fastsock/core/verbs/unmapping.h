/* Tells when memory of the program goes: it is unmapped, moved, or its pages are given back.
 *
 * The kernel's userfaultfd tells of it, and holds the thread that does it until that is heard.  So nothing else can come
 * to lie at that address, and be taken for what was there, before it is known here.  No page fault is ever caught.
 *
 * A forked child's memory is not watched any more: it makes no calls here.
 */
#ifndef FASTSOCK_UNMAPPING_H
#define FASTSOCK_UNMAPPING_H

#include <stddef.h>
#include <stdint.h>

struct fs_unmapping;

struct fs_watched_memory {
    struct fs_watched_memory *next;
    uintptr_t start, end; /* whole pages */
    _Atomic int gone;     /* heard of; what is under way may not be */
};

/* With a thread that hears of it.  NULL and -errno: -ENOSYS the kernel has no userfaultfd, -EPERM it may not be used. */
struct fs_unmapping *fs_unmapping_new(int *error);
void fs_unmapping_free(struct fs_unmapping *unmapping); /* nothing is watched any more */
/* 0 or -errno: the kernel tells of no such memory (a file's, for example). */
int fs_unmapping_watch(struct fs_unmapping *unmapping, struct fs_watched_memory *memory, const void *start,
                       size_t length);
void fs_unmapping_unwatch(struct fs_unmapping *unmapping, struct fs_watched_memory *memory);
/* Whether any of it has gone since.  It may say so of memory that is there. */
int fs_unmapping_is_gone(struct fs_unmapping *unmapping, struct fs_watched_memory *memory);

#endif
