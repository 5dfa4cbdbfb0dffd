/* The kernel's counters, beside every byte that a test has moved itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "connection.h"
#include "switch/counters.h"
#include "tcp.h"

#define LARGEST 100000

struct side {
    int descriptor;
    uint64_t sent, received;
};

struct both {
    struct tcp tcp;
    struct side side[2]; /* the accepted one, and the connected one */
};

static struct both make(int family, const char *ip)
{
    struct both both = {.tcp = tcp_connect(family, ip)};
    both.side[0].descriptor = tcp_accept(&both.tcp);
    both.side[1].descriptor = both.tcp.client;
    for (int i = 0; i < 2; i++) fcntl(both.side[i].descriptor, F_SETFL, O_NONBLOCK);
    return both;
}

static void forget(struct both *both)
{
    close(both->side[0].descriptor);
    tcp_forget(&both->tcp);
}

static struct fs_counters read_counters(const struct side *side)
{
    struct fs_counters counters;
    CHECK_EQUAL(fs_counters_read(side->descriptor, &counters), 0);
    return counters;
}

static void check_exact(const struct side *side)
{
    struct fs_counters counters = read_counters(side);
    CHECK_EQUAL(counters.sent, side->sent);
    CHECK_EQUAL(counters.consumed, side->received);
}

/* As far as anything that is on its way permits. */
static void check_both(const struct both *both)
{
    for (int i = 0; i < 2; i++) {
        check_exact(&both->side[i]);
        struct fs_counters before = read_counters(&both->side[i]), now = read_counters(&both->side[!i]);
        CHECK(fs_counters_agree(&before, &now));
        CHECK(before.acknowledged <= before.sent && before.consumed <= before.received);
        CHECK(before.opened == FS_OPENED_UNKNOWN || before.opened == (i ? FS_OPENED_HERE : FS_OPENED_THERE));
    }
}

static void send_some_bytes(struct side *side, struct random *random)
{
    static char block[LARGEST];
    size_t length = random_size(random, LARGEST), half = length / 2;
    struct iovec parts[2] = {{block, half}, {block + half, length - half}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent = random_below(random, 2) ? send(side->descriptor, block, length, MSG_NOSIGNAL)
                                           : sendmsg(side->descriptor, &message, MSG_NOSIGNAL);
    CHECK(sent > 0 || errno == EAGAIN);
    if (sent > 0) side->sent += (uint64_t)sent;
}

static void receive_some_bytes(struct side *side, struct random *random)
{
    static char block[LARGEST];
    size_t length = random_size(random, LARGEST);
    if (random_below(random, 4) == 0) recv(side->descriptor, block, length, MSG_PEEK);
    ssize_t got = recv(side->descriptor, block, length, random_below(random, 4) ? 0 : MSG_TRUNC);
    CHECK(got > 0 || errno == EAGAIN);
    if (got > 0) side->received += (uint64_t)got;
}

static void move(struct both *both, int rounds, struct random *random)
{
    for (int i = 0; i < rounds; i++) {
        struct side *side = &both->side[random_below(random, 2)];
        if (random_below(random, 2)) send_some_bytes(side, random);
        else receive_some_bytes(side, random);
        check_both(both);
    }
}

static void run(int family, const char *ip)
{
    struct random random = random_from(1);
    for (int i = 0; i < scaled(30); i++) {
        struct both both = make(family, ip);
        check_both(&both);
        CHECK_EQUAL(read_counters(&both.side[0]).opened, FS_OPENED_THERE);
        CHECK_EQUAL(read_counters(&both.side[1]).opened, FS_OPENED_HERE);
        move(&both, 300, &random);
        forget(&both);
    }
}

TEST(counters_are_exact_over_ipv4, 0) { run(AF_INET, "127.0.0.1"); }
TEST(counters_are_exact_over_ipv6, 0) { run(AF_INET6, "::1"); }
TEST(counters_are_exact_over_ipv4_mapped_into_ipv6, 0) { run(AF_INET6, "::ffff:127.0.0.1"); }

TEST(counters_are_where_the_kernel_has_them, 0)
{
    struct both both = make(AF_INET, "127.0.0.1");
    struct tcp_info info;
    socklen_t size = sizeof info;
    CHECK(send(both.side[1].descriptor, "12345", 5, 0) == 5);
    CHECK(getsockopt(both.side[1].descriptor, IPPROTO_TCP, 11, &info, &size) == 0);
    CHECK_EQUAL(offsetof(struct tcp_info, tcpi_bytes_retrans), 208);
    CHECK_EQUAL(info.tcpi_bytes_sent, 5);
    CHECK_EQUAL(read_counters(&both.side[1]).sent, 5);
    forget(&both);
}

/* What the kernel moves itself, out of a file and into a pipe. */
TEST(counters_count_what_goes_past_memory, 0)
{
    struct both both = make(AF_INET, "127.0.0.1");
    int file = memfd_create("file", MFD_CLOEXEC), stream[2];
    CHECK(file >= 0 && ftruncate(file, 5000) == 0 && pipe2(stream, O_CLOEXEC | O_NONBLOCK) == 0);
    both.side[0].sent = (uint64_t)sendfile(both.side[0].descriptor, file, NULL, 5000);
    CHECK_EQUAL(both.side[0].sent, 5000);
    both.side[1].received = (uint64_t)splice(both.side[1].descriptor, NULL, stream[1], NULL, 3000, SPLICE_F_NONBLOCK);
    CHECK(both.side[1].received > 0);
    check_both(&both);
    close(file), close(stream[0]), close(stream[1]);
    forget(&both);
}

/* A receiver whose filter drops segments makes the sender send them again.  0: the host allows no filters. */
static int drop(const struct side *side, uint32_t of_four)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 3),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, of_four, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    int result = setsockopt(side->descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    CHECK(result == 0 || errno == EPERM);
    return result == 0;
}

static void drop_nothing(const struct side *side)
{
    const int unused = 0;
    CHECK(setsockopt(side->descriptor, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) == 0);
}

static uint32_t sent_again(const struct side *side)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    CHECK(getsockopt(side->descriptor, IPPROTO_TCP, 11, &info, &size) == 0);
    return info.tcpi_total_retrans;
}

TEST(counters_leave_out_what_was_sent_again, 0)
{
    struct random random = random_from(2);
    struct both both = make(AF_INET, "127.0.0.1");
    if (drop(&both.side[0], 1) && drop(&both.side[1], 1)) {
        while (sent_again(&both.side[0]) + sent_again(&both.side[1]) < 10) move(&both, 20, &random);
        for (int i = 0; i < 2; i++) drop_nothing(&both.side[i]);
        for (int i = 0; i < 2; i++)
            while (both.side[!i].received < both.side[i].sent) {
                receive_some_bytes(&both.side[!i], &random);
                check_both(&both);
            }
    }
    forget(&both);
}

TEST(counters_of_what_is_on_its_way, 0)
{
    struct both both = make(AF_INET, "127.0.0.1");
    if (drop(&both.side[0], 4)) {
        both.side[1].sent = (uint64_t)send(both.side[1].descriptor, "1234567", 7, 0);
        struct fs_counters counters = read_counters(&both.side[1]);
        CHECK_EQUAL(counters.sent, 7);
        CHECK_EQUAL(counters.acknowledged, 0);
        CHECK_EQUAL(counters.opened, FS_OPENED_HERE);
        check_both(&both);
        drop_nothing(&both.side[0]);
    }
    forget(&both);
}

TEST(counters_show_what_others_moved, 0)
{
    struct both both = make(AF_INET, "127.0.0.1");
    char byte;
    int copy = dup(both.side[1].descriptor);
    CHECK(write(copy, "123", 3) == 3);
    CHECK_EQUAL(read_counters(&both.side[1]).sent, 3);
    CHECK_EQUAL(read_counters(&both.side[0]).consumed, 0);
    CHECK(recv(both.side[0].descriptor, &byte, 1, MSG_PEEK) == 1);
    CHECK_EQUAL(read_counters(&both.side[0]).consumed, 0);
    CHECK(read(both.side[0].descriptor, &byte, 1) == 1);
    CHECK_EQUAL(read_counters(&both.side[0]).consumed, 1);
    CHECK_EQUAL(read_counters(&both.side[0]).received, 3);
    close(copy);
    forget(&both);
}

/* An urgent byte that is not read inline makes the counters disagree with a reader's own count: never the reverse. */
TEST(counters_disagree_over_an_urgent_byte, 0)
{
    struct both both = make(AF_INET, "127.0.0.1");
    struct side *in = &both.side[0], *out = &both.side[1];
    char block[16];
    CHECK(send(out->descriptor, "ab", 2, 0) == 2 && send(out->descriptor, "!", 1, MSG_OOB) == 1);
    CHECK(send(out->descriptor, "cd", 2, 0) == 2);
    CHECK_EQUAL(read_counters(out).sent, 5);
    CHECK_EQUAL(read_counters(in).received, 5);
    CHECK_EQUAL(read_counters(in).consumed, 3); /* though nothing was: unread is what lies before the mark */
    CHECK(recv(in->descriptor, block, sizeof block, 0) == 2);
    CHECK(read_counters(in).consumed > 2);
    CHECK(recv(in->descriptor, block, sizeof block, 0) == 2);
    CHECK_EQUAL(read_counters(in).consumed, 5);
    forget(&both);
    both = make(AF_INET, "127.0.0.1");
    in = &both.side[0], out = &both.side[1];
    const int on = 1;
    CHECK(setsockopt(in->descriptor, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on) == 0);
    CHECK(send(out->descriptor, "ab", 2, 0) == 2 && send(out->descriptor, "!", 1, MSG_OOB) == 1);
    for (ssize_t got; in->received < 3; in->received += (uint64_t)got) {
        got = recv(in->descriptor, block, sizeof block, 0);
        CHECK(got > 0);
    }
    check_exact(in);
    forget(&both);
}

TEST(counters_of_what_is_not_established, 0)
{
    struct fs_counters counters;
    struct both both = make(AF_INET, "127.0.0.1");
    int pair[2], ends[2], alone = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(fs_counters_read(both.tcp.listener, &counters) < 0, 1);
    CHECK_EQUAL(fs_counters_read(alone, &counters), -ENOTCONN);
    close(alone);
    CHECK_EQUAL(fs_counters_read(alone, &counters), -EBADF);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ends) == 0);
    CHECK_EQUAL(fs_counters_read(pair[0], &counters), -EOPNOTSUPP);
    CHECK(fs_counters_read(ends[0], &counters) < 0);
    CHECK(shutdown(both.side[0].descriptor, SHUT_WR) == 0);
    for (int i = 0; i < 2; i++) CHECK_EQUAL(fs_counters_read(both.side[i].descriptor, &counters), -ENOTCONN);
    close(pair[0]), close(pair[1]), close(ends[0]), close(ends[1]);
    forget(&both);
}

static void *send_much(void *argument)
{
    struct side *side = argument;
    struct random random = random_from(3);
    while (side->sent < 20u << 20) send_some_bytes(side, &random);
    return NULL;
}

/* Counters are read while the other end sends, by a kernel that may count on another core meanwhile. */
TEST(counters_while_bytes_come_in, 0)
{
    struct random random = random_from(4);
    struct both both = make(AF_INET, "127.0.0.1");
    pthread_t sender = start_thread(send_much, &both.side[1]);
    while (both.side[0].received < 20u << 20) {
        struct fs_counters counters;
        receive_some_bytes(&both.side[0], &random);
        int error = fs_counters_read(both.side[0].descriptor, &counters);
        CHECK(error == 0 || error == -EAGAIN);
        if (error == 0) CHECK_EQUAL(counters.consumed, both.side[0].received);
    }
    join_thread(sender);
    check_exact(&both.side[1]);
    forget(&both);
}

TEST(counters_of_two_connections_disagree, 0)
{
    struct both one = make(AF_INET, "127.0.0.1"), other = make(AF_INET, "127.0.0.1");
    CHECK(send(one.side[1].descriptor, "123", 3, 0) == 3);
    struct fs_counters before = read_counters(&one.side[1]);
    struct fs_counters right = read_counters(&one.side[0]), wrong = read_counters(&other.side[0]);
    CHECK(fs_counters_agree(&before, &right));
    CHECK(!fs_counters_agree(&before, &wrong));
    before = read_counters(&one.side[0]);
    wrong = read_counters(&other.side[1]);
    CHECK(!fs_counters_agree(&before, &wrong));
    forget(&one);
    forget(&other);
}
