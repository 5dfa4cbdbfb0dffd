#ifndef FASTSOCK_LINGER_H
#define FASTSOCK_LINGER_H

/* Called before the last close of a connected UNIX stream.  No other process may hold it.  The writing half is shut
 * now. The rest is kept until the other end sends, closes, or a minute has passed.  Nothing is kept where the other end
 * closed before.  0, or -errno: then nothing is kept either. */
int fs_linger(int descriptor);

/* Called before a fork: ends the thread, and nothing lingers any more.  Python warns where a process of several threads
 * forks, and a program of one thread does not expect that warning. */
void fs_linger_rest(void);

#endif
