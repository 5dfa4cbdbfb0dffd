/* The way out past unread bytes that nobody sends again: the other end is stopped, has shut down, or has died, or they are
 * too many for the kernel's buffer.
 *
 * They are read here.  The numbers of the connection then mean one end of a fresh TCP connection within this host, and a
 * process of its own copies: first these bytes, then what comes over the connection's own TCP, which carries both
 * directions by then, and the other way what is written.  It goes on when this process has ended or become another
 * program, and holds no memory that others share.
 */
#ifndef FASTSOCK_DETOUR_H
#define FASTSOCK_DETOUR_H

#include <stddef.h>
#include <sys/types.h>

struct fs_detour {
    int outer; /* what the numbers mean next */
    int start; /* through it the process hears when and how it begins */
    unsigned char *bytes;
    size_t room;
};

/* Everything that can fail.  0, and a process waits; or -errno, and nothing has happened. */
int fs_detour_prepare(struct fs_detour *detour, int descriptor);
/* So many bytes come first.  `reset`: behind them comes a reset, which was told here already.  0; or -EPIPE: the process
 * has been killed. */
int fs_detour_begin(struct fs_detour *detour, size_t length, int reset);
void fs_detour_close(struct fs_detour *detour); /* what this process holds; before the begin: the process ends */

#endif
