/* close and shutdown: what must be said before the kernel's. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <unistd.h>

#include "borrowed.h"
#include "next.h"
#include "process.h"
#include "report.h"
#include "switch/leave.h"
#include "switch/table.h"
#include "watched.h"

FS_DOOR int close(int descriptor)
{
    int before = errno;
    if (fs_is_within++ == 0) {
        fs_watched_closes(descriptor);
        if (fs_table_find(descriptor) != NULL && !fs_is_borrowed()) {
            fs_report_leaves(descriptor);
            fs_leave_number(descriptor);
        }
    }
    fs_is_within--;
    errno = before;
    return fs_next.close(descriptor);
}

FS_ALIAS(close) int __close(int descriptor);

static void leave_range(unsigned first, unsigned last)
{
    if (first > INT_MAX) return;
    int end = last < INT_MAX ? (int)last : INT_MAX;
    if (fs_is_within > 0 || fs_is_borrowed()) return;
    fs_is_within++;
    fs_watched_close_range((int)first, end);
    for (int i = (int)first; (i = fs_table_next(i)) >= 0 && i <= end; i++) {
        fs_report_leaves(i);
        fs_leave_number(i);
    }
    fs_is_within--;
}

FS_DOOR int close_range(unsigned first, unsigned last, int flags)
{
    int closes = first <= last && !(flags & ~CLOSE_RANGE_UNSHARE);
    /* first a range that nobody has: an old kernel, or a filter, refuses it */
    if (closes && fs_next.close_range(UINT_MAX, UINT_MAX, 0) == 0) leave_range(first, last);
    return fs_next.close_range(first, last, flags);
}

FS_DOOR void closefrom(int first)
{
    if (first < 0) first = 0;
    leave_range((unsigned)first, UINT_MAX);
    if (fs_next.close_range((unsigned)first, UINT_MAX, 0) == 0) return;
    long most = sysconf(_SC_OPEN_MAX); /* an older kernel */
    for (int i = first; i < most; i++) fs_next.close(i);
}

FS_DOOR int shutdown(int descriptor, int how)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return fs_next.shutdown(descriptor, how);
    int before = errno, error = fs_leave_shutdown(connection, descriptor, how);
    errno = error < 0 ? -error : before;
    return error < 0 ? -1 : 0;
}
