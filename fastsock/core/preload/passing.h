/* Numbers that are passed on: to another process, or to code of the C library that moves bytes past the doors. */
#ifndef FASTSOCK_PRELOAD_PASSING_H
#define FASTSOCK_PRELOAD_PASSING_H

#include <sys/socket.h>

void fs_pass_on(const struct msghdr *message); /* SCM_RIGHTS */
void fs_pass_number(int descriptor);           /* one that may be in the table: TCP carries from now on */
/* A stream of the C library's has the number (fdopen()), from now on.  One that is made anew has none. */
void fs_pass_to_stream(int descriptor);
void fs_pass_begins(int descriptor);
void fs_pass_shares(int descriptor); /* another number, or another process, has the same file from now on */
/* A socket that this process has made, since it has started or forked anything, and that nobody else has.  What others read
 * or write there nobody would see. */
int fs_pass_is_alone(int descriptor);
int fs_pass_is_to_stream(int descriptor); /* also the standard ones */
void fs_pass_all(void);                   /* all streams: none has memory behind it */
void fs_pass_inherited(void);             /* those that live on in the program which this process becomes */

#endif
