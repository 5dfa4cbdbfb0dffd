#ifndef FASTSOCK_LINGER_H
#define FASTSOCK_LINGER_H

/* Before the last close of a connected UNIX stream, which nobody else may hold: its writing half is shut now, and the rest
 * is kept until the other end sends, closes, or a minute has passed.  Nothing is where the other end has closed before.
 * 0, or -errno: then nothing is kept either. */
int fs_linger(int descriptor);

/* Before a fork: Python warns where a process of several threads forks, and a program of one does not expect that.
 * Ends the thread, and nothing lingers any more. */
void fs_linger_rest(void);

#endif
