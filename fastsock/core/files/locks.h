/* Who may write where: nothing is lost that is written next to a part that somebody reads, changes and writes back.
 *
 * All who write to a file follow these rules, whatever process they are in:
 *  - who changes a part has its lock;
 *  - who only writes a part has its lock, too, or a claim on it.  A claim stays, so that small writes that follow each other
 *    need no system call for it.  Nobody waits for a claim: who meets another's writes run by run, and nothing between;
 *  - claims are locks like the others, in a place where no file has data.
 * The kernel takes all threads that use one descriptor for one owner, so that these go by turns of their own. */
#ifndef FASTSOCK_FILES_LOCKS_H
#define FASTSOCK_FILES_LOCKS_H

#include <stdint.h>

enum { FS_FILE_UNLOCK, FS_FILE_SHARED, FS_FILE_ALONE };

/* Takes or gives back the lock of a part of the file, against all who have it open otherwise.  -EINTR: a signal came. */
int fs_file_lock(int file, int64_t start, int64_t length, int kind);

/* What somebody holds while it writes to a part. */
enum {
    FS_FILE_TURN = 1,  /* against other threads */
    FS_FILE_PART = 2,  /* the part's lock */
    FS_FILE_WHOLE = 4, /* nobody has a claim on any of it: what lies between may be written, too */
};

/* For writing, and nothing between; 0: the file system has no locks.  `claims`: it may claim what follows. */
int fs_file_hold_to_write(int file, int64_t start, int64_t length, int claims);
/* For changing; 0 as above.  `locked`: the caller has the part's lock, and gets 0 also where it is not its turn. */
int fs_file_hold_to_change(int file, int64_t start, int64_t length, int locked);
void fs_file_let_go(int file, int64_t start, int64_t length, int held);

/* Gives back what a descriptor has claimed: before it is closed, and where others are about to change parts. */
void fs_file_forget_claims(int file);

#endif
