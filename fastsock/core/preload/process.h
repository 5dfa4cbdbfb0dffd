/* What this library does in a process: by the settings of the environment, and not where another core serves it. */
#ifndef FASTSOCK_PRELOAD_PROCESS_H
#define FASTSOCK_PRELOAD_PROCESS_H

#include <stdatomic.h>

struct fs_connection;

/* Reads the settings, once.  Before the table gets a connection. */
void fs_process_begin(void);

/* No connection comes into the table any more: the process does not want it, or its Python has a core of its own. */
extern _Atomic int fs_stands_aside;

/* This thread is within the table, or what hangs on it, with a lock: a call that comes meanwhile is a signal handler's.  It
 * leaves the table alone, which then finds out by itself. */
extern _Thread_local int fs_is_within;

/* A child of vfork(): it has its own numbers, and its parent's memory.  A system call. */
int fs_is_borrowed(void);

/* Where FASTSOCK_STATS has the report go, or NULL: also where the program has cleared its environment. */
extern const char *fs_report_target;

/* Before the table gets its first connection: what is said at the end. */
void fs_report_at_exit(void);

#endif
