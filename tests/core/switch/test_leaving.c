/* The end of a connection, as TCP tells it: shutdown, close, reset, death, at any moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static void close_all(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        if (pair->fd[side] >= 0) pair_close(pair, side);
    pair_done(pair);
}

/* The kernel tells the other end a little later. */
static void await_end(struct pair *pair, int side)
{
    struct pollfd one = {pair->fd[side], POLLRDHUP, 0};
    CHECK_EQUAL(poll(&one, 1, 20000), 1);
}

static ssize_t receive_until_told(struct pair *pair, int side)
{
    char got[16];
    struct waiter waiter = {pair, side, FS_READABLE, -1, BLOCKING, 0};
    return pair_receive(pair, &waiter, got, sizeof got, 0);
}

/* What a plain connection does, and then one with memory: they must answer alike. */
typedef void scene(struct pair *pair, int answers[8]);

static void compare(scene *play)
{
    int plain[8] = {0}, attached[8] = {0};
    struct pair one = pair_both(4096), other = pair_attached(4096);
    play(&one, plain);
    play(&other, attached);
    for (int i = 0; i < 8; i++)
        if (plain[i] != attached[i])
            fail(__FILE__, __LINE__, "answer %d is %d, and TCP's %d", i, attached[i], plain[i]);
    close_all(&one);
    close_all(&other);
}

static void orderly(struct pair *pair, int answers[8])
{
    send_now(pair, 1, "last", 4, 0);
    pair_close(pair, 1);
    await_end(pair, 0);
    char got[8];
    answers[0] = (int)receive_now(pair, 0, got, 8, 0);
    answers[1] = (int)receive_now(pair, 0, got, 8, 0);
    answers[2] = (int)receive_now(pair, 0, got, 8, 0);
    answers[3] = (int)send_now(pair, 0, "x", 1, 0);
    struct pollfd one = {pair->fd[0], POLLHUP, 0};
    poll(&one, 1, 1000);
    answers[4] = (int)send_now(pair, 0, "x", 1, 0);
    answers[5] = (int)receive_now(pair, 0, got, 8, 0);
}

static void with_unread_bytes(struct pair *pair, int answers[8])
{
    send_now(pair, 0, "unread", 6, 0);
    send_now(pair, 1, "last", 4, 0);
    pair_close(pair, 1);
    await_end(pair, 0);
    char got[8];
    answers[0] = (int)receive_now(pair, 0, got, 8, 0);
    answers[1] = (int)receive_now(pair, 0, got, 8, 0);
    answers[2] = (int)receive_now(pair, 0, got, 8, 0);
    answers[3] = (int)send_now(pair, 0, "x", 1, 0);
    answers[4] = (int)send_now(pair, 0, "x", 1, 0);
}

static void by_linger_zero(struct pair *pair, int answers[8])
{
    struct linger linger = {1, 0};
    char got[8];
    send_now(pair, 1, "last", 4, 0);
    setsockopt(pair->fd[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    pair_close(pair, 1);
    await_end(pair, 0);
    answers[0] = (int)receive_now(pair, 0, got, 8, 0);
    answers[1] = (int)receive_now(pair, 0, got, 8, 0);
    answers[2] = (int)send_now(pair, 0, "x", 1, 0);
}

static int error_of(struct pair *pair, int side)
{
    int value = 0;
    socklen_t size = sizeof value;
    if (fs_option_get(pair->end[side], pair->fd[side], SOL_SOCKET, SO_ERROR, &value) == 1) return value;
    CHECK_EQUAL(getsockopt(pair->fd[side], SOL_SOCKET, SO_ERROR, &value, &size), 0);
    return value;
}

/* The error is asked for: before anything else, and behind the end of what was there. */
static void asked_for_error(struct pair *pair, int answers[8], const char *unread)
{
    char got[8];
    answers[0] = error_of(pair, 0);
    send_now(pair, 0, "unread", 6, 0);
    if (unread[0] != 0) send_now(pair, 1, unread, strlen(unread), 0);
    pair_close(pair, 1);
    await_end(pair, 0);
    if (unread[0] != 0) answers[1] = (int)receive_now(pair, 0, got, 8, 0);
    answers[2] = error_of(pair, 0);
    answers[3] = error_of(pair, 0);
    answers[4] = (int)receive_now(pair, 0, got, 8, 0);
    answers[5] = (int)send_now(pair, 0, "x", 1, 0);
}

static void error_at_once(struct pair *pair, int answers[8]) { asked_for_error(pair, answers, ""); }
static void error_behind_bytes(struct pair *pair, int answers[8]) { asked_for_error(pair, answers, "last"); }

static void send_after_reset(struct pair *pair, int answers[8])
{
    send_now(pair, 0, "unread", 6, 0);
    pair_close(pair, 1);
    await_end(pair, 0);
    answers[0] = (int)send_now(pair, 0, "x", 1, 0);
    answers[1] = (int)send_now(pair, 0, "x", 1, 0);
    answers[2] = (int)receive_until_told(pair, 0);
}

static void half(struct pair *pair, int answers[8])
{
    char got[8];
    send_now(pair, 1, "last", 4, 0);
    answers[0] = fs_leave_shutdown(pair->end[1], pair->fd[1], SHUT_WR);
    answers[1] = (int)send_now(pair, 1, "x", 1, 0);
    await_end(pair, 0);
    answers[2] = (int)receive_now(pair, 0, got, 8, 0);
    answers[3] = (int)receive_now(pair, 0, got, 8, 0);
    answers[4] = (int)send_now(pair, 0, "still", 5, 0);
    answers[5] = (int)receive_until_told(pair, 1);
    pair_close(pair, 0);
    await_end(pair, 1);
    answers[6] = (int)receive_now(pair, 1, got, 8, 0);
}

static void reading_half(struct pair *pair, int answers[8])
{
    char got[8];
    answers[0] = fs_leave_shutdown(pair->end[0], pair->fd[0], SHUT_RD);
    answers[1] = (int)receive_now(pair, 0, got, 8, 0);
    answers[2] = (int)send_now(pair, 1, "late", 4, 0);
    answers[3] = (int)send_now(pair, 0, "back", 4, 0);
    answers[4] = (int)receive_until_told(pair, 1);
}

static void both_halves(struct pair *pair, int answers[8])
{
    char got[8];
    send_now(pair, 0, "abc", 3, 0);
    answers[0] = fs_leave_shutdown(pair->end[0], pair->fd[0], SHUT_RDWR);
    answers[1] = (int)receive_until_told(pair, 1);
    await_end(pair, 1);
    answers[2] = (int)receive_now(pair, 1, got, 8, 0);
    answers[3] = fs_leave_shutdown(pair->end[1], pair->fd[1], SHUT_RDWR);
    answers[4] = (int)receive_now(pair, 0, got, 8, 0);
    answers[5] = (int)send_now(pair, 0, "x", 1, 0);
    answers[6] = fs_leave_shutdown(pair->end[1], pair->fd[1], 7);
}

static _Atomic int signals;
static void count_signal(int number) { signals += number == SIGPIPE; }

static void signalled(struct pair *pair, int answers[8])
{
    struct iovec part = {"x", 1};
    signal(SIGPIPE, count_signal);
    signals = 0;
    fs_leave_shutdown(pair->end[0], pair->fd[0], SHUT_WR);
    for (int i = 0; i < 2; i++) {
        struct fs_parts parts = fs_parts_of(&part, 1);
        answers[i] = (int)fs_carry_send(pair->end[0], pair->fd[0], &parts, i ? FS_NO_SIGNAL : 0, MSG_DONTWAIT);
        answers[2 + i] = signals;
    }
}

TEST(broken_pipe_is_signalled_as_by_tcp, 0) { compare(signalled); }
TEST(orderly_close_is_told_as_by_tcp, 0) { compare(orderly); }
TEST(close_with_unread_bytes_resets_as_tcp_does, 0) { compare(with_unread_bytes); }
TEST(close_with_linger_zero_resets_as_tcp_does, 0) { compare(by_linger_zero); }
TEST(error_of_a_reset_is_told_as_by_tcp, 0)
{
    compare(error_at_once);
    compare(error_behind_bytes);
}
TEST(send_behind_a_reset_is_answered_as_by_tcp, 0) { compare(send_after_reset); }
TEST(shutdown_of_the_writing_half_is_told_as_by_tcp, 0) { compare(half); }
TEST(shutdown_of_the_reading_half_is_told_as_by_tcp, 0) { compare(reading_half); }
TEST(shutdown_of_both_halves_is_told_as_by_tcp, 0) { compare(both_halves); }

TEST(close_leaves_no_token_that_would_reset_the_connection, 0)
{
    for (int i = 0; i < 40; i++) {
        struct pair pair = pair_attached(4096);
        char got[8];
        if (i & 1) fs_connection_watch(pair.end[0], pair.fd[0]);
        for (int k = 0; k < i / 2; k++) {
            CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
            CHECK_EQUAL(receive_now(&pair, 0, got, 8, 0), 5);
        }
        pair_close(&pair, 0);
        await_end(&pair, 1);
        CHECK_EQUAL(receive_now(&pair, 1, got, 8, 0), 0);
        close_all(&pair);
    }
}

/* Between the word that it leaves and its FIN there is nothing that wakes a futex. */
TEST(who_waits_for_an_end_that_leaves_waits_for_its_fin_alone, 0)
{
    const _Atomic int staying = 0;
    struct pair pair = pair_attached(4096);
    struct fs_end *end = pair.end[0]->end;
    for (char got[4]; send_now(&pair, 1, "x", 1, 0) == 1 && receive_now(&pair, 0, got, 4, 0) == 1;)
        if (atomic_load(&pair.end[0]->record->rseq) & 1) break;
    fs_leave_descriptor(pair.fd[1]);
    uint64_t waits = end->statistics.waits;
    CHECK_EQUAL(fs_carry_wait_briefly(pair.end[0], pair.fd[0], FS_READABLE, fs_now_ns() + 1000000000ull, &staying),
                FS_IN_VAIN);
    CHECK_EQUAL(end->statistics.waits, waits);
    pair_close(&pair, 1);
    CHECK_EQUAL(receive_until_told(&pair, 0), 0);
    pair_close(&pair, 0);
    pair_done(&pair);
}

TEST(options_read_back_as_they_were_set, 0)
{
    struct pair pair = pair_both(4096);
    int on = 1, value = 0;
    socklen_t size = sizeof value;
    CHECK_EQUAL(fs_option_set(pair.end[1], pair.fd[1], IPPROTO_TCP, TCP_CORK, 1), 1);
    pair_attach(&pair);
    for (int side = 0; side < 2; side++) {
        CHECK_EQUAL(getsockopt(pair.fd[side], IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
        CHECK_EQUAL(value, 1);
        CHECK_EQUAL(fs_option_get(pair.end[side], pair.fd[side], IPPROTO_TCP, TCP_NODELAY, &value), 1);
        CHECK_EQUAL(value, 0);
        CHECK_EQUAL(fs_option_get(pair.end[side], pair.fd[side], IPPROTO_TCP, TCP_CORK, &value), 1);
        CHECK_EQUAL(value, side);
    }
    CHECK_EQUAL(fs_option_set(pair.end[0], pair.fd[0], SOL_SOCKET, SO_RCVLOWAT, 100), 1);
    CHECK_EQUAL(fs_option_set(pair.end[0], pair.fd[0], SOL_SOCKET, SO_KEEPALIVE, on), 0);
    CHECK_EQUAL(fs_option_get(pair.end[0], pair.fd[0], SOL_SOCKET, SO_RCVLOWAT, &value), 1);
    CHECK_EQUAL(value, 100);
    CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
    expect_bytes(&pair, 0, "hello");
    CHECK_EQUAL(fs_leave_release(pair.end[1], pair.fd[1]), 0);
    CHECK_EQUAL(getsockopt(pair.fd[1], IPPROTO_TCP, TCP_CORK, &value, &size), 0);
    CHECK_EQUAL(value, 1);
    close_all(&pair);
}

/* ---- at any moment ---- */

struct ending {
    struct pair *pair;
    int side;
    uint64_t salt, largest;
    enum style style;
};

/* Both ends stream; one of them stops at any moment by shutdown() from another thread, while memory comes and goes. */
static void run_shutdown(uint64_t salt)
{
    struct random random = random_from(salt);
    struct pair pair = pair_both(4096);
    enum style sends = (enum style)random_below(&random, STYLES), reads = (enum style)random_below(&random, STYLES);
    uint64_t largest = 1 + random_below(&random, 20000);
    struct traffic out = {&pair, 1, sends, 1, UINT64_MAX, salt + 1, largest, 1, 0};
    struct traffic in = {&pair, 0, reads, 1, UINT64_MAX, salt + 2, largest, 1, 0};
    pthread_t sender = start_thread(traffic_send, &out), reader = start_thread(traffic_receive, &in);
    exact_sleep_us(random_below(&random, 1500));
    CHECK_EQUAL(fs_leave_shutdown(pair.end[1], pair.fd[1], SHUT_WR), 0);
    join_thread(sender);
    join_thread(reader);
    CHECK_EQUAL(out.error, -EPIPE);
    CHECK_EQUAL(in.error, 0);
    CHECK(in.total >= out.total); /* of the piece that was broken off some had gone */
    CHECK(in.total <= out.total + largest);
    close_all(&pair);
}

TEST(shutdown_by_another_thread_at_any_moment, 0)
{
    for (int i = 0; i < scaled(400); i++) run_shutdown(100 + (uint64_t)i);
}

static void run_killed(uint64_t salt, int it_sends)
{
    struct random random = random_from(salt);
    struct pair pair = pair_make(4096);
    uint64_t largest = 1 + random_below(&random, 20000);
    enum style style = (enum style)random_below(&random, STYLES), others = (enum style)random_below(&random, STYLES);
    pid_t other = start_process();
    int side = other == 0;
    pair_forget(&pair, !side);
    pair_enter(&pair, side);
    struct traffic flow = {&pair, side, other == 0 ? others : style, 3, UINT64_MAX, salt + 5, largest, 1, 0};
    if (other == 0) {
        (it_sends ? traffic_send : traffic_receive)(&flow);
        exit(0);
    }
    pthread_t thread = start_thread(it_sends ? traffic_receive : traffic_send, &flow);
    exact_sleep_us(random_below(&random, 2500));
    kill(other, SIGKILL);
    join_thread(thread); /* checked up to there */
    waitpid(other, NULL, 0);
    if (it_sends) CHECK(flow.error == 0 || flow.error == -ECONNRESET);
    else CHECK(flow.error == -EPIPE || flow.error == -ECONNRESET);
    CHECK_EQUAL(it_sends ? receive_until_told(&pair, 0) : send_now(&pair, 0, "x", 1, 0), it_sends ? 0 : -EPIPE);
    pair_close(&pair, 0);
    pair_done(&pair);
}

TEST(sender_with_memory_is_killed_at_any_moment, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(400); i++) run_killed(10000 + (uint64_t)i, 1);
}

TEST(reader_with_memory_is_killed_at_any_moment, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(400); i++) run_killed(20000 + (uint64_t)i, 0);
}

/* Whoever reads until the end gets all that was sent before an orderly close, wherever it lay. */
static void run_close(uint64_t salt)
{
    struct random random = random_from(salt);
    struct pair pair = pair_make(4096);
    uint64_t largest = 1 + random_below(&random, 20000), total = random_below(&random, 200000);
    enum style style = (enum style)random_below(&random, STYLES), others = (enum style)random_below(&random, STYLES);
    pid_t other = start_process();
    int side = other == 0;
    pair_forget(&pair, !side);
    pair_enter(&pair, side);
    struct traffic flow = {&pair, side, other == 0 ? others : style, 3, side ? total : UINT64_MAX, salt + 5, largest,
                           1,     0};
    (side ? traffic_send : traffic_receive)(&flow);
    CHECK_EQUAL(flow.error, 0);
    CHECK_EQUAL(flow.total, total);
    if (other == 0 && random_below(&random, 2)) exit(0); /* without a close */
    pair_close(&pair, side);
    if (other == 0) exit(0);
    join_process(other);
    pair_done(&pair);
}

TEST(all_that_was_sent_before_a_close_arrives, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(300); i++) run_close(30000 + (uint64_t)i);
}

/* The end that closes has read all, but a token of the other end may still be on its way: then the kernel would throw away
 * what it was sent last. */
static void run_close_behind_a_token(uint64_t salt)
{
    struct random random = random_from(salt);
    struct pair pair = pair_attached(4096);
    const uint64_t asked = 1 + random_below(&random, 3000), answered = random_below(&random, 200000);
    enum style style = (enum style)random_below(&random, STYLES);
    struct traffic ask = {&pair, 0, BLOCKING, 5, asked, salt + 1, 500, 0, 0};
    struct traffic hear = {&pair, 1, style, 5, asked, salt + 2, 500, 0, 0};
    struct traffic answer = {&pair, 1, POLL, 6, answered, salt + 3, 50000, 0, 0};
    struct traffic take = {&pair, 0, BLOCKING, 6, UINT64_MAX, salt + 4, 50000, 0, 0};
    pthread_t thread = start_thread(traffic_send, &ask);
    traffic_receive(&hear);
    traffic_send(&answer);
    pair_close(&pair, 1);
    join_thread(thread);
    traffic_receive(&take);
    CHECK_EQUAL(take.error, 0);
    CHECK_EQUAL(take.total, answered);
    close_all(&pair);
}

TEST(close_behind_the_last_byte_loses_nothing, 0)
{
    for (int i = 0; i < scaled(500); i++) run_close_behind_a_token(500 + (uint64_t)i);
}

static void *receive_for_ever(void *argument)
{
    struct traffic *traffic = argument;
    traffic_receive(traffic);
    return NULL;
}

/* Its reader has been in recv() since before the attach, and never comes out: nobody may wait for that. */
TEST(death_of_an_end_whose_reader_sleeps_in_recv, NEEDS_PROCESSES)
{
    for (int i = 0; i < 10; i++) {
        struct pair pair = pair_make(4096);
        pid_t other = start_process();
        int side = other == 0 ? 0 : 1;
        pair_forget(&pair, !side);
        pair_enter(&pair, side);
        if (other == 0) {
            struct traffic reader = {&pair, 0, BLOCKING, 1, UINT64_MAX, 1, 100, 0, 0};
            start_thread(receive_for_ever, &reader);
            while (fs_traffic_inside(atomic_load(&pair.end[0]->record->received)) == 0) exact_sleep_us(100);
            while (pair_join(&pair) != 0) exact_sleep_us(100);
            for (;;) pause();
        }
        CHECK_EQUAL(pair_offer(&pair), 0);
        while (fs_attach_progress(pair.end[1], pair.fd[1]) != 1) exact_sleep_us(100);
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        await_end(&pair, 1);
        unsigned char block[100];
        ssize_t sent = 1;
        struct waiter waiter = {&pair, 1, FS_WRITABLE, -1, i % 2 ? BLOCKING : POLL, 0};
        while (sent > 0) sent = pair_send(&pair, &waiter, block, sizeof block, 0);
        CHECK(sent == -EPIPE || sent == -ECONNRESET);
        pair_close(&pair, 1);
        pair_done(&pair);
    }
}

/* As the kernel does at a death, the number is closed without a word in memory.  TCP would have told a reset. */
TEST(error_of_a_death_with_bytes_unread_is_told_once, 0)
{
    for (int i = 0; i < 2; i++) {
        struct pair pair = pair_by_ring(4096);
        char byte;
        CHECK_EQUAL(send_now(&pair, 0, "lost", 4, 0), 4);
        CHECK_EQUAL(error_of(&pair, 0), 0);
        pair_forget(&pair, 1);
        await_end(&pair, 0);
        if (i == 1) CHECK_EQUAL(receive_now(&pair, 0, &byte, 1, 0), -ECONNRESET);
        CHECK_EQUAL(error_of(&pair, 0), i == 0 ? ECONNRESET : 0);
        CHECK_EQUAL(error_of(&pair, 0), 0);
        CHECK_EQUAL(receive_now(&pair, 0, &byte, 1, 0), 0);
        pair_close(&pair, 0);
        pair_done(&pair);
    }
}

/* It has read all, but the kernel does not know that a token is no byte. */
TEST(death_with_a_token_unread_is_no_reset, NEEDS_PROCESSES)
{
    for (int i = 0; i < 20; i++) {
        struct pair pair = pair_make(4096);
        int told[2];
        char got[8];
        CHECK(pipe(told) == 0);
        pid_t other = start_process();
        int side = other == 0 ? 0 : 1;
        pair_forget(&pair, !side);
        pair_enter(&pair, side);
        if (other == 0) {
            while (pair_join(&pair) != 0) exact_sleep_us(100);
            struct waiter waiter = {&pair, 0, FS_READABLE, -1, BLOCKING, 0};
            for (int left = 5 * (1 + i % 3); left > 0;) {
                ssize_t part = pair_receive(&pair, &waiter, got, sizeof got, 0);
                CHECK(part > 0);
                left -= (int)part;
            }
            CHECK_EQUAL(write(told[1], "x", 1), 1);
            for (;;) pause();
        }
        CHECK_EQUAL(pair_offer(&pair), 0);
        while (fs_attach_progress(pair.end[1], pair.fd[1]) != 1) exact_sleep_us(100);
        for (int k = 0; k < 1 + i % 3; k++) CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
        CHECK_EQUAL(read(told[0], got, 1), 1);
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        await_end(&pair, 1);
        if (i & 1) CHECK_EQUAL(error_of(&pair, 1), 0);
        CHECK_EQUAL(receive_now(&pair, 1, got, sizeof got, 0), 0);
        CHECK_EQUAL(receive_now(&pair, 1, got, sizeof got, 0), 0);
        while (send_now(&pair, 1, "x", 1, 0) > 0) exact_sleep_us(100);
        CHECK_EQUAL(send_now(&pair, 1, "x", 1, 0), -EPIPE);
        for (int k = 0; k < 2; k++) close(told[k]);
        pair_close(&pair, 1);
        pair_done(&pair);
    }
}
