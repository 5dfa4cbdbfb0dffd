/* Where the linker leads what the core itself calls by a name that has a door: past the doors.  It is linked within each
 * module that has a part of the core. */
#define _GNU_SOURCE
#include "next.h"

#define LED(result, name, parameters, arguments) \
    result __wrap_##name parameters;             \
    result __wrap_##name parameters { return fs_next.name arguments; }
FS_NEXT_ALL(LED)

int __wrap_fcntl64(int descriptor, int command, void *argument);
int __wrap_fcntl64(int descriptor, int command, void *argument) { return fs_next.fcntl(descriptor, command, argument); }

/* What a compiler makes of calls whose buffers it knows (_FORTIFY_SOURCE). */
ssize_t __wrap___recv_chk(int descriptor, void *target, size_t length, size_t room, int flags);
ssize_t __wrap___recv_chk(int descriptor, void *target, size_t length, size_t room, int flags)
{
    return fs_next.recv(descriptor, target, length < room ? length : room, flags);
}

ssize_t __wrap___read_chk(int descriptor, void *target, size_t length, size_t room);
ssize_t __wrap___read_chk(int descriptor, void *target, size_t length, size_t room)
{
    return fs_next.read(descriptor, target, length < room ? length : room);
}

int __wrap___poll_chk(struct pollfd *list, nfds_t count, int timeout, size_t room);
int __wrap___poll_chk(struct pollfd *list, nfds_t count, int timeout, size_t room)
{
    (void)room;
    return fs_next.poll(list, count, timeout);
}

int __wrap___ppoll_chk(struct pollfd *list, nfds_t count, const struct timespec *limit, const sigset_t *mask,
                       size_t room);
int __wrap___ppoll_chk(struct pollfd *list, nfds_t count, const struct timespec *limit, const sigset_t *mask,
                       size_t room)
{
    (void)room;
    return fs_next.ppoll(list, count, limit, mask);
}
