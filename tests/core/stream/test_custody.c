/* Connections whose other end is still to come: whoever accepts, whenever, and whatever dies, each byte arrives once. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sockets/abstract.h"
#include "sockets/accepted.h"
#include "connection.h"
#include "stream/custody.h"
#include "tcp.h"

#define RING 4096u
#define PATIENCE_NS 10000000ull
#define FORWARD 1 /* the streams' numbers */
#define BACK 2

struct ahead {
    struct tcp tcp;
    struct fs_end *end;
    int bell;
    char name[100];
    size_t name_length;
};

/* The accepting end, once it connected back. */
struct behind {
    struct fs_end *end;
    int bell, asker;
};

static pthread_mutex_t reaching = PTHREAD_MUTEX_INITIALIZER;

static struct ahead go_ahead_on(struct tcp tcp)
{
    static _Atomic int count;
    struct ahead ahead = {.tcp = tcp};
    const struct fs_limits limits = {0, 0, 0};
    struct fs_custody_terms terms = {.connecting = ahead.tcp.connecting,
                                     .listening = ahead.tcp.listening,
                                     .hello = "hello",
                                     .hello_length = 5,
                                     .patience_ns = PATIENCE_NS};
    int pair[2], memory, error = 0, number = atomic_fetch_add(&count, 1);
    if (!map_same_memory_once) map_same_memory_once = 1;
    ahead.name_length = (size_t)snprintf(ahead.name, sizeof ahead.name, "%cfastsock-test/%d.%d", 0, getpid(), number);
    int listener = fs_abstract_listen(ahead.name, ahead.name_length);
    CHECK(listener >= 0);
    CHECK_EQUAL(fs_abstract_pair(ahead.name, ahead.name_length, pair), -EADDRINUSE);
    char other[sizeof ahead.name];
    memcpy(other, ahead.name, ahead.name_length);
    other[ahead.name_length] = 'k';
    CHECK_EQUAL(fs_abstract_pair(other, ahead.name_length + 1, pair), 0);
    struct fs_segment *segment = fs_segment_make(RING, &memory);
    CHECK(segment != NULL);
    ahead.end = fs_end_open_on(segment, FS_SIDE_CONNECTED, &limits, &error);
    CHECK_EQUAL(error, 0);
    fs_segment_drop(segment);
    ahead.bell = pair[0];
    CHECK_EQUAL(fs_doorbell_prepare(ahead.bell), 0);
    CHECK_EQUAL(fs_custody_begin(ahead.end, pair[1], memory, ahead.tcp.client, listener, &terms), 0);
    ahead.tcp.client = -1;
    return ahead;
}

static struct ahead go_ahead(void) { return go_ahead_on(tcp_connect(AF_INET, "127.0.0.1")); }

/* The listener has the sign. */
static struct ahead go_ahead_signed(void)
{
    struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
    CHECK_EQUAL(fs_accepted_sign(tcp.listener, 1), 0);
    close(tcp.client);
    close(tcp_accept(&tcp));
    tcp_connect_again(&tcp);
    return go_ahead_on(tcp);
}

static void close_ahead(struct ahead *ahead)
{
    fs_end_closing(ahead->end, ahead->bell, 0);
    close(ahead->bell);
    fs_end_closed(ahead->end);
    fs_end_free(ahead->end);
}

static void send_ahead(struct ahead *ahead, uint64_t from, size_t length)
{
    unsigned char *data = malloc(length);
    CHECK(data != NULL);
    stream_fill(FORWARD, from, data, length);
    CHECK_EQUAL(send_everything(ahead->end, ahead->bell, data, length), length);
    free(data);
}

static void expect(struct fs_end *end, int bell, uint64_t stream, uint64_t from, size_t length)
{
    unsigned char *data = malloc(length);
    CHECK(data != NULL);
    for (size_t done = 0; done < length;) {
        ssize_t got = receive_some(end, bell, data + done, length - done);
        CHECK(got > 0);
        done += (size_t)got;
    }
    stream_check(stream, from, data, length);
    free(data);
}

static void await_state(const struct ahead *ahead, int state)
{
    uint64_t give_up = fs_now_ns() + STALL_NS;
    while (fs_custody_state(ahead->end->custody) != state) {
        CHECK(fs_now_ns() < give_up);
        exact_sleep_us(100);
    }
}

/* What travels with the hello: the memory and the doorbell. */
static int ask(const struct ahead *ahead, int rights[2])
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    char hello[64];
    struct iovec text = {hello, sizeof hello};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    pthread_mutex_lock(&reaching); /* as every caller does */
    int asker = fs_abstract_reach(ahead->name, ahead->name_length);
    pthread_mutex_unlock(&reaching);
    CHECK(asker >= 0);
    struct pollfd there = {asker, POLLIN, 0};
    CHECK(poll(&there, 1, (int)(STALL_NS / 1000000)) == 1);
    CHECK_EQUAL(recvmsg(asker, &message, MSG_CMSG_CLOEXEC), 5);
    CHECK(memcmp(hello, "hello", 5) == 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL && header->cmsg_len == CMSG_LEN(2 * sizeof(int)));
    memcpy(rights, CMSG_DATA(header), 2 * sizeof(int));
    return asker;
}

static struct behind connect_back(const struct ahead *ahead)
{
    const struct fs_limits limits = {0, 0, 0};
    int rights[2], error = 0;
    struct behind behind = {.asker = ask(ahead, rights)};
    behind.bell = rights[1];
    behind.end = fs_end_open(rights[0], FS_SIDE_ACCEPTED, &limits, &error);
    CHECK_EQUAL(error, 0);
    close(rights[0]);
    CHECK_EQUAL(fs_doorbell_prepare(behind.bell), 0);
    return behind;
}

static void answer(struct behind *behind)
{
    CHECK_EQUAL(send(behind->asker, "J", 1, MSG_NOSIGNAL), 1);
    close(behind->asker);
    behind->asker = -1;
}

static void close_behind(struct behind *behind)
{
    if (behind->asker >= 0) close(behind->asker);
    fs_end_closing(behind->end, behind->bell, 0);
    close(behind->bell);
    fs_end_closed(behind->end);
    fs_end_free(behind->end);
}

static void send_back(struct fs_end *end, int bell, uint64_t from, size_t length)
{
    unsigned char *data = malloc(length);
    CHECK(data != NULL);
    stream_fill(BACK, from, data, length);
    CHECK_EQUAL(send_everything(end, bell, data, length), length);
    free(data);
}

/* ---- whoever comes ---- */

TEST(custody_of_one_who_joins, 0)
{
    struct ahead ahead = go_ahead();
    send_ahead(&ahead, 0, 1000);
    CHECK_EQUAL(fs_custody_state(ahead.end->custody), FS_CUSTODY_PENDING);
    int accepted = tcp_accept(&ahead.tcp);
    struct behind behind = connect_back(&ahead);
    await_state(&ahead, FS_CUSTODY_HANDED);
    send_ahead(&ahead, 1000, 500); /* before the answer */
    answer(&behind);
    await_state(&ahead, FS_CUSTODY_JOINED);
    CHECK_EQUAL(fs_custody_joined_by(ahead.end->custody), getpid());
    uint64_t lasted = fs_custody_lasted_ns(ahead.end->custody);
    CHECK(lasted > 0);
    send_ahead(&ahead, 1500, 1500);
    expect(behind.end, behind.bell, FORWARD, 0, 3000);
    send_back(behind.end, behind.bell, 0, 3000);
    expect(ahead.end, ahead.bell, BACK, 0, 3000);
    CHECK_EQUAL(fs_custody_lasted_ns(ahead.end->custody), lasted); /* it was decided */
    close(accepted);
    close_ahead(&ahead);
    char one;
    CHECK_EQUAL(receive_some(behind.end, behind.bell, &one, 1), 0);
    close_behind(&behind);
    tcp_forget(&ahead.tcp);
}

TEST(custody_of_one_who_speaks_on_tcp, 0)
{
    struct ahead ahead = go_ahead();
    char one;
    send_ahead(&ahead, 0, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    tcp_send_stream(accepted, BACK, 0, 700);
    expect(ahead.end, ahead.bell, BACK, 0, 700);
    CHECK_EQUAL(fs_custody_state(ahead.end->custody), FS_CUSTODY_RELAYED);
    send_ahead(&ahead, 1000, 60000);
    tcp_expect_stream(accepted, FORWARD, 0, 61000);
    CHECK_EQUAL(fs_end_shutdown(ahead.end, ahead.bell, SHUT_WR), 0);
    tcp_expect_end(accepted);
    tcp_send_stream(accepted, BACK, 700, 3000);
    close(accepted);
    expect(ahead.end, ahead.bell, BACK, 700, 3000);
    CHECK_EQUAL(receive_some(ahead.end, ahead.bell, &one, 1), 0);
    close_ahead(&ahead);
    tcp_forget(&ahead.tcp);
}

static void *read_all(void *argument)
{
    int *accepted = argument;
    tcp_expect_stream(*accepted, FORWARD, 0, 4u << 20);
    return NULL;
}

/* It says nothing: only the kernel tells that it accepted.  The ring is full long before all is sent. */
TEST(custody_of_one_who_only_listens, 0)
{
    struct ahead ahead = go_ahead();
    int accepted = tcp_accept(&ahead.tcp);
    pthread_t reader = start_thread(read_all, &accepted);
    for (uint64_t from = 0; from < 4u << 20; from += 1u << 18) send_ahead(&ahead, from, 1u << 18);
    join_thread(reader);
    await_state(&ahead, FS_CUSTODY_RELAYED);
    CHECK(fs_custody_is_accepted(ahead.end->custody));
    close_ahead(&ahead);
    tcp_expect_end(accepted);
    close(accepted);
    tcp_forget(&ahead.tcp);
}

/* It neither speaks nor reads: where the listener has no sign, time tells. */
TEST(custody_of_one_who_does_nothing, 0)
{
    struct ahead ahead = go_ahead();
    send_ahead(&ahead, 0, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    await_state(&ahead, FS_CUSTODY_RELAYED);
    CHECK(fs_custody_lasted_ns(ahead.end->custody) >= PATIENCE_NS);
    close_ahead(&ahead);
    tcp_expect_stream(accepted, FORWARD, 0, 1000);
    tcp_expect_end(accepted);
    close(accepted);
    tcp_forget(&ahead.tcp);
}

/* ---- the listener has the sign: whoever accepted may need long to connect back ---- */

#define LONG_NS (40 * PATIENCE_NS) /* longer than anybody without the sign may need */

static void await_long(const struct ahead *ahead)
{
    while (fs_custody_lasted_ns(ahead->end->custody) < LONG_NS) {
        CHECK_EQUAL(fs_custody_state(ahead->end->custody), FS_CUSTODY_PENDING);
        exact_sleep_us(1000);
    }
}

TEST(custody_of_a_signed_one_who_joins_late, 0)
{
    struct ahead ahead = go_ahead_signed();
    send_ahead(&ahead, 0, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    await_long(&ahead);
    CHECK(fs_custody_is_accepted(ahead.end->custody));
    struct behind behind = connect_back(&ahead);
    answer(&behind);
    await_state(&ahead, FS_CUSTODY_JOINED);
    expect(behind.end, behind.bell, FORWARD, 0, 1000);
    close(accepted);
    close_ahead(&ahead);
    close_behind(&behind);
    tcp_forget(&ahead.tcp);
}

static void *send_much(void *argument)
{
    send_ahead(argument, 0, 1u << 20);
    return NULL;
}

TEST(custody_of_a_signed_one_whose_ring_is_full, 0)
{
    struct ahead ahead = go_ahead_signed();
    int accepted = tcp_accept(&ahead.tcp);
    pthread_t sender = start_thread(send_much, &ahead);
    await_long(&ahead);
    struct behind behind = connect_back(&ahead);
    answer(&behind);
    expect(behind.end, behind.bell, FORWARD, 0, 1u << 20);
    join_thread(sender);
    CHECK_EQUAL(fs_custody_state(ahead.end->custody), FS_CUSTODY_JOINED);
    close(accepted);
    close_ahead(&ahead);
    close_behind(&behind);
    tcp_forget(&ahead.tcp);
}

/* It never comes: a sender goes on as on TCP. */
TEST(custody_of_a_signed_one_whose_ring_stays_full, 0)
{
    struct ahead ahead = go_ahead_signed();
    int accepted = tcp_accept(&ahead.tcp);
    send_ahead(&ahead, 0, 1u << 20);
    CHECK_EQUAL(fs_custody_state(ahead.end->custody), FS_CUSTODY_RELAYED);
    close_ahead(&ahead);
    tcp_expect_stream(accepted, FORWARD, 0, 1u << 20);
    tcp_expect_end(accepted);
    close(accepted);
    tcp_forget(&ahead.tcp);
}

/* Foreign code on a listener with the sign: it is found by what it read. */
TEST(custody_of_a_signed_one_who_reads_from_tcp, 0)
{
    struct ahead ahead = go_ahead_signed();
    send_ahead(&ahead, 0, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    tcp_expect_stream(accepted, FORWARD, 0, 10);
    await_state(&ahead, FS_CUSTODY_RELAYED);
    send_ahead(&ahead, 1000, 20000);
    CHECK_EQUAL(fs_end_shutdown(ahead.end, ahead.bell, SHUT_WR), 0);
    tcp_expect_stream(accepted, FORWARD, 10, 20990);
    tcp_expect_end(accepted);
    tcp_send_stream(accepted, BACK, 0, 500);
    expect(ahead.end, ahead.bell, BACK, 0, 500);
    close(accepted);
    close_ahead(&ahead);
    tcp_forget(&ahead.tcp);
}

/* Nobody is taken for one who read while all of it lies there, the end of the stream included. */
TEST(custody_of_a_signed_one_who_looks_only, 0)
{
    struct ahead ahead = go_ahead_signed();
    char some[100];
    send_ahead(&ahead, 0, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    CHECK_EQUAL(recv(accepted, some, sizeof some, MSG_PEEK), sizeof some);
    CHECK_EQUAL(fs_end_shutdown(ahead.end, ahead.bell, SHUT_WR), 0);
    await_long(&ahead);
    struct behind behind = connect_back(&ahead);
    answer(&behind);
    expect(behind.end, behind.bell, FORWARD, 0, 1000);
    CHECK_EQUAL(receive_some(behind.end, behind.bell, some, 1), 0);
    close(accepted);
    close_ahead(&ahead);
    close_behind(&behind);
    tcp_forget(&ahead.tcp);
}

/* ---- the answer is heard by whoever asks, also where the thread does not come to it ---- */

static int is_set_of_events(int descriptor)
{
    char name[64], path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(path, name, sizeof name);
    return length > 0 && strncmp(name, "anon_inode:[eventpoll]", (size_t)length) == 0;
}

TEST(custody_whose_answer_is_heard_without_the_thread, 0)
{
    struct ahead first = go_ahead();
    close_ahead(&first);
    tcp_forget(&first.tcp);
    fs_custody_rest(); /* a sanitizer starts a thread of its own beside the first */
    int threads = count_threads(), nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct ahead ahead = go_ahead();
    send_ahead(&ahead, 0, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    struct behind behind = connect_back(&ahead);
    await_state(&ahead, FS_CUSTODY_HANDED);
    for (int each = 3; each < 64; each++) /* a program that uses numbers which it does not know: so the thread ends */
        if (is_set_of_events(each))
            syscall(SYS_dup3, nothing, each, O_CLOEXEC); /* unseen by a sanitizer: it is a race */
    while (count_threads() > threads) exact_sleep_us(1000);
    CHECK_EQUAL(fs_custody_hear(ahead.end->custody), FS_CUSTODY_HANDED);
    answer(&behind);
    CHECK_EQUAL(fs_custody_hear(ahead.end->custody), FS_CUSTODY_JOINED);
    CHECK_EQUAL(fs_custody_joined_by(ahead.end->custody), getpid());
    expect(behind.end, behind.bell, FORWARD, 0, 1000);
    close(nothing);
    close(accepted);
    close_ahead(&ahead);
    close_behind(&behind);
    tcp_forget(&ahead.tcp);
    struct ahead next = go_ahead(); /* with a thread of its own again */
    close_ahead(&next);
    tcp_forget(&next.tcp);
}

TEST(custody_of_one_who_declines, 0)
{
    struct ahead ahead = go_ahead();
    int rights[2];
    send_ahead(&ahead, 0, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    close(ask(&ahead, rights)); /* without a word */
    close(rights[0]);
    close(rights[1]);
    await_state(&ahead, FS_CUSTODY_RELAYED);
    send_ahead(&ahead, 1000, 20000);
    tcp_expect_stream(accepted, FORWARD, 0, 21000);
    tcp_send_stream(accepted, BACK, 0, 20000);
    expect(ahead.end, ahead.bell, BACK, 0, 20000);
    close_ahead(&ahead);
    tcp_expect_end(accepted);
    close(accepted);
    tcp_forget(&ahead.tcp);
}

/* ---- nobody comes in time ---- */

TEST(custody_closed_before_anybody_comes, 0)
{
    struct ahead ahead = go_ahead();
    struct fs_end *end = fs_end_hold(ahead.end);
    send_ahead(&ahead, 0, 1000);
    close_ahead(&ahead);
    CHECK_EQUAL(fs_custody_state(end->custody), FS_CUSTODY_ENDED);
    CHECK_EQUAL(fs_abstract_reach(ahead.name, ahead.name_length), -ECONNREFUSED);
    int accepted = tcp_accept(&ahead.tcp);
    tcp_expect_stream(accepted, FORWARD, 0, 1000);
    tcp_expect_end(accepted);
    close(accepted);
    fs_end_free(end);
    tcp_forget(&ahead.tcp);
}

TEST(custody_taken_back, 0)
{
    struct ahead ahead = go_ahead();
    send_ahead(&ahead, 0, 1000);
    int stream = fs_custody_take_back(ahead.end->custody);
    CHECK(stream >= 0);
    CHECK_EQUAL(fs_custody_take_back(ahead.end->custody), -EBUSY);
    CHECK_EQUAL(fs_abstract_reach(ahead.name, ahead.name_length), -ECONNREFUSED);
    tcp_send_stream(stream, FORWARD, 1000, 1000);
    int accepted = tcp_accept(&ahead.tcp);
    tcp_expect_stream(accepted, FORWARD, 0, 2000);
    close_ahead(&ahead);
    close(stream);
    tcp_expect_end(accepted);
    close(accepted);
    tcp_forget(&ahead.tcp);
}

TEST(custody_taken_back_too_late, 0)
{
    struct ahead ahead = go_ahead();
    struct behind behind = connect_back(&ahead);
    CHECK_EQUAL(fs_custody_take_back(ahead.end->custody), -EBUSY);
    answer(&behind);
    await_state(&ahead, FS_CUSTODY_JOINED);
    CHECK_EQUAL(fs_custody_take_back(ahead.end->custody), -EBUSY);
    close_ahead(&ahead);
    close_behind(&behind);
    tcp_forget(&ahead.tcp);
}

TEST(custody_handed_to_a_process, NEEDS_PROCESSES)
{
    struct ahead ahead = go_ahead();
    send_ahead(&ahead, 0, 1000);
    CHECK_EQUAL(fs_custody_fork(ahead.end->custody), 0);
    send_ahead(&ahead, 1000, 30000);
    int accepted = tcp_accept(&ahead.tcp);
    tcp_expect_stream(accepted, FORWARD, 0, 31000);
    tcp_send_stream(accepted, BACK, 0, 30000);
    expect(ahead.end, ahead.bell, BACK, 0, 30000);
    close_ahead(&ahead);
    tcp_expect_end(accepted);
    close(accepted);
    tcp_forget(&ahead.tcp);
}

/* ---- deaths of the accepting side: as plain TCP, nothing that it read is lost, and nobody waits for ever ---- */

enum moment { BEFORE_ACCEPT, ACCEPTED, ASKED, ANSWERED, READ, ANSWERED_ON_TCP, MOMENTS };

static void die_at(enum moment moment, const struct ahead *ahead, int told)
{
    if (moment >= ACCEPTED) {
        int accepted = tcp_accept(&ahead->tcp);
        if (moment == ANSWERED_ON_TCP) tcp_send_stream(accepted, BACK, 0, 100);
        if (moment == ASKED) {
            int rights[2];
            ask(ahead, rights);
        }
        if (moment == ANSWERED || moment == READ) {
            struct behind behind = connect_back(ahead);
            answer(&behind);
            if (moment == READ) {
                expect(behind.end, behind.bell, FORWARD, 0, 1000);
                send_back(behind.end, behind.bell, 0, 100);
            }
        }
    }
    CHECK_EQUAL(write(told, "x", 1), 1);
    kill(getpid(), SIGKILL);
}

static void run_death(enum moment moment)
{
    struct ahead ahead = go_ahead();
    int pipes[2], status;
    char one;
    unsigned char got[200];
    uint64_t came = 0, give_up;
    CHECK(pipe(pipes) == 0);
    send_ahead(&ahead, 0, 1000);
    pid_t server = start_process();
    if (server == 0) {
        close(ahead.bell);
        die_at(moment, &ahead, pipes[1]);
    }
    tcp_forget(&ahead.tcp); /* the server's alone */
    close(pipes[1]);
    CHECK_EQUAL(read(pipes[0], &one, 1), 1);
    CHECK_EQUAL(waitpid(server, &status, 0), server);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (give_up = fs_now_ns() + STALL_NS;;) {
        ssize_t more = receive_some(ahead.end, ahead.bell, got, sizeof got);
        CHECK(fs_now_ns() < give_up);
        if (more <= 0) {
            CHECK(more == 0 || more == -ECONNRESET);
            break;
        }
        stream_check(BACK, came, got, (size_t)more);
        came += (uint64_t)more;
    }
    CHECK(came == (moment == READ || moment == ANSWERED_ON_TCP ? 100 : 0) || came == 0);
    if (moment == READ) CHECK_EQUAL(came, 100);
    for (give_up = fs_now_ns() + STALL_NS; fs_end_send(ahead.end, ahead.bell, "x", 1, FS_NO_SIGNAL) >= 0;)
        CHECK(fs_now_ns() < give_up);
    close_ahead(&ahead);
    close(pipes[0]);
}

TEST(custody_whose_server_is_killed_before_it_accepts, NEEDS_PROCESSES) { run_death(BEFORE_ACCEPT); }
TEST(custody_whose_server_is_killed_after_it_accepted, NEEDS_PROCESSES) { run_death(ACCEPTED); }
TEST(custody_whose_server_is_killed_before_it_answers, NEEDS_PROCESSES) { run_death(ASKED); }
TEST(custody_whose_server_is_killed_after_it_answered, NEEDS_PROCESSES) { run_death(ANSWERED); }
TEST(custody_whose_server_is_killed_in_use, NEEDS_PROCESSES) { run_death(READ); }
TEST(custody_whose_server_is_killed_on_tcp, NEEDS_PROCESSES) { run_death(ANSWERED_ON_TCP); }

/* ---- many, by several threads ---- */

TEST(custody_rests_when_there_is_nothing_in_it, 0)
{
    struct ahead first = go_ahead();
    close_ahead(&first);
    tcp_forget(&first.tcp);
    fs_custody_rest(); /* a sanitizer starts a thread of its own beside the first */
    int threads = count_threads();
    for (int round = 0; round < scaled(300); round++) {
        struct ahead ahead = go_ahead();
        fs_custody_rest();
        CHECK_EQUAL(count_threads(), threads + 1);
        close_ahead(&ahead);
        fs_custody_rest();
        fs_custody_rest();
        CHECK_EQUAL(count_threads(), threads);
        tcp_forget(&ahead.tcp);
    }
}

static void *go_many_ways(void *argument)
{
    struct random random = random_from((uint64_t)(uintptr_t)argument);
    for (int round = 0; round < scaled(60); round++) {
        struct ahead ahead = go_ahead();
        if (random_below(&random, 3) == 0) fs_custody_rest();
        size_t early = (size_t)random_below(&random, 2000) + 1;
        send_ahead(&ahead, 0, early);
        int accepted = random_below(&random, 4) ? tcp_accept(&ahead.tcp) : -1;
        switch (accepted < 0 ? 9 : random_below(&random, 4)) {
        case 0: /* joins */
        case 1: {
            struct behind behind = connect_back(&ahead);
            answer(&behind);
            send_ahead(&ahead, early, 500);
            expect(behind.end, behind.bell, FORWARD, 0, early + 500);
            send_back(behind.end, behind.bell, 0, 500);
            expect(ahead.end, ahead.bell, BACK, 0, 500);
            close_ahead(&ahead);
            close_behind(&behind);
            break;
        }
        case 2: /* is foreign */
            tcp_send_stream(accepted, BACK, 0, 500);
            expect(ahead.end, ahead.bell, BACK, 0, 500);
            send_ahead(&ahead, early, 500);
            tcp_expect_stream(accepted, FORWARD, 0, early + 500);
            close_ahead(&ahead);
            tcp_expect_end(accepted);
            break;
        case 3: /* reads only, and is left */
            close_ahead(&ahead);
            tcp_expect_stream(accepted, FORWARD, 0, early);
            tcp_expect_end(accepted);
            break;
        default: close_ahead(&ahead); break; /* nobody ever comes */
        }
        if (accepted >= 0) close(accepted);
        tcp_forget(&ahead.tcp);
    }
    return NULL;
}

TEST(custody_by_many_threads, 0)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    map_same_memory_once = 1;
    for (uintptr_t i = 0; i < THREADS; i++) threads[i] = start_thread(go_many_ways, (void *)(i + 100));
    for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
}
