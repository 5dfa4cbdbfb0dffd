/* What is told of connections: as they begin and end (FASTSOCK_TRACE), and at the process's end (FASTSOCK_STATS). */
#ifndef FASTSOCK_PRELOAD_REPORT_H
#define FASTSOCK_PRELOAD_REPORT_H

#include <sys/socket.h>

void fs_report_at_exit(void); /* before the table gets its first connection */
/* It has come into the table.  `given`: the address of connect(), or NULL. */
void fs_report_entered(int descriptor, const struct sockaddr *given);
void fs_report_leaves(int descriptor); /* before fs_leave_number() */
/* The program was refused a number, and this library has so many. */
void fs_report_short(int count);

#endif
