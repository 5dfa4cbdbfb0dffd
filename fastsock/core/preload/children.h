/* The environment that this library came by, which programs that this one starts get too, or not. */
#ifndef FASTSOCK_PRELOAD_CHILDREN_H
#define FASTSOCK_PRELOAD_CHILDREN_H

/* Of a process that the command has become, with --no-children: takes its part out of the environment.  1: the process is
 * not that one, and got the environment all the same. */
int fs_children_leave_out(void);

#endif
