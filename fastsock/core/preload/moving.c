/* send, recv, read, write and their families. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>

#include "next.h"
#include "passing.h"
#include "sharing.h"
#include "stream.h"
#include "system.h"

#define BESIDE (MSG_ERRQUEUE) /* no part of the stream: the kernel's own */
#define SECOND_NS 1000000000u

/* The kernel refuses lengths of addresses that none can have, also where it does not use the address. */
static int is_no_length(const void *address, socklen_t size) { return address != NULL && (int)size < 0; }

/* ---- sending ---- */

static ssize_t send_one(struct fs_connection *connection, int descriptor, const void *data, size_t length, int flags)
{
    if (length != 0 && fs_is_nowhere(data)) return -EFAULT;
    struct iovec part = {(void *)data, length};
    struct fs_parts parts = {&part, length != 0, length};
    return fs_stream_send(connection, descriptor, &parts, flags);
}

FS_DOOR ssize_t send(int descriptor, const void *data, size_t length, int flags)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL) return fs_next.send(descriptor, data, length, flags);
    int before = errno;
    ssize_t sent = send_one(connection, descriptor, data, length, flags);
    return sent == -ENOTSOCK ? fs_next.send(descriptor, data, length, flags) : fs_answer(sent, before);
}

FS_DOOR ssize_t sendto(int descriptor, const void *data, size_t length, int flags, const struct sockaddr *address,
                       socklen_t size)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL) return fs_next.sendto(descriptor, data, length, flags, address, size);
    if (address != NULL && size > sizeof(struct sockaddr_storage)) return fs_answer(-EINVAL, 0);
    return send(descriptor, data, length, flags); /* a connected stream ignores the address */
}

FS_DOOR ssize_t write(int descriptor, const void *data, size_t length)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL) return fs_next.write(descriptor, data, length);
    int before = errno;
    ssize_t sent = send_one(connection, descriptor, data, length, 0);
    return sent == -ENOTSOCK ? fs_next.write(descriptor, data, length) : fs_answer(sent, before);
}

FS_DOOR ssize_t writev(int descriptor, const struct iovec *list, int count)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL || count < 0 || count > IOV_MAX) return fs_next.writev(descriptor, list, count);
    int before = errno;
    ssize_t sent = fs_stream_send_list(connection, descriptor, list, (size_t)count, 0);
    return sent == -ENOTSOCK ? fs_next.writev(descriptor, list, count) : fs_answer(sent, before);
}

FS_DOOR ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL) {
        if (!fs_is_nowhere(message) && message->msg_controllen != 0) fs_pass_on(message);
        return fs_next.sendmsg(descriptor, message, flags);
    }
    if (fs_is_nowhere(message)) return fs_answer(-EFAULT, 0);
    if (is_no_length(message->msg_name, message->msg_namelen)) return fs_answer(-EINVAL, 0);
    if (message->msg_iovlen > IOV_MAX) return fs_answer(-EMSGSIZE, 0);
    int before = errno;
    ssize_t sent = fs_stream_send_list(connection, descriptor, message->msg_iov, message->msg_iovlen, flags);
    return sent == -ENOTSOCK ? fs_next.sendmsg(descriptor, message, flags) : fs_answer(sent, before);
}

static size_t length_of(const struct msghdr *message)
{
    size_t length = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) length += message->msg_iov[i].iov_len;
    return length;
}

FS_DOOR int sendmmsg(int descriptor, struct mmsghdr *list, unsigned count, int flags)
{
    if (fs_stream_of(descriptor) == NULL) {
        for (unsigned i = 0; i < count && i < IOV_MAX && !fs_is_nowhere(list); i++)
            if (list[i].msg_hdr.msg_controllen != 0) fs_pass_on(&list[i].msg_hdr);
        return fs_next.sendmmsg(descriptor, list, count, flags);
    }
    if (count > 0 && fs_is_nowhere(list)) return (int)fs_answer(-EFAULT, 0);
    unsigned done = 0;
    for (; done < count && done < IOV_MAX; done++) {
        ssize_t sent = sendmsg(descriptor, &list[done].msg_hdr, flags);
        if (sent < 0) return done > 0 ? (int)done : -1;
        list[done].msg_len = (unsigned)sent;
        if ((size_t)sent < length_of(&list[done].msg_hdr)) return (int)done + 1; /* the next one would leave a gap */
    }
    return (int)done;
}

/* At no position it is writev().  What else flags may ask for the kernel does. */
FS_DOOR ssize_t pwritev2(int descriptor, const struct iovec *list, int count, off_t at, int flags)
{
    if (at == -1 && flags == 0 && fs_stream_of(descriptor) != NULL) return writev(descriptor, list, count);
    if (at == -1) fs_pass_number(descriptor);
    return fs_next.pwritev2(descriptor, list, count, at, flags);
}
FS_ALIAS(pwritev2) ssize_t pwritev64v2(int descriptor, const struct iovec *list, int count, off_t at, int flags);

/* ---- receiving ---- */

FS_DOOR ssize_t recv(int descriptor, void *target, size_t length, int flags)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL || flags & BESIDE) return fs_next.recv(descriptor, target, length, flags);
    int before = errno;
    ssize_t got = fs_stream_receive(connection, descriptor, target, length, flags);
    return got == -ENOTSOCK ? fs_next.recv(descriptor, target, length, flags) : fs_answer(got, before);
}

FS_DOOR ssize_t recvfrom(int descriptor, void *target, size_t length, int flags, struct sockaddr *address,
                         socklen_t *size)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL || flags & BESIDE) return fs_next.recvfrom(descriptor, target, length, flags, address, size);
    ssize_t got = recv(descriptor, target, length, flags);
    if (got < 0 || address == NULL) return got;
    if (fs_is_nowhere(size)) return fs_answer(-EFAULT, 0); /* the bytes are gone, as the kernel has it */
    if (is_no_length(address, *size)) return fs_answer(-EINVAL, 0);
    *size = 0; /* of a stream the kernel tells none */
    return got;
}

FS_DOOR ssize_t read(int descriptor, void *target, size_t length)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL || length == 0) return fs_next.read(descriptor, target, length);
    int before = errno;
    ssize_t got = fs_stream_receive(connection, descriptor, target, length, 0);
    return got == -ENOTSOCK ? fs_next.read(descriptor, target, length) : fs_answer(got, before);
}

FS_DOOR ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL || flags & BESIDE) return fs_next.recvmsg(descriptor, message, flags);
    if (fs_is_nowhere(message)) return fs_answer(-EFAULT, 0);
    if (is_no_length(message->msg_name, message->msg_namelen)) return fs_answer(-EINVAL, 0);
    int before = errno;
    ssize_t got = fs_stream_receive_message(connection, descriptor, message, flags);
    return got == -ENOTSOCK ? fs_next.recvmsg(descriptor, message, flags) : fs_answer(got, before);
}

FS_DOOR ssize_t readv(int descriptor, const struct iovec *list, int count)
{
    struct fs_connection *connection = fs_stream_of(descriptor);
    if (connection == NULL || count < 0 || count > IOV_MAX) return fs_next.readv(descriptor, list, count);
    struct msghdr message = {.msg_iov = (struct iovec *)list, .msg_iovlen = (size_t)count};
    int before = errno;
    ssize_t got = fs_stream_receive_message(connection, descriptor, &message, 0);
    return got == -ENOTSOCK ? fs_next.readv(descriptor, list, count) : fs_answer(got, before);
}

FS_DOOR ssize_t preadv2(int descriptor, const struct iovec *list, int count, off_t at, int flags)
{
    if (at == -1 && flags == 0 && fs_stream_of(descriptor) != NULL) return readv(descriptor, list, count);
    if (at == -1) fs_pass_number(descriptor);
    return fs_next.preadv2(descriptor, list, count, at, flags);
}
FS_ALIAS(preadv2) ssize_t preadv64v2(int descriptor, const struct iovec *list, int count, off_t at, int flags);

/* The kernel looks at the limit between two messages only, and says what is left of it.  0: nothing. */
static int is_left(struct timespec *limit, uint64_t begun, const struct timespec *first)
{
    uint64_t spent = fs_now_ns() - begun;
    time_t seconds = first->tv_sec - (time_t)(spent / SECOND_NS);
    long ns = first->tv_nsec - (long)(spent % SECOND_NS);
    if (ns < 0) {
        seconds--;
        ns += (long)SECOND_NS;
    }
    if (seconds < 0) seconds = ns = 0;
    *limit = (struct timespec){seconds, ns};
    return seconds > 0 || ns > 0;
}

FS_DOOR int recvmmsg(int descriptor, struct mmsghdr *list, unsigned count, int flags, struct timespec *limit)
{
    if (fs_stream_of(descriptor) == NULL || flags & BESIDE)
        return fs_next.recvmmsg(descriptor, list, count, flags, limit);
    const struct timespec first = limit != NULL ? *limit : (struct timespec){0, 0};
    if (first.tv_sec < 0 || first.tv_nsec < 0 || first.tv_nsec >= (long)SECOND_NS) return (int)fs_answer(-EINVAL, 0);
    if (count > 0 && fs_is_nowhere(list)) return (int)fs_answer(-EFAULT, 0);
    uint64_t begun = limit != NULL ? fs_now_ns() : 0;
    unsigned done = 0;
    for (; done < count && done < IOV_MAX; done++) {
        int now = done > 0 && flags & MSG_WAITFORONE ? flags | MSG_DONTWAIT : flags;
        ssize_t got = recvmsg(descriptor, &list[done].msg_hdr, now & ~MSG_WAITFORONE);
        if (got < 0) return done > 0 ? (int)done : -1;
        list[done].msg_len = (unsigned)got;
        if ((limit != NULL && !is_left(limit, begun, &first)) || list[done].msg_hdr.msg_flags & MSG_OOB)
            return (int)done + 1;
    }
    return (int)done;
}

/* ---- what a compiler makes of calls whose buffers it knows (_FORTIFY_SOURCE) ---- */

FS_DOOR ssize_t __recv_chk(int descriptor, void *target, size_t length, size_t room, int flags);
FS_DOOR ssize_t __recv_chk(int descriptor, void *target, size_t length, size_t room, int flags)
{
    if (length > room) abort();
    return recv(descriptor, target, length, flags);
}

FS_DOOR ssize_t __recvfrom_chk(int descriptor, void *target, size_t length, size_t room, int flags,
                               struct sockaddr *address, socklen_t *size);
FS_DOOR ssize_t __recvfrom_chk(int descriptor, void *target, size_t length, size_t room, int flags,
                               struct sockaddr *address, socklen_t *size)
{
    if (length > room) abort();
    return recvfrom(descriptor, target, length, flags, address, size);
}

FS_DOOR ssize_t __read_chk(int descriptor, void *target, size_t length, size_t room);
FS_DOOR ssize_t __read_chk(int descriptor, void *target, size_t length, size_t room)
{
    if (length > room) abort();
    return read(descriptor, target, length);
}

/* ---- other names that the C library has for them ---- */

FS_ALIAS(read) ssize_t __read(int descriptor, void *target, size_t length);
FS_ALIAS(write) ssize_t __write(int descriptor, const void *data, size_t length);
FS_ALIAS(recv) ssize_t __recv(int descriptor, void *target, size_t length, int flags);
FS_ALIAS(send) ssize_t __send(int descriptor, const void *data, size_t length, int flags);
