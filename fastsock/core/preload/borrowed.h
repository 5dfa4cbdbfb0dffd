/* A child that has its parent's memory and its own numbers: that of vfork(), or of clone() with CLONE_VM.  There the doors
 * leave the table alone. */
#ifndef FASTSOCK_PRELOAD_BORROWED_H
#define FASTSOCK_PRELOAD_BORROWED_H

/* Whether this is such a child.  A system call, in a process that has ever made one. */
int fs_is_borrowed(void);

/* Such a child may come now. */
void fs_borrowing_begins(void);

/* At the begin of a process that has its own memory. */
void fs_borrowing_is_over(void);

#endif
