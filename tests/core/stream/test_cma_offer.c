/* Direct copies: what the receiver reads out of the sender's memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"
#include "stream/cma_offer.h"

#define RING 65536u
#define FIRST FS_CMA_FIRST
#define LEAST (2 * FIRST)
#define SIZE 160000u /* more than the ring, and several pieces */
#define SENDER 0
#define RECEIVER 1

static unsigned char sent[SIZE], received[SIZE];

/* However fast the ring may be. */
static void always_ask(struct fs_end *end) { end->take_cost = UINT64_MAX / 2; }

static struct connection direct_connection(pid_t sender)
{
    struct connection c = connection_make(RING);
    c.direct_min = LEAST;
    c.holder[SENDER] = sender;
    c.holder[RECEIVER] = getpid();
    map_same_memory_once = 1;
    for (int side = 0; side < 2; side++) connection_open(&c, side, 20);
    always_ask(c.end[RECEIVER]);
    stream_fill(1, 0, sent, SIZE);
    memset(received, 0, SIZE);
    return c;
}

static void close_both(struct connection *c)
{
    connection_close(c, 0);
    connection_close(c, 1);
}

/* A receiver waits with a buffer; where it runs is feigned. */
static void await_as_receiver(struct connection *c)
{
    CHECK_EQUAL(fs_end_receive(c->end[RECEIVER], c->bell[RECEIVER], received, SIZE, 0, 0), -EAGAIN);
    atomic_store(&c->end[RECEIVER]->header->cpu[RECEIVER], 100000);
}

static void push(struct connection *c, uint64_t position, size_t length)
{
    CHECK(fs_ring_space(&c->end[SENDER]->out, length) >= (ssize_t)length);
    fs_ring_put(&c->end[SENDER]->out, sent + position, length);
}

static struct fs_offer make_offer(struct connection *c)
{
    struct fs_offer offer;
    await_as_receiver(c);
    CHECK(fs_cma_offer(c->end[SENDER], &offer, sent, SIZE));
    CHECK_EQUAL(offer.length, SIZE - FIRST);
    push(c, 0, FIRST);
    return offer;
}

static int offers_again(struct connection *c)
{
    struct fs_offer offer;
    return fs_cma_offer(c->end[SENDER], &offer, sent, SIZE);
}

static ssize_t receive_into(struct connection *c, uint64_t position, size_t length)
{
    ssize_t got = fs_end_receive(c->end[RECEIVER], c->bell[RECEIVER], received, length, 0, 1);
    if (got > 0) stream_check(1, position, received, (size_t)got);
    return got;
}

static ssize_t receive(struct connection *c, uint64_t position) { return receive_into(c, position, SIZE); }

static void check_direct(struct connection *c, uint64_t bytes)
{
    for (int side = 0; side < 2; side++) CHECK_EQUAL(c->end[side]->statistics.bytes_direct, bytes);
}

TEST(direct_first_bytes_through_the_ring_and_the_rest_read, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(receive(&c, 0), SIZE);
    CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), SIZE - FIRST);
    check_direct(&c, SIZE - FIRST);
    CHECK_EQUAL(receive(&c, SIZE), -EAGAIN);
    push(&c, 100, 5000); /* the stream goes on behind what was read */
    CHECK_EQUAL(receive(&c, 100), 5000);
    close_both(&c);
}

TEST(direct_sender_does_not_wait_for_a_receiver_that_does_not_come, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), 0);
    CHECK(!offers_again(&c)); /* for that call of his */
    push(&c, FIRST, 5000);
    CHECK_EQUAL(receive(&c, 0), FIRST + 5000);
    check_direct(&c, 0);
    close_both(&c);
}

TEST(direct_sender_does_not_wait_for_ever_for_a_receiver_that_stopped, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(receive_into(&c, 0, LEAST + 1000), LEAST + 1000);
    CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), LEAST + 1000 - FIRST);
    push(&c, LEAST + 1000, 3000);
    CHECK_EQUAL(receive(&c, LEAST + 1000), 3000);
    check_direct(&c, LEAST + 1000 - FIRST);
    close_both(&c);
}

TEST(direct_only_what_comes_next_in_the_stream, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), 0);
    atomic_fetch_and(&c.end[SENDER]->out.shared->offer, ~(1ull << 31)); /* open once more, by a lie */
    push(&c, FIRST, 5000);
    CHECK_EQUAL(receive(&c, 0), FIRST + 5000);
    check_direct(&c, 0);
    close_both(&c);
}

TEST(direct_not_for_a_receiver_that_does_not_wait_or_wants_little, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer;
    atomic_store(&c.end[RECEIVER]->header->cpu[RECEIVER], 100000);
    CHECK_EQUAL(fs_cma_offer(c.end[SENDER], &offer, sent, SIZE), 0);
    CHECK_EQUAL(fs_end_receive(c.end[RECEIVER], c.bell[RECEIVER], received, LEAST - 1, 0, 0), -EAGAIN);
    CHECK_EQUAL(fs_cma_offer(c.end[SENDER], &offer, sent, SIZE), 0);
    CHECK_EQUAL(fs_end_receive(c.end[RECEIVER], c.bell[RECEIVER], received, SIZE, 1, 0), -EAGAIN); /* a peek */
    CHECK_EQUAL(fs_cma_offer(c.end[SENDER], &offer, sent, SIZE), 0);
    await_as_receiver(&c);
    CHECK_EQUAL(fs_cma_offer(c.end[SENDER], &offer, sent, LEAST - 1), 0);
    atomic_store(&c.end[RECEIVER]->header->cpu[RECEIVER], fs_current_cpu()); /* on one core nothing is gained */
    CHECK_EQUAL(fs_cma_offer(c.end[SENDER], &offer, sent, SIZE), 0);
    close_both(&c);
}

/* The words that describe an offer are there before it is. */
TEST(direct_nothing_before_the_first_offer, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    atomic_store(&c.end[SENDER]->out.shared->offer, 0);
    CHECK_EQUAL(receive(&c, 0), FIRST);
    CHECK_EQUAL(c.end[RECEIVER]->statistics.bytes_direct, 0);
    CHECK_EQUAL(atomic_load(&c.end[SENDER]->out.shared->offer), 0);
    CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), -EPROTO);
    close_both(&c);
}

TEST(direct_not_after_a_fork, NEEDS_PROCESSES)
{
    struct connection c = direct_connection(getpid());
    make_offer(&c);
    pid_t child = start_process();
    if (child == 0) exit(0);
    join_process(child);
    CHECK(!offers_again(&c));
    CHECK_EQUAL(fs_end_send(c.end[SENDER], c.bell[SENDER], sent + FIRST, 9000, FS_PATIENT), 9000);
    CHECK_EQUAL(receive(&c, 0), FIRST + 9000); /* nothing is read from the offer that the fork left open */
    check_direct(&c, 0);
    close_both(&c);
}

/* The number that the receiver knows names a process that is not the sender. */
static void run_unreadable(pid_t sender)
{
    struct connection c = direct_connection(sender);
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(receive(&c, 0), FIRST);
    CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), 0);
    CHECK_EQUAL(fs_end_receive(c.end[RECEIVER], c.bell[RECEIVER], received, SIZE, 0, 0), -EAGAIN);
    CHECK(!offers_again(&c)); /* for good */
    check_direct(&c, 0);
    close_both(&c);
}

TEST(direct_not_from_a_process_that_is_gone, NEEDS_PROCESSES)
{
    pid_t gone = start_process();
    if (gone == 0) exit(0);
    join_process(gone);
    run_unreadable(gone);
}

TEST(direct_not_from_another_process_of_that_number, NEEDS_PROCESSES)
{
    pid_t other =
        start_process(); /* a copy of us before the connection was made: it has those addresses, not the nonce */
    if (other == 0) {
        pause();
        exit(0);
    }
    run_unreadable(other);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

TEST(direct_offer_of_memory_that_is_not_there, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    atomic_store(&c.end[SENDER]->out.shared->offer_address, 4096);
    CHECK_EQUAL(receive(&c, 0), FIRST);
    CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), 0);
    close_both(&c);
}

TEST(direct_impossible_answers_are_told, 0)
{
    for (int lie = 0; lie < 3; lie++) {
        struct connection c = direct_connection(getpid());
        struct fs_offer offer = make_offer(&c);
        _Atomic uint64_t *word = &c.end[SENDER]->out.shared->offer;
        switch (lie) {
        case 0: atomic_fetch_add(word, 1ull << 32); break; /* another offer */
        case 1: atomic_fetch_add(word, SIZE); break;       /* more than there is */
        default: atomic_store(word, 0);
        }
        CHECK_EQUAL(fs_cma_await(c.end[SENDER], &offer), -EPROTO);
        close_both(&c);
    }
}

/* ---- both ends at once ---- */

#define LARGE (1u << 20)

static void run_flow(struct connection *c, int side, uint64_t total, uint64_t salt)
{
    struct flow flow = {c->end[side], c->bell[side], 9, total, salt, LARGE};
    if (side == SENDER) flow_send(&flow);
    else flow_receive(&flow);
}

/* Until some of it went directly, which nobody can promise for one round on a busy machine. */
TEST(direct_threads_stream, 0)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
    uint64_t direct = 0;
    for (uint64_t round = 0; round < (uint64_t)scaled(20) || direct == 0; round++) {
        struct connection c = direct_connection(getpid());
        struct flow out = {c.end[SENDER], c.bell[SENDER], 9, 16 << 20, round, LARGE};
        struct flow in = {c.end[RECEIVER], c.bell[RECEIVER], 9, 16 << 20, round + 1000, LARGE};
        pthread_t sender = start_thread(flow_send, &out);
        flow_receive(&in);
        join_thread(sender);
        direct += c.end[RECEIVER]->statistics.bytes_direct;
        CHECK_EQUAL(c.end[SENDER]->statistics.bytes_direct, c.end[RECEIVER]->statistics.bytes_direct);
        CHECK_EQUAL(c.end[RECEIVER]->statistics.bytes_received, 16 << 20);
        close_both(&c);
    }
}

static struct connection halves(pid_t *other, int *side)
{
    struct connection c = connection_make(RING);
    c.direct_min = LEAST;
    c.holder[RECEIVER] = getpid();
    *other = start_process();
    c.holder[SENDER] = *other == 0 ? getpid() : *other;
    *side = *other == 0 ? SENDER : RECEIVER;
    connection_forget(&c, !*side);
    connection_open(&c, *side, 20);
    always_ask(c.end[*side]);
    return c;
}

TEST(direct_processes_stream, NEEDS_PROCESSES)
{
    for (uint64_t round = 0; round < (uint64_t)scaled(40); round++) {
        pid_t other;
        int side;
        struct connection c = halves(&other, &side);
        run_flow(&c, side, 16 << 20, 100 * round + (uint64_t)side);
        connection_close(&c, side);
        if (other == 0) exit(0);
        join_process(other);
    }
}

TEST(direct_sender_is_killed_at_any_moment, NEEDS_PROCESSES)
{
    for (uint64_t round = 0; round < (uint64_t)scaled(300); round++) {
        struct random random = random_from(round);
        pid_t other;
        int side;
        struct connection c = halves(&other, &side);
        if (other == 0) run_flow(&c, side, UINT64_MAX, round);
        struct flow flow = {c.end[side], c.bell[side], 9, UINT64_MAX, round, LARGE};
        pthread_t receiver = start_thread(flow_receive, &flow);
        exact_sleep_us(random_below(&random, 3000));
        kill(other, SIGKILL);
        join_thread(receiver); /* what came is right, and then it ended */
        waitpid(other, NULL, 0);
        connection_close(&c, side);
    }
}

/* The sender is stopped and goes on, so that each end gives up in the middle of the other's work. */
TEST(direct_sender_is_stopped_at_any_moment, NEEDS_PROCESSES)
{
    for (uint64_t round = 0; round < (uint64_t)scaled(40); round++) {
        struct random random = random_from(round);
        pid_t other;
        int side;
        struct connection c = halves(&other, &side);
        if (other == 0) {
            run_flow(&c, side, 24 << 20, round);
            connection_close(&c, side);
            exit(0);
        }
        struct flow flow = {c.end[side], c.bell[side], 9, 24 << 20, round + 7, LARGE};
        pthread_t receiver = start_thread(flow_receive, &flow);
        for (int i = 0; i < 20; i++) {
            exact_sleep_us(random_below(&random, 300));
            kill(other, SIGSTOP);
            exact_sleep_us(random_below(&random, 300));
            kill(other, SIGCONT);
        }
        join_thread(receiver);
        join_process(other);
        connection_close(&c, side);
    }
}

/* The receiving end is shared by two processes, one of which dies; what it had taken is lost, as with TCP. */
TEST(direct_one_of_two_receiving_processes_is_killed, NEEDS_PROCESSES)
{
    for (uint64_t round = 0; round < (uint64_t)scaled(100); round++) {
        struct random random = random_from(round);
        pid_t sender;
        int side;
        struct connection c = halves(&sender, &side);
        if (sender == 0) {
            run_flow(&c, side, 8 << 20, round);
            connection_close(&c, side);
            exit(0);
        }
        pid_t brother = start_process();
        unsigned char *block = malloc(LARGE);
        CHECK(block != NULL);
        if (brother == 0) {
            while (receive_some(c.end[side], c.bell[side], block, LARGE) > 0) {}
            exit(0);
        }
        exact_sleep_us(random_below(&random, 2000));
        kill(brother, SIGKILL);
        waitpid(brother, NULL, 0);
        while (receive_some(c.end[side], c.bell[side], block, LARGE) > 0) {}
        join_process(sender);
        free(block);
        connection_close(&c, side);
    }
}
