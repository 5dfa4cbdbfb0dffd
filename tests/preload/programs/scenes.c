/* What a program sees of a connection, in lines that must be the same with the library and without: scenes NAME.
 *
 * Each scene has two ends in two processes, which have talked for a while: so the connection has memory, if it can have.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/close_range.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 60 };

static int gate[2]; /* a pipe: the other end goes on */

static void die(const char *what)
{
    perror(what);
    _exit(3);
}

static void say(const char *what, long result)
{
    printf("%s: %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}

static void put(int number, const char *text)
{
    if (write(number, text, strlen(text)) != (ssize_t)strlen(text)) die("write");
}

static void get(int number, size_t length)
{
    char bytes[4096];
    for (size_t got = 0; got < length;) {
        ssize_t now = recv(number, bytes, length - got < sizeof bytes ? length - got : sizeof bytes, 0);
        if (now <= 0) die("recv");
        got += (size_t)now;
    }
}

static void warm(int number, int begins)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (begins) put(number, "x");
        get(number, 1);
        if (!begins) put(number, "y");
    }
}

static void nothing(int signal) { (void)signal; }

static void handle(int signal, int flags)
{
    struct sigaction action = {.sa_handler = nothing, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static void await_end(int number)
{
    char byte;
    while (recv(number, &byte, 1, 0) > 0) {}
}

/* ---- scenes: `here` says, `there` does ---- */

static void half_close_here(int number)
{
    char bytes[64];
    put(number, "question");
    say("shutdown", shutdown(number, SHUT_WR));
    say("send", send(number, "x", 1, MSG_NOSIGNAL));
    say("all", recv(number, bytes, 6, MSG_WAITALL));
    say("end", recv(number, bytes, sizeof bytes, 0));
    say("again", recv(number, bytes, sizeof bytes, 0));
}

static void half_close_there(int number)
{
    char bytes[64];
    ssize_t got = 0, now;
    while ((now = read(number, bytes, sizeof bytes)) > 0) got += now;
    put(number, now == 0 && got == 8 ? "answer" : "wrong!");
}

static void reset_here(int number)
{
    char bytes[64];
    put(number, "these bytes nobody reads");
    usleep(100000);
    struct pollfd one = {number, 0, 0};
    say("poll", poll(&one, 1, 5000));
    say("recv", recv(number, bytes, sizeof bytes, 0));
    say("send", send(number, "x", 1, MSG_NOSIGNAL));
}

static void reset_there(int number)
{
    int unread = 0;
    while (unread < 20) ioctl(number, FIONREAD, &unread);
}

static void timeout_here(int number)
{
    char byte;
    struct timeval limit = {0, 50000};
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("recv", recv(number, &byte, 1, 0));
    say("wait all", recv(number, &byte, 1, MSG_WAITALL));
    put(number, "z");
    get(number, 1);
}

static void timeout_there(int number)
{
    get(number, 1);
    put(number, "z");
}

static void nonblocking_here(int number)
{
    char bytes[8];
    say("fcntl", fcntl(number, F_SETFL, O_NONBLOCK));
    say("recv", recv(number, bytes, sizeof bytes, 0));
    say("read", read(number, bytes, sizeof bytes));
    say("peek", recv(number, bytes, sizeof bytes, MSG_PEEK));
    say("fcntl", fcntl(number, F_SETFL, 0));
    say("dont wait", recv(number, bytes, sizeof bytes, MSG_DONTWAIT));
    put(number, "z");
    get(number, 1);
}
#define nonblocking_there timeout_there

static void full_here(int number)
{
    static char block[65536];
    size_t sent = 0;
    ssize_t now;
    fcntl(number, F_SETFL, O_NONBLOCK);
    while ((now = send(number, block, sizeof block, 0)) > 0) sent += (size_t)now;
    say("send", now);
    struct pollfd one = {number, POLLOUT, 0};
    say("poll", poll(&one, 1, 0));
    fcntl(number, F_SETFL, 0);
    char text[32];
    snprintf(text, sizeof text, "%31zu", sent);
    if (write(gate[1], "g", 1) != 1) die("gate"); /* the other end begins to read */
    say("the rest", send(number, text, sizeof text, 0) == sizeof text);
    say("poll", poll(&one, 1, 5000));
    get(number, 1);
}

static void full_there(int number)
{
    static char block[65536];
    char text[32] = "";
    size_t got = 0;
    if (read(gate[0], text, 1) != 1) die("gate");
    for (;;) {
        ssize_t now = recv(number, block, sizeof block, 0);
        if (now <= 0) die("recv");
        got += (size_t)now;
        if (now >= 32) memcpy(text, block + now - 32, 32);
        else memmove(text, text + now, (size_t)(32 - now)), memcpy(text + 32 - now, block, (size_t)now);
        if (text[30] != 0 && strtoul(text, NULL, 10) == got - 32) break;
    }
    put(number, "k");
}

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

static void signals_here(int number)
{
    char byte;
    struct itimerval soon = {{0, 0}, {0, 50000}};
    handle(SIGALRM, 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    say("recv", recv(number, &byte, 1, 0));
    handle(SIGALRM, SA_RESTART);
    setitimer(ITIMER_REAL, &soon, NULL);
    put(number, "z");
    say("recv", recv(number, &byte, 1, 0));
    struct pollfd one = {number, POLLIN, 0};
    setitimer(ITIMER_REAL, &soon, NULL);
    say("poll", poll(&one, 1, -1));
}

static void signals_there(int number)
{
    get(number, 1);
    usleep(150000);
    put(number, "z");
    await_end(number);
}

static void pipe_here(int number)
{
    handle(SIGPIPE, 0);
    get(number, 1);
    struct pollfd one = {number, POLLRDHUP, 0};
    poll(&one, 1, 5000);
    ssize_t sent = 0;
    for (int i = 0; i < 100 && sent >= 0; i++) {
        sent = send(number, "x", 1, MSG_NOSIGNAL);
        usleep(2000);
    }
    say("send", sent);
    signal(SIGPIPE, SIG_IGN);
    say("write", write(number, "x", 1));
}

static void pipe_there(int number) { put(number, "z"); }

static void copies_here(int number)
{
    int copy = dup(number), other = fcntl(number, F_DUPFD_CLOEXEC, 50);
    say("other", other);
    say("close", close(number));
    put(copy, "abc");
    get(other, 3);
    say("dup2", dup2(copy, 60));
    close(copy);
    close(other);
    put(60, "def");
    get(60, 3);
    say("close_range", close_range(60, 60, 0));
    say("write", write(60, "x", 1));
}

static void copies_there(int number)
{
    for (int i = 0; i < 2; i++) {
        get(number, 3);
        put(number, "ghi");
    }
    await_end(number);
}

static void go_on_behind(pid_t child, int number)
{
    int status;
    waitpid(child, &status, 0);
    say("child", WEXITSTATUS(status));
    put(number, "def");
    get(number, 3);
    close(number);
}

static void fork_here(int number)
{
    pid_t child = fork();
    if (child == 0) {
        put(number, "abc");
        get(number, 3);
        _exit(7);
    }
    go_on_behind(child, number);
}
#define fork_there copies_there

static void exec_here(int number)
{
    pid_t child = fork();
    if (child == 0) {
        dup2(number, 0);
        dup2(number, 1);
        execlp("sh", "sh", "-c", "printf abc; read line; test \"$line\" = ghi", (char *)NULL);
        _exit(9);
    }
    go_on_behind(child, number);
}

static void exec_there(int number)
{
    get(number, 3);
    put(number, "ghi\n");
    get(number, 3);
    put(number, "jkl");
    await_end(number);
}

static void spawn_here(int number)
{
    posix_spawn_file_actions_t actions;
    extern char **environ;
    char *words[] = {"sh", "-c", "printf abc; read line; test \"$line\" = ghi", NULL};
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, number, 0);
    posix_spawn_file_actions_adddup2(&actions, number, 1);
    say("spawn", posix_spawnp(&child, "sh", &actions, NULL, words, environ));
    go_on_behind(child, number);
}
#define spawn_there exec_there

static void vfork_here(int number)
{
    pid_t child = vfork();
    if (child == 0) {
        dup2(number, 0);
        dup2(number, 1);
        close(number);
        execlp("sh", "sh", "-c", "printf abc; read line; test \"$line\" = ghi", (char *)NULL);
        _exit(9);
    }
    go_on_behind(child, number);
}
#define vfork_there exec_there

static int clones_child(void *given)
{
    int number = *(int *)given;
    dup2(number, 0);
    dup2(number, 1);
    close(number);
    execlp("sh", "sh", "-c", "printf abc; read line; test \"$line\" = ghi", (char *)NULL);
    _exit(9);
}

static void clone_here(int number)
{
    static _Alignas(16) char stack[1 << 16];
    go_on_behind(clone(clones_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &number), number);
}
#define clone_there exec_there

static void stdio_here(int number)
{
    char line[32];
    FILE *file = fdopen(dup(number), "r+");
    fprintf(file, "abc");
    fflush(file);
    say("line", fgets(line, sizeof line, file) != NULL);
    printf("%s", line);
    dprintf(number, "def");
    get(number, 3);
    fclose(file);
    close(number);
}
#define stdio_there exec_there

static void passing_here(int number)
{
    int pair[2];
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &number, sizeof number);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pid_t child = fork();
    if (child == 0) {
        char bytes[8];
        close(number);
        part.iov_base = bytes;
        if (recvmsg(pair[1], &message, 0) != 1) _exit(1);
        int passed;
        memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
        put(passed, "abc");
        get(passed, 3);
        _exit(7);
    }
    say("sendmsg", sendmsg(pair[0], &message, 0));
    go_on_behind(child, number);
}
#define passing_there copies_there

static void killed_here(int number)
{
    char byte;
    put(number, "z");
    say("recv", recv(number, &byte, 1, 0));
}

static void killed_there(int number)
{
    get(number, 1);
    kill(getpid(), SIGKILL);
}

static void options_here(int number)
{
    int value = 0;
    socklen_t size = sizeof value;
    getsockopt(number, IPPROTO_TCP, TCP_NODELAY, &value, &size);
    say("nodelay", value);
    value = 1;
    say("set", setsockopt(number, IPPROTO_TCP, TCP_CORK, &value, sizeof value));
    value = 0;
    getsockopt(number, IPPROTO_TCP, TCP_CORK, &value, &size);
    say("cork", value);
    value = 0;
    setsockopt(number, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
    put(number, "z");
    get(number, 1);
}
#define options_there timeout_there

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

static void waits_here(int number)
{
    struct timeval limit = {0, 60000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(number, &set);
    say("select", select(number + 1, &set, NULL, NULL, &limit));
    say("is set", FD_ISSET(number, &set));
    say("left", limit.tv_usec);
    struct pollfd one = {number, POLLIN | POLLOUT, 0};
    say("poll", poll(&one, 1, 0));
    say("events", one.revents);
    int inner = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLONESHOT, {.u64 = 77}}, told[4];
    epoll_ctl(inner, EPOLL_CTL_ADD, number, &event);
    event.events = EPOLLIN;
    epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event);
    say("nothing", epoll_wait(outer, told, 4, 30));
    put(number, "z");
    say("outer", epoll_wait(outer, told, 4, 5000));
    say("inner", epoll_wait(inner, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    say("once", epoll_wait(inner, told, 4, 30));
    get(number, 1);
    put(number, "z");
    one.events = POLLIN;
    say("poll", poll(&one, 1, 5000));
    FD_SET(number, &set);
    say("select", select(number + 1, &set, NULL, NULL, NULL));
    get(number, 1);
}

static void waits_there(int number)
{
    for (int i = 0; i < 2; i++) {
        get(number, 1);
        put(number, "z");
    }
    await_end(number);
}

static void level_here(int number)
{
    int epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u64 = 5}}, told[4];
    epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event);
    for (int i = 0; i < 300; i++) {
        put(number, "z");
        if (epoll_wait(epoll, told, 4, 5000) != 1 || told[0].data.u64 != 5) die("epoll");
        if (epoll_wait(epoll, told, 4, 0) != 1) die("it is level-triggered");
        get(number, 1);
        if (i % 10 == 0 && epoll_wait(epoll, told, 4, 1) != 0) die("nothing is there");
    }
    event.data.u64 = 6;
    say("modify", epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event));
    put(number, "z");
    say("wait", epoll_wait(epoll, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    say("delete", epoll_ctl(epoll, EPOLL_CTL_DEL, number, NULL));
    say("wait", epoll_wait(epoll, told, 4, 30));
    get(number, 1);
}

static void level_there(int number)
{
    for (int i = 0; i < 301; i++) {
        get(number, 1);
        put(number, "z");
    }
    await_end(number);
}

static void low_water_here(int number)
{
    int wanted = 8, set = 0;
    socklen_t size = sizeof set;
    char bytes[64];
    struct pollfd one = {number, POLLIN, 0};
    say("set", setsockopt(number, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted));
    say("get", getsockopt(number, SOL_SOCKET, SO_RCVLOWAT, &set, &size));
    say("is", set);
    put(number, "x");
    say("few", poll(&one, 1, 100));
    put(number, "x");
    say("enough", poll(&one, 1, 5000));
    say("recv", recv(number, bytes, sizeof bytes, 0));
}

static void low_water_there(int number)
{
    for (int i = 0; i < 2; i++) {
        get(number, 1);
        put(number, "1234");
    }
    await_end(number);
}

static void await_bytes(int number, int wanted)
{
    for (int unread = 0; unread < wanted;)
        if (ioctl(number, FIONREAD, &unread) != 0) die("FIONREAD");
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

static void ranges_here(int number)
{
    int copy = dup(number);
    say("no such flag", close_range((unsigned)number, (unsigned)copy, 0x100));
    say("backwards", close_range(9, 8, 0));
    put(number, "a");
    get(copy, 1);
    say("by exec", close_range((unsigned)copy, (unsigned)copy, CLOSE_RANGE_CLOEXEC));
    say("is it", fcntl(copy, F_GETFD) == FD_CLOEXEC);
    put(copy, "b");
    get(number, 1);
    say("close", close_range((unsigned)copy, (unsigned)copy, 0));
    say("send", send(copy, "x", 1, 0));
    put(number, "c");
    get(number, 1);
    say("close all", close_range((unsigned)number, ~0u, 0));
    say("send", send(number, "x", 1, 0));
}

static void ranges_there(int number)
{
    for (int i = 0; i < 3; i++) {
        get(number, 1);
        put(number, "y");
    }
    await_end(number);
}

/* By a signal, as an old server has it. */
static void asynchronous_here(int number)
{
    sigset_t arrival;
    struct timespec limit = {5, 0};
    int on = 1;
    sigemptyset(&arrival);
    sigaddset(&arrival, SIGIO);
    sigprocmask(SIG_BLOCK, &arrival, NULL);
    say("owner", fcntl(number, F_SETOWN, getpid()));
    say("flags", fcntl(number, F_SETFL, O_ASYNC));
    put(number, "q");
    say("signal", sigtimedwait(&arrival, NULL, &limit) == SIGIO);
    get(number, 1);
    say("flags", fcntl(number, F_SETFL, 0));
    say("by ioctl", ioctl(number, FIOASYNC, &on));
    while (sigtimedwait(&arrival, NULL, &(struct timespec){0, 0}) == SIGIO) {}
    put(number, "q");
    say("signal", sigtimedwait(&arrival, NULL, &limit) == SIGIO);
    get(number, 1);
}

static void asynchronous_there(int number)
{
    for (int i = 0; i < 2; i++) {
        get(number, 1);
        put(number, "r");
    }
    await_end(number);
}

static void bare_here(int number)
{
    char bytes[8] = "";
    struct iovec part = {bytes, 4};
    say("write", syscall(SYS_write, number, "ab", (size_t)2));
    say("read", syscall(SYS_read, number, bytes, (size_t)2));
    say("is it", memcmp(bytes, "AB", 2) == 0);
    say("sendto", syscall(SYS_sendto, number, "cdef", (size_t)4, 0, NULL, 0));
    say("readv", syscall(SYS_readv, number, &part, 1));
    say("is it", memcmp(bytes, "CDEF", 4) == 0);
    int copy = (int)syscall(SYS_dup, number);
    put(copy, "g");
    say("recvfrom", syscall(SYS_recvfrom, copy, bytes, sizeof bytes, 0, NULL, NULL));
    say("close", syscall(SYS_close, copy));
    say("send", send(copy, "x", 1, 0));
    put(number, "h");
    get(number, 1);
    say("shutdown", syscall(SYS_shutdown, number, SHUT_WR));
    say("end", recv(number, bytes, sizeof bytes, 0));
    say("close", syscall(SYS_close, number));
    int null = open("/dev/null", O_WRONLY);
    say("is it", null == number && write(null, "x", 1) == 1);
}

static void bare_there(int number)
{
    static const char *const answers[] = {"AB", "CDEF", "G", "H"};
    for (int i = 0; i < 4; i++) {
        get(number, strlen(answers[i]));
        put(number, answers[i]);
    }
    await_end(number);
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

static void zerocopy_there(int number)
{
    get(number, 5);
    put(number, "k");
    await_end(number);
}

/* The shell's own commands read and write the number. */
static void shell_here(int number)
{
    char text[64], bytes[64] = "";
    snprintf(text, sizeof text, "printf abc >&%d", number);
    say("system", system(text));
    get(number, 1);
    snprintf(text, sizeof text, "head -c 3 <&%d", number);
    put(number, "q");
    FILE *stream = popen(text, "r");
    say("popen", stream != NULL && fgets(bytes, sizeof bytes, stream) != NULL && strcmp(bytes, "xyz") == 0);
    say("status", pclose(stream));
    put(number, "q");
    get(number, 1);
}

static void shell_there(int number)
{
    get(number, 3);
    put(number, "k");
    get(number, 1);
    put(number, "xyz");
    get(number, 1);
    put(number, "k");
    await_end(number);
}

static void at_directory_here(int number)
{
    char text[64];
    char *words[] = {"sh", "-c", text, NULL};
    snprintf(text, sizeof text, "printf abc >&%d", number);
    pid_t child = fork();
    if (child == 0) {
        execveat(AT_FDCWD, "/bin/sh", words, environ, 0);
        _exit(9);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say("status", status);
    get(number, 1);
}

static void at_directory_there(int number)
{
    get(number, 3);
    put(number, "k");
    await_end(number);
}

/* Sets as select() has them, and an end beyond them, as getdtablesize() says it.  Behind the sets lies nothing. */
static void wide_here(int number)
{
    const size_t page = 4096;
    char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + page, page, PROT_NONE) != 0) die("mmap");
    fd_set *set = (fd_set *)(void *)(room + page - sizeof *set);
    struct timeval limit = {5, 0};
    struct timespec wrong = {0, 1000000000};
    FD_ZERO(set);
    FD_SET(number, set);
    put(number, "q");
    say("select", select(1 << 20, set, NULL, NULL, &limit));
    say("is it", FD_ISSET(number, set));
    get(number, 1);
    limit = (struct timeval){0, 1000};
    say("nothing", select(1 << 20, set, NULL, NULL, &limit));
    FD_SET(number, set);
    say("a limit that is none", pselect(1 << 20, set, NULL, NULL, &wrong, NULL));
    struct pollfd one = {number, POLLIN, 0};
    say("a limit that is none", ppoll(&one, 1, &wrong, NULL));
}

static void wide_there(int number)
{
    get(number, 1);
    put(number, "r");
    await_end(number);
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

static int waits_for(int epoll, uint32_t events, int limit_ms)
{
    struct epoll_event told[4];
    int count = epoll_wait(epoll, told, 4, limit_ms);
    return count == 1 && told[0].events == events && told[0].data.u64 == 5;
}

static void edge_here(int number)
{
    int epoll = epoll_create1(0), unread = 0;
    struct epoll_event event = {EPOLLIN | EPOLLRDHUP | EPOLLET, {.u64 = 5}}, told[4];
    epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event);
    say("at first", epoll_wait(epoll, told, 4, 0));
    for (int i = 0; i < 300; i++) {
        put(number, "z");
        if (!waits_for(epoll, EPOLLIN, 5000)) die("edge");
        if (epoll_wait(epoll, told, 4, i % 7 == 0) != 0) die("told twice");
        put(number, "z");
        if (!waits_for(epoll, EPOLLIN, 5000)) die("an edge while bytes are unread");
        get(number, i % 3 == 0 ? 1 : 2);
        unread += i % 3 == 0;
        if (i % 10 == 0 && epoll_wait(epoll, told, 4, 1) != 0) die("nothing new is there");
    }
    say("modify", epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event));
    say("told again", waits_for(epoll, EPOLLIN, 5000));
    say("once", epoll_wait(epoll, told, 4, 20));
    get(number, (size_t)unread);
    put(number, "z");
    for (int there = 0; there < 1;) ioctl(number, FIONREAD, &there);
    get(number, 1);
    say("read before it is told", epoll_wait(epoll, told, 4, 20));
    event.events |= EPOLLOUT;
    say("modify", epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event));
    say("room", waits_for(epoll, EPOLLOUT, 5000));
    put(number, "z");
    say("bytes and room", waits_for(epoll, EPOLLIN | EPOLLOUT, 5000));
    get(number, 1);
    put(number, "q");
    say("the end", waits_for(epoll, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 5000));
    say("once", epoll_wait(epoll, told, 4, 20));
}

/* Two numbers have one word, as where a program leaves it unset; neither is a stream. */
static void share_a_word(int epoll, int *pipes)
{
    struct epoll_event event = {EPOLLIN, {.u64 = 7}};
    if (pipe(pipes) != 0 || pipe(pipes + 2) != 0) die("pipe");
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event);
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[2], &event);
}

static void shared_word_here(int number)
{
    int epoll = epoll_create1(0), pipes[4];
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 5}}, told[4];
    share_a_word(epoll, pipes);
    epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event);
    for (int i = 0; i < 60; i++) {
        put(number, "z");
        if (!waits_for(epoll, EPOLLIN, 5000)) die("edge");
        get(number, 1);
    }
    put(pipes[1], "a");
    say("one", epoll_wait(epoll, told, 4, 5000));
    put(pipes[3], "b");
    say("both", epoll_wait(epoll, told, 4, 5000));
    close(pipes[0]); /* the word is the other one's alone */
    say("the other", epoll_wait(epoll, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    event.data.u64 = 7; /* and now a stream's too */
    epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event);
    close(pipes[2]);
    put(number, "z");
    say("stream", epoll_wait(epoll, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    get(number, 1);
}

static void edge_there(int number)
{
    char byte;
    while (recv(number, &byte, 1, 0) == 1 && byte == 'z') put(number, "z");
    shutdown(number, SHUT_WR);
    await_end(number);
}

/* ---- two threads wait in one object, and the first to be told does not come back ---- */

static sem_t were_told, may_go;
static int shared_epoll;

static void *wait_once(void *unused)
{
    struct epoll_event told[4];
    (void)unused;
    if (epoll_wait(shared_epoll, told, 4, 5000) != 1) die("a thread that sleeps was not told");
    sem_post(&were_told);
    sem_wait(&may_go);
    return NULL;
}

static void wait_by_two(int number, uint32_t events)
{
    pthread_t threads[2];
    struct epoll_event event = {events, {.u64 = 5}};
    sem_init(&were_told, 0, 0);
    sem_init(&may_go, 0, 0);
    shared_epoll = epoll_create1(0);
    epoll_ctl(shared_epoll, EPOLL_CTL_ADD, number, &event);
    for (int i = 0; i < 60; i++) {
        for (int j = 0; j < 2; j++) pthread_create(&threads[j], NULL, wait_once, NULL);
        if (i % 2 == 0) usleep(2000); /* mostly both sleep by now */
        put(number, "z");
        sem_wait(&were_told);
        put(number, "z");
        sem_wait(&were_told);
        for (int j = 0; j < 2; j++) sem_post(&may_go);
        for (int j = 0; j < 2; j++) pthread_join(threads[j], NULL);
        get(number, 2);
    }
    say("both were told", 1);
}

static void two_by_edges_here(int number) { wait_by_two(number, EPOLLIN | EPOLLET); }
static void two_by_edges_there(int number) { edge_there(number); }
static void shared_word_there(int number) { edge_there(number); }
static void two_by_level_here(int number) { wait_by_two(number, EPOLLIN); }
static void two_by_level_there(int number) { edge_there(number); }

/* Another thread, of the C library's, reads and writes the number. */
static void finish(struct aiocb *call, const char *what)
{
    const struct aiocb *list[] = {call};
    while (aio_error(call) == EINPROGRESS) aio_suspend(list, 1, NULL);
    say(what, aio_return(call));
}

static void by_another_thread_here(int number)
{
    char bytes[8] = "";
    struct aiocb call = {.aio_fildes = number, .aio_buf = bytes, .aio_nbytes = 3};
    struct aiocb listed = {.aio_fildes = number, .aio_buf = "abc", .aio_nbytes = 3, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *list[] = {&listed, NULL};
    await_bytes(number, 3);
    say("begins to read", aio_read(&call));
    finish(&call, "read");
    printf("%s\n", bytes);
    call.aio_buf = "def";
    say("begins to write", aio_write(&call));
    finish(&call, "written");
    say("list", lio_listio(LIO_WAIT, list, 2, NULL));
    say("written", aio_return(&listed));
    get(number, 1);
}

static void by_another_thread_there(int number)
{
    put(number, "xyz");
    get(number, 6);
    put(number, "k");
    await_end(number);
}

/* Threads that are cancelled while they wait: each ends, and the others go on. */
struct cancelled {
    int number, call;
    _Atomic pid_t thread;
};

enum { CANCELLED_CALLS = 7 };

static void *wait_for_ever(void *given)
{
    struct cancelled *one = given;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct pollfd polled = {one->number, POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN};
    fd_set set;
    int epoll = epoll_create1(0);
    FD_ZERO(&set);
    FD_SET(one->number, &set);
    epoll_ctl(epoll, EPOLL_CTL_ADD, one->number, &event);
    one->thread = gettid();
    switch (one->call) {
    case 0: recv(one->number, &byte, 1, 0); break;
    case 1: read(one->number, &byte, 1); break;
    case 2: recvmsg(one->number, &message, 0); break;
    case 3: poll(&polled, 1, -1); break;
    case 4: select(one->number + 1, &set, NULL, NULL, NULL); break;
    case 5: epoll_wait(epoll, &event, 1, -1); break;
    case 6: {
        static char much[1 << 16];
        while (write(one->number, much, sizeof much) > 0) {}
    }
    }
    return NULL;
}

/* It sleeps, and goes on to sleep. */
static void await_sleep(pid_t thread)
{
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)thread);
    for (int asleep = 0; asleep < 50; sched_yield()) {
        FILE *file = fopen(name, "r");
        if (file == NULL || fgets(line, sizeof line, file) == NULL) die("stat");
        fclose(file);
        asleep = strstr(line, ") S ") != NULL ? asleep + 1 : 0;
    }
}

static void cancelled_here(int number)
{
    for (int call = 0; call < CANCELLED_CALLS; call++) {
        struct cancelled one = {number, call, 0};
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, wait_for_ever, &one);
        while (one.thread == 0) sched_yield();
        await_sleep(one.thread);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%d: %s\n", call, result == PTHREAD_CANCELED ? "cancelled" : "came back");
        fflush(stdout);
        if (call == CANCELLED_CALLS - 1) break;
        put(number, "x");
        get(number, 1);
    }
    if (write(gate[1], "g", 1) != 1) die("gate"); /* the other end begins to read */
    shutdown(number, SHUT_WR);
    await_end(number);
}

static void cancelled_there(int number)
{
    for (int call = 0; call < CANCELLED_CALLS - 1; call++) {
        get(number, 1);
        put(number, "y");
    }
    char byte;
    if (read(gate[0], &byte, 1) != 1) die("gate");
    await_end(number);
}

/* One thread waits, and others arm and disarm the number meanwhile: none of their words may be taken back. */
enum { ARMED_ROUNDS = 20000 };

struct armed {
    int epoll, number;
    sem_t told;
};

static void arm(int epoll, int operation, int number, uint32_t mask)
{
    struct epoll_event event = {.events = mask | EPOLLONESHOT, .data.fd = number};
    if (epoll_ctl(epoll, operation, number, &event) != 0) die("epoll_ctl");
}

static void *wait_for_others(void *given)
{
    struct armed *one = given;
    for (;;) {
        struct epoll_event event;
        int told = epoll_wait(one->epoll, &event, 1, -1);
        if (told == 1 && event.events & EPOLLRDHUP) return NULL;
        if (told == 1) sem_post(&one->told);
    }
}

static void armed_here(int number)
{
    struct armed one = {epoll_create1(0), number, {{0}}};
    pthread_t thread;
    int rounds = 0;
    char byte;
    sem_init(&one.told, 0, 0);
    arm(one.epoll, EPOLL_CTL_ADD, number, EPOLLIN);
    pthread_create(&thread, NULL, wait_for_others, &one);
    while (rounds < ARMED_ROUNDS) {
        sem_wait(&one.told);
        arm(one.epoll, EPOLL_CTL_MOD, number, 0);
        for (; recv(number, &byte, 1, MSG_DONTWAIT) == 1; rounds++) put(number, "y");
        arm(one.epoll, EPOLL_CTL_MOD, number, EPOLLIN);
    }
    say("rounds", rounds);
    shutdown(number, SHUT_RDWR);
    arm(one.epoll, EPOLL_CTL_MOD, number, EPOLLRDHUP);
    pthread_join(thread, NULL);
}

static void armed_there(int number)
{
    for (int i = 0; i < ARMED_ROUNDS; i++) {
        put(number, "x");
        get(number, 1);
    }
    await_end(number);
}

/* ---- */

/* ---- an end that is stopped ---- */

static long fill_up(int number)
{
    static char block[50000];
    long sent = 0;
    for (ssize_t now; (now = send(number, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;) sent += now;
    return sent;
}

/* Reads to the end, and tells how much came. */
static void count_all(int number, int answers)
{
    static char block[50000];
    long count = 0;
    for (ssize_t now; (now = recv(number, block, sizeof block, 0)) > 0;) count += now;
    if (write(answers, &count, sizeof count) != sizeof count) die("write");
}

static void stopped_here(int number)
{
    char byte;
    long came = 0;
    struct timeval limit = {0, 100000};
    struct pollfd one = {number, POLLIN, 0};
    int poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(poller, EPOLL_CTL_ADD, number, &event);
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    kill(getppid(), SIGSTOP);
    put(number, "x");
    say("recv", recv(number, &byte, 1, 0));
    say("poll", poll(&one, 1, 100));
    say("epoll_wait", epoll_wait(poller, &event, 1, 100));
    long sent = 1 + fill_up(number);
    say("send", send(number, "x", 1, MSG_DONTWAIT));
    say("shutdown", shutdown(number, SHUT_WR));
    limit.tv_usec = 0;
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    kill(getppid(), SIGCONT);
    say("answer", recv(number, &came, sizeof came, MSG_WAITALL));
    say("lost", sent - came);
}

static void stopped_there(int number)
{
    count_all(number, number);
    await_end(number);
}

/* What was sent comes, though the close came first. */
static void left_here(int number)
{
    kill(getppid(), SIGSTOP);
    long sent = fill_up(number);
    say("close", close(number));
    kill(getppid(), SIGCONT);
    long came = 0;
    if (read(gate[0], &came, sizeof came) != sizeof came) die("read");
    say("lost", sent - came);
}

static void left_there(int number) { count_all(number, gate[1]); }

/* A close that waits (SO_LINGER with a time). */
static void lingers_here(int number)
{
    struct linger linger = {1, 5};
    long came = 0;
    setsockopt(number, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    put(number, "all of this");
    say("close", close(number));
    if (read(gate[0], &came, sizeof came) != sizeof came) die("read");
    say("came", came);
}

static void lingers_there(int number) { count_all(number, gate[1]); }

/* Its time is over before all has gone; the rest goes on. */
static void lingers_long_here(int number)
{
    struct linger linger = {1, 1};
    setsockopt(number, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    kill(getppid(), SIGSTOP);
    long sent = fill_up(number), came = 0;
    say("close", close(number));
    kill(getppid(), SIGCONT);
    if (read(gate[0], &came, sizeof came) != sizeof came) die("read");
    say("lost", sent - came);
}

static void lingers_long_there(int number) { count_all(number, gate[1]); }

/* ---- the kernel's own asynchronous calls (io_submit) ---- */

static long submit(aio_context_t context, int number, int what, void *bytes, size_t size)
{
    struct iocb one = {.aio_lio_opcode = (uint16_t)what, .aio_fildes = (uint32_t)number,
                       .aio_buf = (uint64_t)(uintptr_t)bytes, .aio_nbytes = size};
    struct iocb *all[1] = {&one};
    struct io_event event = {0};
    if (syscall(SYS_io_submit, context, 1L, all) != 1) return -1;
    return syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL) == 1 ? (long)event.res : -1;
}

static void submitted_here(int number)
{
    aio_context_t context = 0;
    char bytes[16] = "";
    say("io_setup", syscall(SYS_io_setup, 4L, &context));
    put(number, "one");
    say("io_submit", submit(context, number, IOCB_CMD_PWRITE, "two", 3));
    say("io_submit", submit(context, number, IOCB_CMD_PREAD, bytes, sizeof bytes));
    say("same", memcmp(bytes, "answer", 6));
    put(number, "end");
    say("recv", recv(number, bytes, 4, MSG_WAITALL));
}

/* Code whose calls of the C library come by no door of a preloaded library. */
static void go_past(int number, void *library)
{
    ssize_t (*sends)(int, const void *, size_t, int), (*receives)(int, void *, size_t, int);
    char bytes[16] = "";
    if (library == NULL) die("dlopen");
    *(void **)&sends = dlsym(library, "send");
    *(void **)&receives = dlsym(library, "recv");
    put(number, "one");
    say("send", sends(number, "two", 3, 0));
    say("recv", receives(number, bytes, 6, MSG_WAITALL));
    say("same", memcmp(bytes, "answer", 6));
    put(number, "end");
    say("recv", recv(number, bytes, 4, MSG_WAITALL));
}

static void deepbind_here(int number) { go_past(number, dlopen("libc.so.6", RTLD_NOW | RTLD_DEEPBIND)); }
static void namespace_here(int number) { go_past(number, dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW)); }

static void submitted_there(int number)
{
    char bytes[16] = "";
    if (recv(number, bytes, 6, MSG_WAITALL) == 6) put(number, memcmp(bytes, "onetwo", 6) == 0 ? "answer" : "wrong!");
    get(number, 3);
    put(number, "last");
    await_end(number);
}

static void deepbind_there(int number) { submitted_there(number); }
static void namespace_there(int number) { submitted_there(number); }

struct scene {
    const char *name;
    void (*here)(int), (*there)(int);
};

#define SCENE(name) {#name, name##_here, name##_there}
static const struct scene scenes[] = {
    SCENE(half_close),   SCENE(reset), SCENE(timeout),   SCENE(nonblocking), SCENE(full),    SCENE(peek),
    SCENE(signals),      SCENE(pipe),  SCENE(copies),    SCENE(fork),        SCENE(exec),    SCENE(spawn),
    SCENE(vfork), SCENE(clone),        SCENE(stdio), SCENE(passing),   SCENE(killed),      SCENE(options), SCENE(file),
    SCENE(waits),        SCENE(level), SCENE(low_water), SCENE(messages),    SCENE(vectors), SCENE(ranges),
    SCENE(asynchronous), SCENE(bare),  SCENE(zerocopy), SCENE(shell), SCENE(at_directory), SCENE(wide), SCENE(peek_parts),
    SCENE(edge), SCENE(two_by_edges), SCENE(two_by_level), SCENE(shared_word),
    SCENE(by_another_thread), SCENE(refused), SCENE(cancelled), SCENE(armed),
    SCENE(stopped), SCENE(left), SCENE(lingers), SCENE(lingers_long), SCENE(submitted),
    SCENE(deepbind), SCENE(namespace),
};

int main(int count, char **arguments)
{
    const struct scene *scene = NULL;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        if (count == 2 && strcmp(arguments[1], scenes[i].name) == 0) scene = &scenes[i];
    if (scene == NULL) {
        for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) puts(scenes[i].name);
        return 0;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, size);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &size);
    if (pipe(gate) != 0) die("pipe");
    pid_t here = fork();
    if (here == 0) {
        close(listener);
        alarm(0);
        int number = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(number, (struct sockaddr *)&address, sizeof address) != 0) die("connect");
        warm(number, 1);
        scene->here(number);
        exit(0);
    }
    int number = accept(listener, NULL, NULL), status;
    close(listener);
    warm(number, 0);
    if (strcmp(scene->name, "killed") == 0) { /* this process tells how it went */
        pid_t there = fork();
        if (there == 0) scene->there(number);
        close(number);
        waitpid(there, NULL, 0);
    } else {
        scene->there(number);
        close(number);
    }
    waitpid(here, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
