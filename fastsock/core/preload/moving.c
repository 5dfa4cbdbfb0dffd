/* send, recv, read, write and their families. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>

#include "next.h"
#include "passing.h"
#include "stream.h"

#define BESIDE (MSG_ERRQUEUE) /* no part of the stream: the kernel's own */

/* ---- sending ---- */

static ssize_t send_one(struct fs_connection *connection, int descriptor, const void *data, size_t length, int flags)
{
    struct iovec part = {(void *)data, length};
    struct fs_parts parts = {&part, length != 0, length};
    return fs_stream_send(connection, descriptor, &parts, flags);
}

FS_DOOR ssize_t send(int descriptor, const void *data, size_t length, int flags)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return fs_next.send(descriptor, data, length, flags);
    int before = errno;
    ssize_t sent = send_one(connection, descriptor, data, length, flags);
    return sent == -ENOTSOCK ? fs_next.send(descriptor, data, length, flags) : fs_answer(sent, before);
}

FS_DOOR ssize_t sendto(int descriptor, const void *data, size_t length, int flags, const struct sockaddr *address,
                       socklen_t size)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return fs_next.sendto(descriptor, data, length, flags, address, size);
    return send(descriptor, data, length, flags); /* a connected stream ignores the address */
}

FS_DOOR ssize_t write(int descriptor, const void *data, size_t length)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return fs_next.write(descriptor, data, length);
    int before = errno;
    ssize_t sent = send_one(connection, descriptor, data, length, 0);
    return sent == -ENOTSOCK ? fs_next.write(descriptor, data, length) : fs_answer(sent, before);
}

FS_DOOR ssize_t writev(int descriptor, const struct iovec *list, int count)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || count < 0 || count > IOV_MAX) return fs_next.writev(descriptor, list, count);
    int before = errno;
    ssize_t sent = fs_stream_send_list(connection, descriptor, list, (size_t)count, 0);
    return sent == -ENOTSOCK ? fs_next.writev(descriptor, list, count) : fs_answer(sent, before);
}

FS_DOOR ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) {
        if (message != NULL && message->msg_controllen != 0) fs_pass_on(message);
        return fs_next.sendmsg(descriptor, message, flags);
    }
    if (message->msg_iovlen > IOV_MAX) return fs_answer(-EMSGSIZE, 0);
    int before = errno;
    ssize_t sent = fs_stream_send_list(connection, descriptor, message->msg_iov, message->msg_iovlen, flags);
    return sent == -ENOTSOCK ? fs_next.sendmsg(descriptor, message, flags) : fs_answer(sent, before);
}

FS_DOOR int sendmmsg(int descriptor, struct mmsghdr *list, unsigned count, int flags)
{
    if (fs_table_find(descriptor) == NULL) {
        for (unsigned i = 0; i < count && i < IOV_MAX; i++)
            if (list[i].msg_hdr.msg_controllen != 0) fs_pass_on(&list[i].msg_hdr);
        return fs_next.sendmmsg(descriptor, list, count, flags);
    }
    unsigned done = 0;
    for (; done < count && done < IOV_MAX; done++) {
        ssize_t sent = sendmsg(descriptor, &list[done].msg_hdr, flags);
        if (sent < 0) return done > 0 ? (int)done : -1;
        list[done].msg_len = (unsigned)sent;
    }
    return (int)done;
}

/* ---- receiving ---- */

FS_DOOR ssize_t recv(int descriptor, void *target, size_t length, int flags)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || flags & BESIDE) return fs_next.recv(descriptor, target, length, flags);
    int before = errno;
    ssize_t got = fs_stream_receive(connection, descriptor, target, length, flags);
    return got == -ENOTSOCK ? fs_next.recv(descriptor, target, length, flags) : fs_answer(got, before);
}

FS_DOOR ssize_t recvfrom(int descriptor, void *target, size_t length, int flags, struct sockaddr *address,
                         socklen_t *size)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || flags & BESIDE) return fs_next.recvfrom(descriptor, target, length, flags, address, size);
    ssize_t got = recv(descriptor, target, length, flags);
    if (got >= 0 && address != NULL && size != NULL) *size = 0; /* of a stream the kernel tells none */
    return got;
}

FS_DOOR ssize_t read(int descriptor, void *target, size_t length)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || length == 0) return fs_next.read(descriptor, target, length);
    int before = errno;
    ssize_t got = fs_stream_receive(connection, descriptor, target, length, 0);
    return got == -ENOTSOCK ? fs_next.read(descriptor, target, length) : fs_answer(got, before);
}

FS_DOOR ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || flags & BESIDE) return fs_next.recvmsg(descriptor, message, flags);
    int before = errno;
    ssize_t got = fs_stream_receive_message(connection, descriptor, message, flags);
    return got == -ENOTSOCK ? fs_next.recvmsg(descriptor, message, flags) : fs_answer(got, before);
}

FS_DOOR ssize_t readv(int descriptor, const struct iovec *list, int count)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || count < 0 || count > IOV_MAX) return fs_next.readv(descriptor, list, count);
    struct msghdr message = {.msg_iov = (struct iovec *)list, .msg_iovlen = (size_t)count};
    int before = errno;
    ssize_t got = fs_stream_receive_message(connection, descriptor, &message, 0);
    return got == -ENOTSOCK ? fs_next.readv(descriptor, list, count) : fs_answer(got, before);
}

FS_DOOR int recvmmsg(int descriptor, struct mmsghdr *list, unsigned count, int flags, struct timespec *limit)
{
    if (fs_table_find(descriptor) == NULL) return fs_next.recvmmsg(descriptor, list, count, flags, limit);
    unsigned done = 0;
    for (; done < count && done < IOV_MAX; done++) {
        int now = done > 0 && flags & MSG_WAITFORONE ? flags | MSG_DONTWAIT : flags;
        ssize_t got = recvmsg(descriptor, &list[done].msg_hdr, now & ~MSG_WAITFORONE);
        if (got < 0) return done > 0 ? (int)done : -1;
        list[done].msg_len = (unsigned)got;
        if (got == 0) return (int)done + 1;
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
