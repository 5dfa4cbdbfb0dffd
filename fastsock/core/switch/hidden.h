/* Descriptors that the program does not know.
 *
 * A program may close every number that it does not know, and have it again for a file of its own.  So a number is used
 * or closed only after a look has shown the same file.  A forked child closes its copies at once: they would keep open
 * what this process closes.
 */
#ifndef FASTSOCK_HIDDEN_H
#define FASTSOCK_HIDDEN_H

#include <sys/types.h>

struct fs_hidden {
    int number; /* -1, or of that file */
    dev_t device;
    ino_t file;
    struct fs_hidden *next, *previous;
    int optional; /* its number is used under the process's lock alone: fs_hidden_give_back() may close it */
};

#define FS_HIDDEN_NONE ((struct fs_hidden){.number = -1})

/* Takes over a descriptor and returns its number from now on, or a negative error, which it returns too.  The caller has held the process (fs_hold_process()) since
 * before the number was made: so no fork comes in between.  `hidden` stays where it is until it is closed or taken. */
int fs_hidden_keep(struct fs_hidden *hidden, int number);
int fs_hidden_number(const struct fs_hidden *hidden); /* -1: none, or the program has closed it */
int fs_hidden_take(struct fs_hidden *hidden);         /* the number is the caller's, who holds the process; -1: none */
void fs_hidden_move(struct fs_hidden *from, struct fs_hidden *to); /* by who holds the process; `to` has none */
void fs_hidden_close(struct fs_hidden *hidden);                    /* idempotent */

/* The program has got EMFILE.  The optional ones are closed, and for a second nobody shall make others. */
void fs_hidden_give_back(void);
int fs_hidden_is_short(void);
int fs_hidden_count(void); /* how many there are */

#endif
