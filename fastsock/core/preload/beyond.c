/* io_uring: what is submitted there moves bytes past all doors.  Programs fall back where the kernel has none. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "next.h"
#include "process.h"

FS_DOOR long syscall(long number, ...)
{
    long words[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) words[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_io_uring_setup && !atomic_load_explicit(&fs_stands_aside, memory_order_relaxed)) {
        errno = ENOSYS;
        return -1;
    }
    return fs_next.syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
