/* The connections of this process that were closed last, for reports. */
#ifndef FASTSOCK_CLOSED_H
#define FASTSOCK_CLOSED_H

#include <netinet/in.h>

#include "candidates.h"
#include "carry.h"

enum { FS_CLOSED_KEPT = 1000 };

union fs_closed_address {
    struct sockaddr any; /* AF_UNSPEC: it is not known */
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

struct fs_closed {
    struct fs_carriers carriers;
    enum fs_role role;
    enum fs_why why;
    struct fs_threshold threshold;
    union fs_closed_address own, other;
};

/* Of those that have memory, or of all: at the other ones' closes nothing is asked. */
void fs_closed_keep(int all);
/* Called before fs_leave_descriptor().  A number that is not in the table, or not the last one of its connection, is no
 * close. */
void fs_closed_note(int descriptor);
uint64_t fs_closed_attached(void);                            /* how many there were that had memory */
size_t fs_closed_list(struct fs_closed list[FS_CLOSED_KEPT]); /* the oldest first */
/* Of an open one, too. */
void fs_closed_look(struct fs_connection *connection, int descriptor, struct fs_closed *seen);

#endif
