/* Owned descriptors: fastsock's own, which the program does not know.
 *
 * A program may close every number that it does not know, and have it again for a file of its own.  So a number is used
 * or closed only after a look has shown the same file.  A forked child closes its copies at once: they would keep open
 * what this process closes.
 */
#ifndef FASTSOCK_DESCRIPTOR_H
#define FASTSOCK_DESCRIPTOR_H

#include <sys/types.h>

struct fs_descriptor {
    int number; /* -1, or of that file */
    dev_t device;
    ino_t file;
    struct fs_descriptor *next, *previous;
    int optional; /* its number is used under the process's lock alone: fs_descriptor_give_back() may close it */
};

#define FS_DESCRIPTOR_NONE ((struct fs_descriptor){.number = -1})

/* Takes over a descriptor and returns its number from now on, or a negative error, which it returns too.  The caller has
 * held the process (fs_hold_process()) since before the number was made: so no fork comes in between.  `owned` stays
 * where it is until it is closed or taken. */
int fs_descriptor_keep(struct fs_descriptor *owned, int number);
int fs_descriptor_number(const struct fs_descriptor *owned); /* -1: none, or the program has closed it */
int fs_descriptor_take(struct fs_descriptor *owned); /* the number is the caller's, who holds the process; -1: none */
/* By who holds the process; `to` has none. */
void fs_descriptor_move(struct fs_descriptor *from, struct fs_descriptor *to);
void fs_descriptor_close(struct fs_descriptor *owned); /* idempotent */

/* The program has got EMFILE.  The optional ones are closed, and for a second nobody shall make others. */
void fs_descriptor_give_back(void);
int fs_descriptor_is_short(void);
int fs_descriptor_count(void); /* how many there are */

#endif
