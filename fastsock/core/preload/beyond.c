/* io_uring: what is submitted there moves bytes past all doors.  Programs fall back where the kernel has none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "next.h"
#include "process.h"

static int is_refused(void) { return !atomic_load_explicit(&fs_stands_aside, memory_order_relaxed); }

FS_DOOR long syscall(long number, ...)
{
    long words[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) words[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_io_uring_setup && is_refused()) {
        errno = ENOSYS;
        return -1;
    }
    return fs_next.syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* ---- liburing calls the kernel by itself: its own names that begin a ring; they return -errno ---- */

#define BEGINS_RING(name, parameters, arguments)                         \
    FS_DOOR int name parameters;                                         \
    FS_DOOR int name parameters                                          \
    {                                                                    \
        int(*next) parameters;                                           \
        *(void **)&next = is_refused() ? NULL : dlsym(RTLD_NEXT, #name); \
        return next == NULL ? -ENOSYS : next arguments;                  \
    }

BEGINS_RING(io_uring_setup, (unsigned entries, void *given), (entries, given))
BEGINS_RING(io_uring_queue_init, (unsigned entries, void *ring, unsigned flags), (entries, ring, flags))
BEGINS_RING(io_uring_queue_init_params, (unsigned entries, void *ring, void *given), (entries, ring, given))
BEGINS_RING(io_uring_queue_init_mem, (unsigned entries, void *ring, void *given, void *memory, size_t size),
            (entries, ring, given, memory, size))
