#define _GNU_SOURCE
#include "loop_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sealed.h"
#include "sockets/abstract.h"

#define NAME "fastsock/2/l/"
#define BACKLOG 64
#define MOST_ANSWERS 64 /* in one call of the loop's program */
#define PAGE_BYTES sizeof(struct fs_loop_page)
#define ROPE_BYTES 4096 /* one page: a user's pipes are limited together */

struct name {
    struct sockaddr_un address;
    socklen_t size;
};

static struct name name_of(uint64_t id)
{
    struct name name = {.address.sun_family = AF_UNIX};
    char *path = name.address.sun_path;
    int length = snprintf(path + 1, sizeof name.address.sun_path - 1, NAME "%016llx", (unsigned long long)id);
    name.size = (socklen_t)(path + 1 + length - (char *)&name.address);
    return name;
}

static int keep(struct fs_descriptor *owned, int number)
{
    int kept = fs_descriptor_keep(owned, number);
    return kept < 0 ? kept : 0;
}

static int make_stream(void)
{
    if (fs_descriptor_is_short()) return -EMFILE;
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return made < 0 ? -errno : made;
}

/* ---- the loop ---- */

static int listen_at(uint64_t id)
{
    struct name name = name_of(id);
    int made = make_stream();
    if (made >= 0 && (bind(made, (struct sockaddr *)&name.address, name.size) != 0 || listen(made, BACKLOG) != 0)) {
        int error = errno;
        close(made);
        return -error;
    }
    return made;
}

static int make_bell(struct fs_loop_home *home)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
    fcntl(ends[1], F_SETPIPE_SZ, ROPE_BYTES);
    int error = keep(&home->bell, ends[0]), other = keep(&home->rope, ends[1]);
    return error != 0 ? error : other;
}

int fs_loop_open(struct fs_loop_home *home, uint64_t id)
{
    *home = (struct fs_loop_home){NULL, FS_DESCRIPTOR_NONE, FS_DESCRIPTOR_NONE, FS_DESCRIPTOR_NONE, FS_DESCRIPTOR_NONE};
    fs_hold_process();
    int error = fs_descriptor_is_short() ? -EMFILE : keep(&home->memory, fs_sealed_create("fastsock-loop", PAGE_BYTES));
    if (error == 0) error = make_bell(home);
    if (error == 0) error = keep(&home->listener, listen_at(id));
    fs_release_process();
    if (error == 0) home->page = fs_sealed_map(home->memory.number, PAGE_BYTES, &error);
    if (error != 0) {
        fs_loop_close(home);
        return error;
    }
    home->page->magic = FS_LOOP_MAGIC;
    home->page->version = FS_LOOP_VERSION;
    home->page->slots = FS_LOOP_SLOTS;
    home->page->id = id;
    return 0;
}

void fs_loop_close(struct fs_loop_home *home)
{
    fs_descriptor_close(&home->listener);
    fs_descriptor_close(&home->rope);
    fs_descriptor_close(&home->bell);
    fs_descriptor_close(&home->memory);
    if (home->page != NULL) munmap(home->page, PAGE_BYTES);
    home->page = NULL;
}

void fs_loop_still(const struct fs_loop_home *home)
{
    char rung[256];
    int number = fs_descriptor_number(&home->bell);
    if (number < 0) return;
    while (read(number, rung, sizeof rung) == (ssize_t)sizeof rung) continue;
}

void fs_loop_ring_own(const struct fs_loop_home *home)
{
    int number = fs_descriptor_number(&home->rope);
    if (number >= 0 && write(number, "", 1) < 0) return; /* it is full: the bell is readable */
}

/* ---- passing both ---- */

struct message {
    uint64_t magic, id;
};

enum { MEMORY, ROPE, PASSED };

/* Room for one more: a third one must not be lost. */
union rights {
    char space[CMSG_SPACE((PASSED + 1) * sizeof(int))];
    struct cmsghdr aligned;
};

static void pass(int stream, uint64_t id, const int numbers[PASSED])
{
    union rights control;
    struct message message = {FS_LOOP_MAGIC, id};
    struct iovec one = {&message, sizeof message};
    struct msghdr header = {.msg_iov = &one,
                            .msg_iovlen = 1,
                            .msg_control = control.space,
                            .msg_controllen = CMSG_SPACE(PASSED * sizeof(int))};
    memset(&control, 0, sizeof control);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    *rights =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(PASSED * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(rights), numbers, PASSED * sizeof(int));
    sendmsg(stream, &header, MSG_DONTWAIT | MSG_NOSIGNAL); /* whoever did not get it asks again */
}

static int is_same_user(int stream, pid_t *process)
{
    uid_t user;
    return fs_abstract_peer(stream, process, &user) == 0 && fs_is_own_user(user);
}

void fs_loop_answer(const struct fs_loop_home *home)
{
    fs_hold_process(); /* no child gets a copy of a stream */
    int listener = fs_descriptor_number(&home->listener);
    const int numbers[PASSED] = {fs_descriptor_number(&home->memory), fs_descriptor_number(&home->rope)};
    for (int i = 0; i < MOST_ANSWERS && listener >= 0; i++) {
        pid_t process;
        int stream = fs_abstract_accept(listener);
        if (stream < 0) break;
        if (numbers[MEMORY] >= 0 && numbers[ROPE] >= 0 && is_same_user(stream, &process))
            pass(stream, home->page->id, numbers);
        close(stream);
    }
    fs_release_process();
}

/* ---- the sender ---- */

int fs_loop_ask(struct fs_descriptor *stream, uint64_t id, pid_t *process)
{
    struct name name = name_of(id);
    fs_hold_process();
    int made = make_stream(), error = made < 0 ? made : 0;
    if (made >= 0 && connect(made, (struct sockaddr *)&name.address, name.size) != 0) error = -errno;
    else if (made >= 0 && !is_same_user(made, process)) error = -EACCES;
    if (error == 0) error = keep(stream, made);
    else if (made >= 0) close(made);
    fs_release_process();
    return error;
}

/* All that came, and how many. */
static int read_rights(struct msghdr *header, int numbers[PASSED + 1])
{
    int count = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each != NULL; each = CMSG_NXTHDR(header, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS)
            for (size_t at = 0; count <= PASSED && CMSG_LEN(at + sizeof(int)) <= each->cmsg_len; at += sizeof(int))
                memcpy(&numbers[count++], CMSG_DATA(each) + at, sizeof(int));
    return count;
}

static int check_memory(int memory, uint64_t id, struct fs_loop_page **page)
{
    int error = 0;
    struct fs_loop_page *mapped = fs_sealed_join(memory, PAGE_BYTES, &error);
    if (mapped == NULL) return error;
    if (mapped->magic != FS_LOOP_MAGIC || mapped->version != FS_LOOP_VERSION || mapped->slots != FS_LOOP_SLOTS ||
        mapped->id != id) {
        munmap(mapped, PAGE_BYTES);
        return -EPROTO;
    }
    *page = mapped;
    return 0;
}

/* A description of our own: the other end cannot make it block. */
static int open_rope(int rope)
{
    struct stat status;
    char path[32];
    if (fstat(rope, &status) != 0 || !S_ISFIFO(status.st_mode)) return -EPROTO;
    snprintf(path, sizeof path, "/proc/self/fd/%d", rope);
    int own = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return own < 0 ? -errno : own;
}

static int use(const int numbers[PASSED], uint64_t id, struct fs_loop_page **page, struct fs_descriptor *rope)
{
    int error = check_memory(numbers[MEMORY], id, page);
    if (error != 0) return error;
    error = keep(rope, open_rope(numbers[ROPE]));
    if (error == 0) return 0;
    munmap(*page, PAGE_BYTES);
    *page = NULL;
    return error;
}

int fs_loop_take(struct fs_descriptor *stream, uint64_t id, struct fs_loop_page **page, struct fs_descriptor *rope)
{
    union rights control;
    struct message message;
    struct iovec one = {&message, sizeof message};
    struct msghdr header = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    int numbers[PASSED + 1], number = fs_descriptor_number(stream);
    if (number < 0) return -EBADF;
    fs_hold_process();
    ssize_t got = recvmsg(number, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int error = got < 0 ? -errno : 0, rights = got < 0 ? 0 : read_rights(&header, numbers);
    if (error == 0)
        error = got == (ssize_t)sizeof message && rights == PASSED && message.magic == FS_LOOP_MAGIC && message.id == id
                    ? use(numbers, id, page, rope)
                    : -EPROTO;
    while (rights > 0) close(numbers[--rights]);
    if (error != -EAGAIN && (number = fs_descriptor_take(stream)) >= 0) close(number);
    fs_release_process();
    return error;
}
