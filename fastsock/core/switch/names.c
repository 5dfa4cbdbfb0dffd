#define _GNU_SOURCE
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sockets/abstract.h"
#include "stream/layout.h"
#include "system.h"

#define OFFER_MAGIC 0x315245464653ull
#define NAME "fastsock/2/"

/* ---- names ---- */

struct name {
    struct sockaddr_un address;
    socklen_t size;
};

static char *put_hex(char *to, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    return to;
}

/* IPv4 is told by its length, so that a connection between both kinds of socket has one name. */
static char *put_place(char *to, const struct fs_place *place)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    size_t skip = memcmp(place->address, mapped, sizeof mapped) == 0 ? sizeof mapped : 0;
    const unsigned char port[2] = {(unsigned char)(place->port >> 8), (unsigned char)place->port};
    *to++ = '/';
    to = put_hex(to, place->address + skip, sizeof place->address - skip);
    *to++ = '.';
    return put_hex(to, port, sizeof port);
}

/* Without the user, so that two ends of different users meet and can say why they go no further. */
static struct name name_of(enum fs_name_kind kind, const struct fs_tuple *tuple, int listens)
{
    struct name name = {.address.sun_family = AF_UNIX};
    char *at = name.address.sun_path + 1;
    memcpy(at, NAME, sizeof NAME - 1);
    at += sizeof NAME - 1;
    *at++ = kind == FS_NAME_OFFERS ? 'o' : 'w';
    at = put_place(at, listens ? &tuple->own : &tuple->other);
    at = put_place(at, listens ? &tuple->other : &tuple->own);
    name.size = (socklen_t)(at - (char *)&name.address);
    return name;
}

_Static_assert(1 + sizeof NAME + 1 + 2 * (1 + 32 + 1 + 4) <= sizeof((struct sockaddr_un *)0)->sun_path,
               "the longest name fits");

/* ---- streams ---- */

static int make_stream(void)
{
    if (fs_descriptor_is_short()) return -EMFILE;
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return made < 0 ? -errno : made;
}

static int keep(struct fs_descriptor *owned, int number)
{
    int kept = fs_descriptor_keep(owned, number);
    return kept < 0 ? kept : 0;
}

int fs_name_listen(struct fs_descriptor *listener, enum fs_name_kind kind, const struct fs_tuple *tuple, int listens)
{
    struct name name = name_of(kind, tuple, listens);
    fs_hold_process();
    int made = make_stream();
    if (made >= 0 && (bind(made, (struct sockaddr *)&name.address, name.size) != 0 || listen(made, 1) != 0)) {
        int error = errno;
        close(made);
        made = -error;
    }
    int error = keep(listener, made);
    if (error == 0) listener->optional = 1;
    fs_release_process();
    return error;
}

static int check_user(const struct fs_descriptor *stream, enum fs_name_peers peers, pid_t *process)
{
    uid_t user;
    int error = fs_abstract_peer(stream->number, process, &user);
    if (error != 0) return error;
    return peers == FS_PEERS_ANY || fs_is_own_user(user) ? 0 : -EACCES;
}

static int checked(struct fs_descriptor *stream, enum fs_name_peers peers, pid_t *process)
{
    int error = check_user(stream, peers, process);
    if (error != 0) fs_descriptor_close(stream);
    return error;
}

/* A stream that found nobody serves again: to make one costs more than to ask. */
static struct fs_descriptor spare = {.number = -1};

static int take_spare(struct fs_descriptor *stream)
{
    int error = 0;
    fs_hold_process();
    if (fs_descriptor_number(&spare) >= 0) {
        fs_descriptor_move(&spare, stream);
        stream->optional = 0;
    } else {
        fs_descriptor_take(&spare);
        error = keep(stream, make_stream());
    }
    fs_release_process();
    return error;
}

/* Another thread may have given one meanwhile. */
static void give_spare(struct fs_descriptor *stream)
{
    fs_hold_process();
    if (spare.number < 0) fs_descriptor_move(stream, &spare);
    spare.optional = 1;
    fs_release_process();
    fs_descriptor_close(stream);
}

int fs_name_find(struct fs_descriptor *stream, enum fs_name_kind kind, const struct fs_tuple *tuple, int listens,
                 enum fs_name_peers peers, pid_t *process)
{
    struct name name = name_of(kind, tuple, listens);
    int error = take_spare(stream);
    if (error != 0) return error;
    if (connect(stream->number, (struct sockaddr *)&name.address, name.size) == 0)
        return checked(stream, peers, process);
    error = -errno;
    if (error == -ECONNREFUSED) give_spare(stream);
    else fs_descriptor_close(stream);
    return error;
}

int fs_name_accept(const struct fs_descriptor *listener, struct fs_descriptor *stream, enum fs_name_peers peers,
                   pid_t *process)
{
    fs_hold_process();
    int number = fs_descriptor_number(listener);
    int error = number < 0 ? -EBADF : keep(stream, fs_abstract_accept(number));
    fs_release_process();
    return error != 0 ? error : checked(stream, peers, process);
}

/* ---- offers ---- */

struct message {
    uint64_t magic;
    uint32_t version, unused;
    uint64_t received, acknowledged;
};

/* Room for one descriptor more than an offer has: a second one must not be lost. */
union rights {
    char space[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr aligned;
};

int fs_offer_send(const struct fs_descriptor *stream, const struct fs_counters *counters, int memory)
{
    union rights control;
    struct message message = {.magic = OFFER_MAGIC,
                              .version = FS_VERSION,
                              .received = counters->received,
                              .acknowledged = counters->acknowledged};
    struct iovec one = {&message, sizeof message};
    struct msghdr header = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = CMSG_SPACE(sizeof memory)};
    int number = fs_descriptor_number(stream);
    if (number < 0) return -EBADF;
    memset(&control, 0, sizeof control);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    *rights = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof memory), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(rights), &memory, sizeof memory);
    ssize_t sent = sendmsg(number, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == (ssize_t)sizeof message ? 0 : sent < 0 ? -errno : -EMSGSIZE;
}

/* All descriptors that came, and how many. */
static int read_rights(struct msghdr *header, int numbers[2])
{
    int count = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each != NULL; each = CMSG_NXTHDR(header, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS)
            for (size_t at = 0; count < 2 && CMSG_LEN(at + sizeof(int)) <= each->cmsg_len; at += sizeof(int))
                memcpy(&numbers[count++], CMSG_DATA(each) + at, sizeof(int));
    return count;
}

static int check_message(const struct message *message, ssize_t got, int flags, int rights)
{
    if (got < 0) return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    if (got == 0) return -ECONNRESET;
    if (flags & MSG_CTRUNC) return rights == 0 ? -EMFILE : -EPROTO;
    if (rights != 1 || got != (ssize_t)sizeof *message) return -EPROTO;
    return message->magic == OFFER_MAGIC && message->version == FS_VERSION ? 0 : -EPROTO;
}

int fs_offer_take(const struct fs_descriptor *stream, struct fs_descriptor *memory, struct fs_counters *counters)
{
    union rights control;
    struct message message;
    struct iovec one = {&message, sizeof message};
    struct msghdr header = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    int numbers[2], number = fs_descriptor_number(stream);
    *memory = FS_DESCRIPTOR_NONE;
    if (number < 0) return -EBADF;
    fs_hold_process();
    ssize_t got = recvmsg(number, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int rights = got < 0 ? 0 : read_rights(&header, numbers);
    int error = check_message(&message, got, header.msg_flags, rights);
    if (error == 0) {
        *counters = (struct fs_counters){.received = message.received, .acknowledged = message.acknowledged};
        error = keep(memory, numbers[0]);
        rights = 0;
    }
    fs_release_process();
    while (rights > 0) close(numbers[--rights]);
    return error;
}
