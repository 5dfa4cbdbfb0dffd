/* Where Python's class has this library's core (../beside.h). */
#ifndef FASTSOCK_PRELOAD_SHARING_H
#define FASTSOCK_PRELOAD_SHARING_H

#include <stdatomic.h>

#include "switch/table.h"

extern _Atomic int fs_python_reports; /* of all connections: this library does not */

/* Of this thread: the class makes a call of the kernel on that number.  -1: it does not. */
extern _Thread_local int fs_passing __attribute__((tls_model("initial-exec")));

void fs_sharing_entered(void); /* one connection more */

/* The stream that a call by the program moves bytes of, or NULL. */
static inline struct fs_connection *fs_stream_of(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    return connection != NULL && fs_passing == descriptor ? NULL : connection;
}

#endif
