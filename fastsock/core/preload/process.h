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

/* Where FASTSOCK_STATS has the report go, or NULL: also where the program has cleared its environment. */
extern const char *fs_report_target;

/* Whether decisions are told (FASTSOCK_TRACE). */
extern int fs_traces;

/* Why no connection of this process may have memory. */
enum fs_memory { FS_MEMORY_IS_ON, FS_MEMORY_IS_LEFT_OUT, FS_MEMORY_LACKS_RULES };
extern enum fs_memory fs_memory_is_off;

#endif
