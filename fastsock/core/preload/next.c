#define _GNU_SOURCE
#include "next.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

/* A C library without that call: as a kernel without it. */
static int is_missing(void)
{
    errno = ENOSYS;
    return -1;
}

static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    return found != NULL ? found : (void *)is_missing;
}

/* Each pointer leads to this until its definition is known. */
#define FIND_FIRST(result, name, parameters, arguments) \
    static result find_##name parameters                \
    {                                                   \
        *(void **)&fs_next.name = find(#name);          \
        return fs_next.name arguments;                  \
    }
FS_NEXT_ALL(FIND_FIRST)

#define FIRST(result, name, parameters, arguments) .name = find_##name,
struct fs_next fs_next = {FS_NEXT_ALL(FIRST)};

/* Later ones may be called by a signal's handler, or by a child that was made by vfork(). */
#define FIND_NOW(result, name, parameters, arguments) *(void **)&fs_next.name = find(#name);
__attribute__((constructor(101))) static void find_all(void)
{
    int before = errno;
    FS_NEXT_ALL(FIND_NOW)
    errno = before;
}

/* ---- where the linker leads the core's own calls ---- */

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
