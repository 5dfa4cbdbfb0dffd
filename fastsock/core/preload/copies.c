/* dup and its family: a number more for the same connection. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "borrowed.h"
#include "next.h"
#include "passing.h"
#include "process.h"
#include "report.h"
#include "switch/identity.h"
#include "switch/leave.h"
#include "switch/table.h"
#include "watched.h"

/* Before a number more: the child of vfork() has it for a program that knows nothing of the connection. */
static int is_of_child(int descriptor)
{
    if (fs_table_find(descriptor) == NULL || !fs_is_borrowed()) return 0;
    fs_pass_number(descriptor);
    return 1;
}

static int duplicated(int descriptor, int as, int of_child)
{
    int before = errno;
    if (as >= 0 && !of_child) {
        fs_pass_shares(descriptor);
        fs_pass_shares(as);
    }
    if (as < 0 || of_child || (fs_table_find(as) != NULL && fs_is_borrowed())) return as;
    fs_watched_copied(descriptor);
    if (fs_is_within++ == 0) {
        if (fs_table_find(as) != fs_table_find(descriptor)) fs_table_lose(as);
        if (fs_table_find(descriptor) != NULL && fs_identity_check(descriptor)) fs_table_duplicate(descriptor, as);
        /* the C library's own streams move bytes past the doors */
        if (fs_pass_is_to_stream(as)) fs_pass_number(as);
    }
    fs_is_within--;
    errno = before;
    return as;
}

/* That number means another file next.  Its stream comes into the table first: what another thread sends there must not go
 * past the memory.  1: it did. */
static int leave(int descriptor, int as)
{
    if (descriptor == as || fs_is_within > 0 || fs_next.fcntl(descriptor, F_GETFD, NULL) < 0) return 0;
    int enters = 0;
    fs_is_within++;
    fs_watched_closes(as);
    if (fs_table_find(as) != fs_table_find(descriptor) && !fs_is_borrowed()) {
        fs_report_leaves(as);
        fs_leave_number(as);
        enters = fs_table_find(descriptor) != NULL && fs_identity_check(descriptor) &&
                 fs_table_duplicate(descriptor, as) == 0;
    }
    fs_is_within--;
    return enters;
}

static int replaced(int descriptor, int result, int as, int of_child, int has_entered)
{
    int before = errno;
    if (result < 0 && has_entered) fs_table_lose(as);
    errno = before;
    return duplicated(descriptor, result, of_child);
}

FS_DOOR int dup(int descriptor)
{
    int of_child = is_of_child(descriptor), as = fs_next.dup(descriptor);
    if (as >= 0) fs_pass_begins(as);
    return duplicated(descriptor, as, of_child);
}

FS_DOOR int dup2(int descriptor, int as)
{
    int of_child = is_of_child(descriptor);
    if (descriptor == as) return fs_next.dup2(descriptor, as);
    int enters = leave(descriptor, as);
    return replaced(descriptor, fs_next.dup2(descriptor, as), as, of_child, enters);
}

FS_DOOR int dup3(int descriptor, int as, int flags)
{
    int of_child = is_of_child(descriptor);
    if (descriptor == as || flags & ~O_CLOEXEC) return fs_next.dup3(descriptor, as, flags);
    int enters = leave(descriptor, as);
    return replaced(descriptor, fs_next.dup3(descriptor, as, flags), as, of_child, enters);
}

static int control(int descriptor, int command, void *argument)
{
    if (command == F_SETFL && (long)argument & O_ASYNC) fs_pass_number(descriptor); /* TCP alone sends signals */
    if (command != F_DUPFD && command != F_DUPFD_CLOEXEC) return fs_next.fcntl(descriptor, command, argument);
    int of_child = is_of_child(descriptor), as = fs_next.fcntl(descriptor, command, argument);
    if (as >= 0) fs_pass_begins(as);
    return duplicated(descriptor, as, of_child);
}

FS_DOOR int fcntl(int descriptor, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control(descriptor, command, argument);
}

FS_DOOR int fcntl64(int descriptor, int command, ...) __attribute__((alias("fcntl")));
FS_ALIAS(fcntl) int __fcntl(int descriptor, int command, ...);
FS_ALIAS(dup2) int __dup2(int descriptor, int as);
