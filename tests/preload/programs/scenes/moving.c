/* The forms in which a call gives and takes bytes, and what is refused by its arguments alone. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "scene.h"

static void peek_here(int number)
{
    char bytes[16] = "";
    int unread = 0;
    put(number, "z");
    while (unread < 6) ioctl(number, FIONREAD, &unread);
    say("FIONREAD", unread);
    say("peek", recv(number, bytes, 3, MSG_PEEK));
    say("peek", recv(number, bytes, sizeof bytes, MSG_PEEK));
    say("discard", recv(number, NULL, 2, MSG_TRUNC));
    struct iovec parts[2] = {{bytes, 1}, {bytes + 1, 15}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    say("recvmsg", recvmsg(number, &message, MSG_PEEK));
    say("readv", readv(number, parts, 2));
    printf("%.4s\n", bytes);
    put(number, "z");
}

static void peek_there(int number)
{
    get(number, 1);
    put(number, "abcdef");
    get(number, 1);
}

static void peek_parts_here(int number)
{
    static char one[5000], two[5000];
    struct iovec parts[2] = {{one, sizeof one}, {two, sizeof two}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    put(number, "q");
    await_bytes(number, 8000);
    say("peek", recvmsg(number, &message, MSG_PEEK));
    say("is it", one[4999] == 'a' && two[2999] == 'b' && two[3000] == 0);
    say("peek for all", recvmsg(number, &message, MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL));
    put(number, "q");
    say("peek for all", recvmsg(number, &message, MSG_PEEK | MSG_WAITALL));
    say("recv", recvmsg(number, &message, MSG_WAITALL));
    say("is it", two[4999] == 'c');
}

static void peek_parts_there(int number)
{
    static char bytes[8000];
    memset(bytes, 'a', 5000);
    memset(bytes + 5000, 'b', 3000);
    get(number, 1);
    if (write(number, bytes, sizeof bytes) != sizeof bytes) die("write");
    get(number, 1);
    memset(bytes, 'c', 2000);
    if (write(number, bytes, 2000) != 2000) die("write");
    await_end(number);
}

static void vectors_here(int number)
{
    char one[4] = "abc", two[8] = "defgh";
    struct iovec parts[2] = {{one, 3}, {two, 5}};
    say("write", pwritev2(number, parts, 2, -1, 0));
    await_bytes(number, 8);
    say("at a position", pwritev2(number, parts, 2, 3, 0));
    say("read at a position", preadv2(number, parts, 2, 3, 0));
    say("read", preadv2(number, parts, 2, -1, 0));
    say("is it", memcmp(one, "ABC", 3) == 0 && memcmp(two, "DEFGH", 5) == 0);
    say("no such flag", preadv2(number, parts, 2, -1, 0x40000000));
    say("at once", preadv2(number, parts, 2, -1, RWF_NOWAIT));
    say("write", pwritev2(number, parts, 2, -1, RWF_DSYNC));
    get(number, 8);
}

static void vectors_there(int number)
{
    get(number, 8);
    put(number, "ABCDEFGH");
    get(number, 8);
    put(number, "12345678");
    await_end(number);
}

static void messages_here(int number)
{
    static char block[1 << 20];
    char first[4], second[8], third[4];
    struct iovec parts[3] = {{first, 3}, {second, 5}, {third, 3}}, long_parts[2] = {{block, sizeof block}, {first, 1}};
    struct mmsghdr list[3] = {0}, long_list[2] = {0};
    struct timespec wrong = {0, 1000000000}, short_limit = {0, 1}, limit = {100, 0};
    for (int i = 0; i < 3; i++) list[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    for (int i = 0; i < 2; i++) long_list[i].msg_hdr = (struct msghdr){.msg_iov = &long_parts[i], .msg_iovlen = 1};
    put(number, "q");
    await_bytes(number, 8);
    say("a limit that is none", recvmmsg(number, list, 3, 0, &wrong));
    say("none is wanted", recvmmsg(number, list, 0, 0, NULL));
    say("till the limit", recvmmsg(number, list, 3, 0, &short_limit));
    say("is over", short_limit.tv_sec == 0 && short_limit.tv_nsec == 0);
    say("till nothing is there", recvmmsg(number, list, 3, MSG_WAITFORONE, &limit));
    say("the second one", list[1].msg_len);
    say("is not over", limit.tv_sec == 99 && limit.tv_nsec > 0);
    put(number, "q");
    say("at the end", recvmmsg(number, list, 3, 0, NULL));
    say("the last one", list[2].msg_len);
    int gaps = 0;
    for (int i = 0; i < 300; i++) {
        int sent = sendmmsg(number, long_list, 2, MSG_DONTWAIT);
        gaps += sent == 2 && long_list[0].msg_len < sizeof block;
    }
    say("gaps", gaps);
}

static void messages_there(int number)
{
    get(number, 1);
    put(number, "12345678");
    get(number, 1);
    shutdown(number, SHUT_WR);
    await_end(number);
}

static void file_here(int number)
{
    FILE *file = tmpfile();
    for (int i = 0; i < 50000; i++) fprintf(file, "%07d\n", i);
    fflush(file);
    off_t at = 8;
    size_t left = 8 * 49999;
    while (left > 0) {
        ssize_t sent = sendfile(number, fileno(file), &at, left);
        if (sent <= 0) die("sendfile");
        left -= (size_t)sent;
    }
    say("at", at);
    shutdown(number, SHUT_WR);
    get(number, 1);
}

static void file_there(int number)
{
    char line[9] = "";
    int right = 1;
    for (int i = 1; i < 50000; i++) right &= recv(number, line, 8, MSG_WAITALL) == 8 && atoi(line) == i;
    await_end(number);
    put(number, right ? "k" : "");
}

static void zerocopy_here(int number)
{
    int on = 1;
    char control[256];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    struct pollfd one = {number, 0, 0};
    say("set", setsockopt(number, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    say("send", send(number, "hello", 5, MSG_ZEROCOPY));
    say("poll", poll(&one, 1, 5000));
    say("completion", recvmsg(number, &message, MSG_ERRQUEUE));
    get(number, 1);
}

static void zerocopy_there(int number) { answer(number, 1, 5, "k"); }

/* What the kernel refuses by its arguments alone. */
static void refused_here(int number)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct sockaddr_storage address;
    socklen_t size = (socklen_t)-1;
    struct msghdr no_parts = {.msg_iovlen = 1}, no_length = {&address, (socklen_t)-1, &part, 1, NULL, 0, 0};
    struct rlimit limit;
    say("send", send(number, NULL, 1, 0));
    say("write", write(number, (void *)-1, 1));
    say("writev", writev(number, NULL, 1));
    say("sendmsg without parts", sendmsg(number, &no_parts, 0));
    say("sendmsg without a message", sendmsg(number, (struct msghdr *)-1, 0));
    say("sendmsg without a length", sendmsg(number, &no_length, 0));
    say("sendmmsg", sendmmsg(number, NULL, 1, 0));
    say("sendto", sendto(number, "a", 1, 0, (struct sockaddr *)&address, sizeof address + 1));
    put(number, "q");
    await_bytes(number, 4);
    say("readv", readv(number, NULL, 1));
    say("recvmsg without parts", recvmsg(number, &no_parts, 0));
    say("recvmsg without a message", recvmsg(number, (struct msghdr *)-1, 0));
    say("recvmsg without a length", recvmsg(number, &no_length, 0));
    say("recvmmsg", recvmmsg(number, NULL, 1, 0, NULL));
    say("recvfrom", recvfrom(number, &byte, 1, 0, (struct sockaddr *)&address, &size));
    say("recvfrom without a place", recvfrom(number, &byte, 1, 0, (struct sockaddr *)&address, NULL));
    say("what is left", recv(number, &address, 4, MSG_DONTWAIT));
    int pair[2];
    struct msghdr no_control = {.msg_iov = &part, .msg_iovlen = 1, .msg_controllen = CMSG_SPACE(sizeof(int))};
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) die("socketpair");
    say("sendmsg of numbers without any", sendmsg(pair[0], &no_control, 0));
    say("poll without a list", poll(NULL, 1, 0));
    say("ppoll without a list", ppoll((void *)-1, 1, NULL, NULL));
    /* The list ends where no memory follows. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || munmap(room + page, page) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) die("a page");
    struct pollfd *last = (struct pollfd *)(room + page) - 1;
    *last = (struct pollfd){number, POLLIN, 0};
    say("poll", poll(last, limit.rlim_cur + 1, 0));
    say("ppoll", ppoll(last, limit.rlim_cur + 1, NULL, NULL));
    int watcher = epoll_create1(0);
    say("epoll_ctl without an event", epoll_ctl(watcher, EPOLL_CTL_ADD, number, NULL));
    say("epoll_ctl with a wild event", epoll_ctl(watcher, EPOLL_CTL_ADD, number, (void *)-1));
    close(watcher);
}

static void refused_there(int number)
{
    get(number, 1);
    put(number, "1234");
    await_end(number);
}

const struct scene scenes_of_moving[] = {
    SCENE(peek), SCENE(peek_parts), SCENE(vectors), SCENE(messages),
    SCENE(file), SCENE(zerocopy),   SCENE(refused), {NULL, NULL, NULL},
};
