/* A stream that was closed goes on until its other end has sent once; nothing of it is left before a fork. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "sockets/linger.h"

#define LEAST_NUMBER 512

static void make(int pair[2]) { CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0); }

/* The end whose other one was closed, and lingers. */
static int left(void)
{
    int pair[2];
    make(pair);
    CHECK_EQUAL(fs_linger(pair[0]), 0);
    CHECK_EQUAL(close(pair[0]), 0);
    return pair[1];
}

static void expect_hang_up(int stream)
{
    struct pollfd one = {stream, 0, 0};
    CHECK_EQUAL(poll(&one, 1, -1), 1);
    CHECK(one.revents & POLLHUP);
}

TEST(the_first_send_to_a_closed_stream_is_taken, 0)
{
    char byte;
    int stream = left();
    CHECK_EQUAL(recv(stream, &byte, 1, 0), 0);
    CHECK_EQUAL(send(stream, "alert", 5, MSG_NOSIGNAL), 5);
    expect_hang_up(stream);
    CHECK_EQUAL(send(stream, "more", 4, MSG_NOSIGNAL), -1);
    CHECK_EQUAL(errno, EPIPE);
    close(stream);
}

TEST(nothing_lingers_for_nobody, 0)
{
    int pair[2], before = count_descriptors();
    make(pair);
    close(pair[1]);
    CHECK_EQUAL(fs_linger(pair[0]), 0);
    CHECK_EQUAL(count_descriptors(), before + 1);
    close(pair[0]);
}

TEST(what_lingers_takes_no_low_number, 0)
{
    bool open[LEAST_NUMBER]; /* whoever started this may have left some of them open */
    for (int number = 0; number < LEAST_NUMBER; number++) open[number] = fcntl(number, F_GETFD) >= 0;
    int stream = left();
    open[stream] = true;
    for (int number = 0; number < LEAST_NUMBER; number++) CHECK(open[number] == (fcntl(number, F_GETFD) >= 0));
    fs_linger_rest();
    close(stream);
}

TEST(nothing_lingers_behind_a_rest, 0)
{
    close(left());
    fs_linger_rest(); /* a sanitizer starts a thread of its own beside the first */
    int threads = count_threads(), descriptors = count_descriptors();
    for (int round = 0; round < scaled(300); round++) {
        int stream = left();
        CHECK_EQUAL(count_threads(), threads + 1);
        fs_linger_rest();
        fs_linger_rest();
        CHECK_EQUAL(count_threads(), threads);
        expect_hang_up(stream);
        close(stream);
        CHECK_EQUAL(count_descriptors(), descriptors);
    }
}

static void *linger_and_rest(void *argument)
{
    struct random random = random_from((uint64_t)(uintptr_t)argument);
    for (int round = 0; round < scaled(500); round++) {
        int stream = left();
        if (random_below(&random, 2)) fs_linger_rest();
        else (void)!send(stream, "alert", 5, MSG_NOSIGNAL);
        expect_hang_up(stream);
        close(stream);
    }
    return NULL;
}

TEST(rests_of_several_threads, 0)
{
    enum { THREADS = 4 };
    int descriptors = count_descriptors();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) threads[i] = start_thread(linger_and_rest, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
    fs_linger_rest();
    CHECK_EQUAL(count_descriptors(), descriptors);
}
