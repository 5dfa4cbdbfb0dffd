/* Programs that may not make one system call: the kernel refuses it (seccomp), with an errno.
 *
 * denied: the names of all calls.  denied CALL ERRNO exec PROGRAM ARGUMENTS: refused from its first instruction on.
 * denied CALL ERRNO midway: two processes whose connections have moved bytes already; what each end sees, to its end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { ANY = -1, STREAMS = 3, ROUNDS = 12, LARGEST = 30000, REFUSED_ALREADY = 77 };

/* A call, or the one whose argument number AT has VALUE under MASK, and so number ALSO. */
struct call {
    const char *name;
    int number, at;
    uint32_t mask, value;
    int also;
    uint32_t also_value;
};

#define EACH(name)                       {#name, SYS_##name, ANY, 0, 0, ANY, 0}
#define ONE(name, call, at, mask, value) {name, SYS_##call, at, mask, value, ANY, 0}
#define ASKED(level, option)             {"getsockopt " #option, SYS_getsockopt, 1, ~0U, level, 2, option}

static const struct call CALLS[] = {
    EACH(memfd_create),
    EACH(ftruncate),
    EACH(sendmsg),
    EACH(recvmsg),
    EACH(dup3),
    EACH(pipe2),
    EACH(poll),
    EACH(ppoll),
    EACH(epoll_pwait),
    EACH(epoll_create1),
    EACH(eventfd2),
    EACH(timerfd_create),
    EACH(getrandom),
    EACH(geteuid),
    EACH(getpeername),
    EACH(getsockname),
    EACH(newfstatat),
    EACH(fstat),
    EACH(statx),
    EACH(prlimit64),
    EACH(tgkill),
    EACH(gettid),
    EACH(getpid),
    EACH(close_range),
    EACH(readlinkat),
    EACH(sched_yield),
    EACH(sched_getaffinity),
    EACH(sched_setaffinity),
    EACH(clock_nanosleep),
    EACH(pidfd_open),
    EACH(pidfd_getfd),
    EACH(process_vm_readv),
    EACH(process_vm_writev),
    EACH(userfaultfd),
    EACH(membarrier),
    EACH(kcmp),
    EACH(fallocate),
    EACH(socketpair),
    EACH(epoll_pwait2),
    EACH(fchmod),
    EACH(mkdir),
    EACH(unlink),
    EACH(unlinkat),
    EACH(getdents64),
    EACH(mremap),
    EACH(rt_sigpending),
    EACH(rt_sigtimedwait),
    EACH(bind),
    EACH(listen),
    EACH(accept4),
    EACH(kill),
    EACH(setsockopt),
    ONE("sendto a name", sendto, 5, 32, 32), /* the length of its address */
    ONE("socket AF_UNIX", socket, 0, ~0U, AF_UNIX),
    ONE("openat O_PATH", openat, 2, O_PATH, O_PATH),
    ONE("openat O_RDWR", openat, 2, O_ACCMODE, O_RDWR),
    ONE("fcntl F_ADD_SEALS", fcntl, 1, ~0U, F_ADD_SEALS),
    ONE("fcntl F_GET_SEALS", fcntl, 1, ~0U, F_GET_SEALS),
    ONE("fcntl F_DUPFD_CLOEXEC", fcntl, 1, ~0U, F_DUPFD_CLOEXEC),
    ONE("fcntl F_GETFL", fcntl, 1, ~0U, F_GETFL),
    ONE("fcntl F_GETFD", fcntl, 1, ~0U, F_GETFD),
    ONE("ioctl FIONREAD", ioctl, 1, ~0U, FIONREAD),
    ONE("ioctl TIOCOUTQ", ioctl, 1, ~0U, TIOCOUTQ),
    ONE("madvise MADV_DONTFORK", madvise, 2, ~0U, MADV_DONTFORK),
    ONE("mmap MAP_SHARED", mmap, 3, MAP_SHARED, MAP_SHARED),
    ONE("mmap MAP_FIXED_NOREPLACE", mmap, 3, MAP_FIXED_NOREPLACE, MAP_FIXED_NOREPLACE),
    ONE("futex FUTEX_WAIT", futex, 1, ~0U, FUTEX_WAIT),
    ONE("futex FUTEX_WAKE", futex, 1, ~0U, FUTEX_WAKE),
    ONE("recvfrom MSG_PEEK", recvfrom, 3, MSG_PEEK, MSG_PEEK),
    ASKED(SOL_SOCKET, SO_BUF_LOCK),
    ASKED(SOL_SOCKET, SO_COOKIE),
    ASKED(SOL_SOCKET, SO_LINGER),
    ASKED(SOL_SOCKET, SO_PEEK_OFF),
    ASKED(SOL_SOCKET, SO_PEERCRED),
    ASKED(SOL_SOCKET, SO_PROTOCOL),
    ASKED(SOL_SOCKET, SO_RCVLOWAT),
    ASKED(SOL_SOCKET, SO_RCVTIMEO),
    ASKED(SOL_SOCKET, SO_SNDTIMEO),
    ASKED(SOL_SOCKET, SO_TYPE),
    ASKED(SOL_SOCKET, SO_ERROR),
    ASKED(IPPROTO_TCP, TCP_CORK),
    ASKED(IPPROTO_TCP, TCP_INFO),
    ASKED(IPPROTO_TCP, TCP_NODELAY),
    ASKED(IPPROTO_TCP, TCP_ULP),
    EACH(getsockopt),
};

/* ---- the filter ---- */

static int count_of_code;
static struct sock_filter code[16];

static void add(uint16_t what, uint32_t value)
{
    code[count_of_code++] = (struct sock_filter){what, 0, 0, value};
}

/* Goes on where it is so, else to the end, which lets the call be. */
static void must_be(uint32_t value)
{
    code[count_of_code++] = (struct sock_filter){BPF_JMP | BPF_JEQ | BPF_K, 0, UINT8_MAX, value};
}

static void load_argument(int at)
{
    add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (size_t)at));
}

static void deny(const struct call *call, int error)
{
    count_of_code = 0;
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    must_be((uint32_t)call->number);
    if (call->at != ANY) {
        load_argument(call->at);
        add(BPF_ALU | BPF_AND | BPF_K, call->mask);
        must_be(call->value);
    }
    if (call->also != ANY) {
        load_argument(call->also);
        must_be(call->also_value);
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (int i = 0; i < count_of_code; i++)
        if (code[i].jf == UINT8_MAX) code[i].jf = (uint8_t)(count_of_code - 2 - i);
    struct sock_fprog program = {(unsigned short)count_of_code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        perror("seccomp");
        _exit(REFUSED_ALREADY);
    }
}

/* ---- two processes ---- */

static char sent[LARGEST], came[LARGEST];

/* How each end waits: by recv(), by poll(), by epoll for edges. */
static ssize_t take(int how, int poller, int stream, char *to, size_t room)
{
    for (;;) {
        ssize_t got = recv(stream, to, room, 0);
        if (got >= 0 || errno != EAGAIN) return got;
        struct pollfd one = {stream, POLLIN, 0};
        struct epoll_event event;
        if ((how == 1 ? poll(&one, 1, -1) : epoll_wait(poller, &event, 1, -1)) < 0) return -1;
    }
}

static int prepare(int how, int stream)
{
    if (how == 0) return -1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    int poller = how == 2 ? epoll_create(1) : -1;
    CHECK(fcntl(stream, F_SETFL, O_NONBLOCK) == 0);
    if (how == 2) CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, stream, &event) == 0);
    return poller;
}

static int give(int stream, const char *from, size_t size)
{
    while (size > 0) {
        ssize_t gone = send(stream, from, size, MSG_NOSIGNAL);
        struct pollfd one = {stream, POLLOUT, 0};
        if (gone < 0 && errno == EAGAIN && poll(&one, 1, -1) == 1) continue;
        if (gone < 0) return errno;
        from += gone;
        size -= (size_t)gone;
    }
    return 0;
}

struct served {
    int how, stream, error;
    long bytes;
};

static void *serve(void *argument)
{
    struct served *served = argument;
    char *room = malloc(LARGEST);
    int poller = prepare(served->how, served->stream);
    ssize_t got;
    while ((got = take(served->how, poller, served->stream, room, LARGEST)) > 0) {
        served->bytes += got;
        if ((served->error = give(served->stream, room, (size_t)got)) != 0) break;
    }
    if (got < 0) served->error = errno;
    close(served->stream);
    free(room);
    return NULL;
}

static int ask(int how, int poller, int stream, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        size_t size = round % 4 == 3 ? LARGEST : (size_t)(1 + round * 97), at = 0;
        for (size_t i = 0; i < size; i++) sent[i] = (char)(i * 7 + (size_t)round);
        int error = give(stream, sent, size);
        if (error != 0) return error;
        while (at < size) {
            ssize_t got = take(how, poller, stream, came + at, size - at);
            if (got <= 0) return got == 0 ? -1 : errno;
            at += (size_t)got;
        }
        CHECK(memcmp(sent, came, size) == 0);
    }
    return 0;
}

static int join(int port)
{
    struct sockaddr_in address = {AF_INET, htons((uint16_t)port), {htonl(INADDR_LOOPBACK)}, {0}};
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(stream >= 0 && connect(stream, (struct sockaddr *)&address, sizeof address) == 0);
    return stream;
}

/* STREAMS connections from before, and as many from after. */
static void serve_all(int listener, int asked, int answers, const struct call *call, int error)
{
    struct served all[2 * STREAMS] = {0};
    pthread_t threads[2 * STREAMS];
    char byte = 0;
    for (int i = 0; i < 2 * STREAMS; i++) {
        if (i == STREAMS) {
            CHECK(read(asked, &byte, 1) == 1);
            deny(call, error);
            CHECK(write(answers, &byte, 1) == 1);
        }
        all[i].how = i % STREAMS;
        CHECK((all[i].stream = accept(listener, NULL, NULL)) >= 0);
        CHECK(pthread_create(&threads[i], NULL, serve, &all[i]) == 0);
    }
    for (int i = 0; i < 2 * STREAMS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 2 * STREAMS; i++) printf("served %d: %ld %d\n", i, all[i].bytes, all[i].error);
    fflush(stdout);
}

static int talk(const struct call *call, int error)
{
    struct sockaddr_in address = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), to[2], from[2], streams[2 * STREAMS], pollers[2 * STREAMS];
    int said[2 * STREAMS] = {0}, status;
    char byte = 0;
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0 && pipe(to) == 0 && pipe(from) == 0);
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent);
        serve_all(listener, to[0], from[1], call, error);
        _exit(0);
    }
    for (int i = 0; i < 2 * STREAMS; i++) {
        if (i == STREAMS) {
            CHECK(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1);
            deny(call, error);
        }
        streams[i] = join(ntohs(address.sin_port));
        pollers[i] = prepare(i % STREAMS, streams[i]);
        said[i] = ask(i % STREAMS, pollers[i], streams[i], ROUNDS);
    }
    for (int i = 0; i < STREAMS; i++)
        if (said[i] == 0) said[i] = ask(i, pollers[i], streams[i], ROUNDS);
    for (int i = 0; i < 2 * STREAMS; i++) {
        struct linger never = {1, 0};
        if (i % STREAMS == 1) CHECK(setsockopt(streams[i], SOL_SOCKET, SO_LINGER, &never, sizeof never) == 0 || error);
        if (i % STREAMS != 1) CHECK(shutdown(streams[i], SHUT_WR) == 0);
        if (i % STREAMS != 1) CHECK(take(i % STREAMS, pollers[i], streams[i], came, 1) == 0);
        close(streams[i]);
    }
    CHECK(waitpid(child, &status, 0) == child);
    for (int i = 0; i < 2 * STREAMS; i++) printf("asked %d: %d\n", i, said[i]);
    return status != 0;
}

int main(int count, char **words)
{
    if (count == 1) {
        for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) puts(CALLS[i].name);
        return 0;
    }
    CHECK(count >= 4);
    const struct call *call = CALLS;
    while (strcmp(call->name, words[1]) != 0) call++;
    int error = strcmp(words[2], "EPERM") == 0 ? EPERM : strcmp(words[2], "EACCES") == 0 ? EACCES : ENOSYS;
    if (strcmp(words[3], "midway") == 0) return talk(call, error);
    deny(call, error);
    execv(words[4], words + 4);
    return 2;
}
