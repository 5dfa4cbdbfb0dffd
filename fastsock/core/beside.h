/* The preloaded library (preload/) in a process of Python.
 *
 * Where it is of this build, its core is the process's one core: Python's class and the doors of the library have one table,
 * and either may serve a descriptor (preload/sharing.c).  Where it is of another build, Python has a core of its own, and the
 * library takes no connection (beside.c).
 */
#ifndef FASTSOCK_BESIDE_H
#define FASTSOCK_BESIDE_H

#include <stdint.h>

/* Whether the doors serve what Python's class serves: 1.  0: they are not there, or stand aside from now on.  The class asks
 * once, before its first connection. */
int fs_beside_share(int wanted);

/* What this thread calls on that number, by names that have doors, is for the kernel alone; -1: on none.  The number of before:
 * it is given back at the end of the call, which may run other code meanwhile. */
int fs_beside_pass(int descriptor);

/* Python tells of all connections, at the end and as they begin and end. */
void fs_beside_reports(int python);

/* How many connections the doors have let into the table. */
uint32_t fs_beside_entered(void);

#endif
