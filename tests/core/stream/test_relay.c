/* A pump between an end and a kernel stream: every byte once, half-closes and resets both ways. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "stream/relay.h"
#include "tcp.h"

#define RING 4096u

struct pump {
    struct connection connection;
    struct fs_relay relay;
    int far; /* the stream's other end */
};

static struct pump make(void)
{
    struct pump pump = {.connection = connection_both(RING, 0)};
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pump.connection.end[0]->abrupt = 1; /* as custody's is */
    pump.relay =
        (struct fs_relay){.end = pump.connection.end[0], .doorbell = pump.connection.bell[0], .stream = pair[0]};
    pump.far = pair[1];
    fs_end_watch(pump.relay.end, pump.relay.doorbell);
    return pump;
}

static int turn(struct pump *pump)
{
    static _Thread_local char buffer[1024];
    return fs_relay_turn(&pump->relay, buffer, sizeof buffer);
}

/* As the thread of custody does, until everything is over. */
static void *serve(void *argument)
{
    struct pump *pump = argument;
    uint64_t give_up = fs_now_ns() + STALL_NS;
    while (!turn(pump)) {
        struct pollfd both[2] = {{pump->relay.doorbell, pump->relay.doorbell_wants, 0},
                                 {pump->relay.stream_wants ? pump->relay.stream : -1, pump->relay.stream_wants, 0}};
        poll(both, 2, 1000);
        CHECK(fs_now_ns() < give_up);
    }
    fs_relay_end(&pump->relay);
    pump->connection.end[0] = NULL;
    return NULL;
}

static void finish(struct pump *pump)
{
    connection_close(&pump->connection, 1);
    close(pump->far);
}

static void run(uint64_t total, uint64_t skip)
{
    struct pump pump = make();
    struct flow out = {pump.connection.end[1], pump.connection.bell[1], 1, total, 11, 20000};
    struct flow in = {pump.connection.end[1], pump.connection.bell[1], 2, UINT64_MAX, 12, 20000};
    pump.relay.skip = skip;
    pthread_t server = start_thread(serve, &pump);
    pthread_t sender = start_thread(flow_send, &out), receiver = start_thread(flow_receive, &in);
    tcp_expect_stream(pump.far, 1, skip, total - skip); /* what the stream had before is left out */
    join_thread(sender);
    fs_end_shutdown(pump.connection.end[1], pump.connection.bell[1], SHUT_WR);
    tcp_expect_end(pump.far);
    tcp_send_stream(pump.far, 2, 0, total);
    shutdown(pump.far, SHUT_WR);
    join_thread(receiver);
    CHECK_EQUAL(in.total, total);
    join_thread(server);
    finish(&pump);
}

TEST(relay_both_ways, 0) { run(300000, 0); }
TEST(relay_leaves_out_what_the_stream_had, 0) { run(300000, 123457); }
TEST(relay_leaves_out_everything, 0) { run(60000, 60000); }

TEST(relay_never_waits, 0)
{
    struct pump pump = make();
    CHECK_EQUAL(turn(&pump), 0);
    CHECK_EQUAL(pump.relay.doorbell_wants, POLLIN);
    CHECK_EQUAL(pump.relay.stream_wants, POLLIN);
    tcp_send_stream(pump.far, 2, 0, 60000);                                /* more than the ring takes */
    for (int turns = 0; !(pump.relay.doorbell_wants & POLLOUT); turns++) { /* each serves others too */
        CHECK_EQUAL(turn(&pump), 0);
        CHECK(turns < 10);
    }
    connection_close(&pump.connection, 1);
    serve(&pump);
    close(pump.far);
    close(pump.connection.memory);
}

/* The stream is reset: the ring's reader has what came before, and then hears of it. */
TEST(relay_of_a_reset, 0)
{
    struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
    struct pump pump = make();
    struct linger at_once = {1, 0};
    unsigned char got[600];
    close(pump.relay.stream);
    close(pump.far);
    pump.relay.stream = tcp.client;
    tcp.client = -1;
    pump.far = tcp_accept(&tcp);
    tcp_send_stream(pump.far, 2, 0, sizeof got);
    struct pollfd there = {pump.relay.stream, POLLIN, 0};
    CHECK(poll(&there, 1, (int)(STALL_NS / 1000000)) == 1);
    CHECK_EQUAL(turn(&pump), 0);
    setsockopt(pump.far, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(pump.far);
    pump.far = -1;
    serve(&pump);
    for (size_t done = 0; done < sizeof got;) {
        ssize_t more = receive_some(pump.connection.end[1], pump.connection.bell[1], got + done, sizeof got - done);
        CHECK(more > 0);
        done += (size_t)more;
    }
    stream_check(2, 0, got, sizeof got);
    CHECK_EQUAL(receive_some(pump.connection.end[1], pump.connection.bell[1], got, 1), -ECONNRESET);
    connection_close(&pump.connection, 1);
    tcp_forget(&tcp);
}
