/* What a program asks of a socket, or sets, that another value holds underneath for. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "next.h"
#include "passing.h"
#include "switch/carry.h"
#include "switch/options.h"
#include "switch/table.h"

#define KERNEL_TCP_ULP 31
#define KERNEL_TCP_REPAIR 19

static int answer(int result, int before)
{
    errno = result < 0 ? -result : before;
    return result < 0 ? -1 : 0;
}

FS_DOOR int setsockopt(int descriptor, int level, int option, const void *value, socklen_t size)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return fs_next.setsockopt(descriptor, level, option, value, size);
    if (size >= sizeof(int) && value != NULL) {
        int number, before = errno;
        memcpy(&number, value, sizeof number);
        if (level == SOL_SOCKET && option == SO_RCVLOWAT && number > 1)
            fs_pass_number(descriptor); /* TCP alone waits */
        int done = fs_option_set(connection, descriptor, level, option, number);
        if (done != 0) return answer(done, before);
    }
    /* the kernel's own code speaks on the stream then */
    if (level == IPPROTO_TCP && (option == KERNEL_TCP_ULP || option == KERNEL_TCP_REPAIR)) fs_pass_number(descriptor);
    int result = fs_next.setsockopt(descriptor, level, option, value, size);
    if (result == 0 && level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_RCVBUF))
        fs_options_bound(connection, descriptor);
    return result;
}

FS_DOOR int getsockopt(int descriptor, int level, int option, void *value, socklen_t *size)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    int number, before = errno;
    if (connection == NULL || value == NULL || size == NULL || *size < sizeof number)
        return fs_next.getsockopt(descriptor, level, option, value, size);
    int done = fs_option_get(connection, descriptor, level, option, &number);
    if (done == 0) return fs_next.getsockopt(descriptor, level, option, value, size);
    if (done > 0) {
        memcpy(value, &number, sizeof number);
        *size = sizeof number;
    }
    return answer(done < 0 ? done : 0, before);
}

FS_DOOR int ioctl(int descriptor, unsigned long request, ...)
{
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (request == FIOASYNC) fs_pass_number(descriptor); /* TCP alone sends signals */
    struct fs_connection *connection = request == FIONREAD ? fs_table_find(descriptor) : NULL;
    if (connection == NULL || !fs_carry_is_attached(connection)) return fs_next.ioctl(descriptor, request, argument);
    int before = errno;
    ssize_t unread = fs_carry_unread(connection, descriptor);
    if (unread >= 0) *(int *)argument = unread > INT32_MAX ? INT32_MAX : (int)unread;
    return answer(unread < 0 ? (int)unread : 0, before);
}
