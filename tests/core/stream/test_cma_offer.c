/* Direct copies: what goes past the ring. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cma_pieces.h"
#include "connection.h"
#include "stream/cma_offer.h"

#define SPIN_US 500 /* a busy machine seldom runs both ends at once */
#define RING 65536u
#define FIRST FS_CMA_FIRST
#define LEAST (2 * FIRST)
#define SIZE 160000u /* more than the ring, and several pieces */
#define WITHDRAWN (1ull << 37)
#define GENERATION (1ull << 40)
#define SENDER 0
#define RECEIVER 1

static unsigned char sent[SIZE], received[SIZE];

static struct connection direct_connection(pid_t sender)
{
    struct connection c = connection_make(RING);
    c.direct_min = LEAST;
    c.holder[SENDER] = sender;
    c.holder[RECEIVER] = getpid();
    map_same_memory_once = 1;
    for (int side = 0; side < 2; side++) connection_open(&c, side, SPIN_US);
    always_direct = 1;
    stream_fill(1, 0, sent, SIZE);
    memset(received, 0, SIZE);
    return c;
}

static void close_both(struct connection *c)
{
    connection_close(c, 0);
    connection_close(c, 1);
    always_direct = 0;
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

static ssize_t serve(struct connection *c, const struct fs_offer *offer)
{
    return fs_cma_serve(c->end[SENDER], offer, c->end[SENDER]->limits.spin_us);
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
    CHECK_EQUAL(serve(&c, &offer), SIZE - FIRST);
    check_direct(&c, SIZE - FIRST);
    CHECK_EQUAL(receive(&c, SIZE), -EAGAIN);
    push(&c, 100, 5000); /* the stream goes on behind what was read */
    CHECK_EQUAL(receive(&c, 100), 5000);
    close_both(&c);
}

TEST(direct_where_another_call_took_the_first_bytes, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(receive_into(&c, 0, FIRST), FIRST);
    CHECK_EQUAL(receive(&c, FIRST), SIZE - FIRST);
    CHECK_EQUAL(serve(&c, &offer), SIZE - FIRST);
    check_direct(&c, SIZE - FIRST);
    CHECK_EQUAL(receive(&c, SIZE), -EAGAIN);
    close_both(&c);
}

TEST(direct_sender_does_not_wait_for_a_receiver_that_does_not_come, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(serve(&c, &offer), 0);
    CHECK(!offers_again(&c)); /* for that call of his */
    push(&c, FIRST, 5000);
    CHECK_EQUAL(receive(&c, 0), FIRST + 5000);
    check_direct(&c, 0);
    close_both(&c);
}

/* A smaller buffer than the one that was asked for: what it has no room for goes through the ring. */
TEST(direct_not_for_another_call, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(receive_into(&c, 0, LEAST + 1000), FIRST);
    CHECK_EQUAL(serve(&c, &offer), 0);
    push(&c, FIRST, 3000);
    CHECK_EQUAL(receive(&c, FIRST), 3000);
    check_direct(&c, 0);
    close_both(&c);
}

TEST(direct_only_what_comes_next_in_the_stream, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_offer offer = make_offer(&c);
    CHECK_EQUAL(serve(&c, &offer), 0);
    atomic_fetch_and(&c.end[SENDER]->out.shared->offer, ~WITHDRAWN); /* open once more, by a lie */
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
    CHECK_EQUAL(serve(&c, &offer), -EPROTO);
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
    CHECK_EQUAL(serve(&c, &offer), 0);
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
    CHECK_EQUAL(serve(&c, &offer), 0);
    close_both(&c);
}

TEST(direct_impossible_answers_are_told, 0)
{
    for (int lie = 0; lie < 3; lie++) {
        struct connection c = direct_connection(getpid());
        struct fs_offer offer = make_offer(&c);
        _Atomic uint64_t *word = &c.end[SENDER]->out.shared->offer;
        switch (lie) {
        case 0: atomic_fetch_add(word, GENERATION); break; /* another offer */
        case 1: atomic_fetch_add(word, 4000); break;       /* more than there is */
        default: atomic_store(word, 0);
        }
        CHECK_EQUAL(serve(&c, &offer), -EPROTO);
        close_both(&c);
    }
}

/* ---- what each end finds when the other one stops in the middle ---- */

#define COUNT 12
#define JOINED (1ull << 3 * COUNT)

static size_t piece(void) { return fs_piece_of(SIZE - FIRST); }

/* A receiver joins, claims the first piece, and does no more. */
static void join_and_stop(struct connection *c, struct fs_guard *guard)
{
    struct fs_direction *way = c->end[SENDER]->out.shared;
    fs_guard_open(guard, 1);
    CHECK(guard->gate != NULL);
    atomic_store(&way->place_address, (uint64_t)(uintptr_t)(received + FIRST));
    atomic_store(&way->place_calls, (uint64_t)(uintptr_t)guard->calls);
    atomic_store(&way->place_gate, (uint64_t)(uintptr_t)guard->gate);
    atomic_fetch_add(&way->offer, JOINED | 1 << COUNT | 1);
}

TEST(direct_sender_copies_for_a_receiver_that_stopped_and_does_not_wait_for_its_piece, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_guard guard;
    struct fs_offer offer = make_offer(&c);
    join_and_stop(&c, &guard);
    CHECK_EQUAL(serve(&c, &offer), 0);
    CHECK_EQUAL(c.end[SENDER]->statistics.bytes_written, SIZE - FIRST - piece());
    stream_check(1, FIRST + piece(), received + FIRST + piece(), SIZE - FIRST - piece());
    for (size_t i = 0; i < piece(); i++) CHECK_EQUAL(received[FIRST + i], 0); /* it is the receiver's */
    push(&c, FIRST, 3000);
    CHECK_EQUAL(receive(&c, 0), FIRST + 3000);
    check_direct(&c, 0);
    fs_guard_close(&guard);
    close_both(&c);
}

/* The receiver, when it goes on, takes the word for that of its own offer. */
TEST(direct_no_other_offer_while_the_receiver_may_be_at_the_last_one, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_guard guard;
    struct fs_offer offer = make_offer(&c);
    fs_cma_want(c.end[RECEIVER], SIZE); /* as the call does that takes it */
    join_and_stop(&c, &guard);
    CHECK_EQUAL(serve(&c, &offer), 0);
    CHECK(!offers_again(&c));
    fs_cma_want(c.end[RECEIVER], SIZE); /* it has left */
    CHECK(offers_again(&c));
    fs_guard_close(&guard);
    close_both(&c);
}

TEST(direct_where_the_receiver_took_the_right_to_write_away, 0)
{
    struct connection c = direct_connection(getpid());
    struct fs_guard guard;
    struct fs_offer offer = make_offer(&c);
    join_and_stop(&c, &guard);
    fs_guard_close(&guard);
    CHECK_EQUAL(serve(&c, &offer), 0);
    for (size_t i = FIRST; i < SIZE; i++) CHECK_EQUAL(received[i], 0);
    CHECK(c.end[SENDER]->unwritable); /* it had not withdrawn: so this was not its doing */
    push(&c, FIRST, 3000);
    CHECK_EQUAL(receive(&c, 0), FIRST + 3000);
    close_both(&c);
}

static void *receive_all(void *connection)
{
    struct connection *c = connection;
    ssize_t got;
    while ((got = fs_end_receive(c->end[RECEIVER], c->bell[RECEIVER], received, SIZE, 0, 0)) == -EAGAIN) sched_yield();
    return (void *)got;
}

/* A sender claims a piece and stops before it writes: when the receiver has returned its buffer is its own again. */
TEST(direct_sender_that_stopped_before_its_write_never_makes_it, 0)
{
    int stopped = 0;
    for (int round = 0; round < scaled(200) || stopped == 0; round++) {
        struct connection c = direct_connection(getpid());
        struct fs_direction *way = c.end[SENDER]->out.shared;
        struct fs_offer offer = make_offer(&c);
        pthread_t receiver = start_thread(receive_all, &c);
        uint64_t word, claim;
        uint32_t mine = 0, all = fs_pieces_of(offer.length);
        do {
            word = atomic_load(&way->offer);
            mine = (uint32_t)(word & 4095) + 1;
            claim = word + 1 + ((uint64_t)mine << 2 * COUNT);
        } while (!(word & WITHDRAWN) &&
                 (!(word & JOINED) || (mine <= all && !atomic_compare_exchange_strong(&way->offer, &word, claim))));
        void *got;
        CHECK_EQUAL(pthread_join(receiver, &got), 0);
        if (!(word & WITHDRAWN) && mine <= all) {
            stopped++;
            CHECK_EQUAL((ssize_t)got, FIRST + (mine - 1) * piece());
            stream_check(1, 0, received, (size_t)got);
            memset(received, 7, SIZE);
            struct fs_guard_place there = {getpid(), way->place_calls, way->place_gate};
            CHECK(!fs_guarded_write(&there, 1, sent, (uint64_t)(uintptr_t)received, piece()));
            for (size_t i = 0; i < SIZE; i++) CHECK_EQUAL(received[i], 7);
            CHECK_EQUAL(serve(&c, &offer), (mine - 1) * piece());
            push(&c, (uint64_t)(ssize_t)got, 2000); /* the stream goes on behind what was delivered */
            CHECK_EQUAL(receive(&c, (uint64_t)(ssize_t)got), 2000);
        }
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
    if (count_cores() < 2) return;
    uint64_t direct = 0, written = 0;
    for (uint64_t round = 0; round < (uint64_t)scaled(20) || direct == 0 || written == 0; round++) {
        struct connection c = direct_connection(getpid());
        struct flow out = {c.end[SENDER], c.bell[SENDER], 9, 16 << 20, round, LARGE};
        struct flow in = {c.end[RECEIVER], c.bell[RECEIVER], 9, 16 << 20, round + 1000, LARGE};
        pthread_t sender = start_thread(flow_send, &out);
        flow_receive(&in);
        join_thread(sender);
        direct += c.end[RECEIVER]->statistics.bytes_direct;
        written += c.end[RECEIVER]->statistics.bytes_written;
        CHECK_EQUAL(c.end[SENDER]->statistics.bytes_direct, c.end[RECEIVER]->statistics.bytes_direct);
        CHECK_EQUAL(c.end[RECEIVER]->statistics.bytes_received, 16 << 20);
        close_both(&c);
    }
}

/* `there`: the side that the child has. */
static struct connection halves(int there, pid_t *other, int *side)
{
    struct connection c = connection_make(RING);
    c.direct_min = LEAST;
    c.holder[!there] = getpid();
    *other = start_process();
    c.holder[there] = *other == 0 ? getpid() : *other;
    *side = *other == 0 ? there : !there;
    connection_forget(&c, !*side);
    connection_open(&c, *side, SPIN_US);
    always_direct = 1;
    return c;
}

TEST(direct_processes_stream, NEEDS_PROCESSES)
{
    for (uint64_t round = 0; round < (uint64_t)scaled(40); round++) {
        pid_t other;
        int side;
        struct connection c = halves(SENDER, &other, &side);
        run_flow(&c, side, 16 << 20, 100 * round + (uint64_t)side);
        connection_close(&c, side);
        if (other == 0) exit(0);
        join_process(other);
    }
}

TEST(direct_sender_is_killed_at_any_moment, NEEDS_PROCESSES)
{
    uint64_t written = 0;
    for (uint64_t round = 0; round < (uint64_t)scaled(800) || (written == 0 && count_cores() > 1); round++) {
        struct random random = random_from(round);
        pid_t other;
        int side;
        struct connection c = halves(SENDER, &other, &side);
        if (other == 0) run_flow(&c, side, UINT64_MAX, round);
        struct flow flow = {c.end[side], c.bell[side], 9, UINT64_MAX, round, LARGE};
        pthread_t receiver = start_thread(flow_receive, &flow);
        exact_sleep_us(random_below(&random, 3000));
        kill(other, SIGKILL);
        join_thread(receiver); /* what came is right, and then it ended */
        waitpid(other, NULL, 0);
        written += c.end[side]->statistics.bytes_written;
        connection_close(&c, side);
    }
}

struct killing {
    pid_t process;
    uint64_t after_us;
};

static void *kill_later(void *argument)
{
    struct killing *killing = argument;
    exact_sleep_us(killing->after_us);
    kill(killing->process, SIGKILL);
    return NULL;
}

/* While the sender writes into it.  A thread kills: a fork would end the direct copies. */
TEST(direct_receiver_is_killed_at_any_moment, NEEDS_PROCESSES)
{
    uint64_t written = 0;
    unsigned char *block = malloc(LARGE);
    CHECK(block != NULL);
    for (uint64_t round = 0; round < (uint64_t)scaled(800) || (written == 0 && count_cores() > 1); round++) {
        struct random random = random_from(round);
        pid_t other;
        int side;
        struct connection c = halves(RECEIVER, &other, &side);
        if (other == 0) run_flow(&c, side, UINT64_MAX, round);
        struct killing killing = {other, random_below(&random, 3000)};
        pthread_t killer = start_thread(kill_later, &killing);
        ssize_t sent_now = 0;
        for (uint64_t position = 0; sent_now >= 0; position += (uint64_t)sent_now) {
            size_t size = random_size(&random, LARGE);
            stream_fill(9, position, block, size);
            sent_now = send_some(c.end[side], c.bell[side], block, size);
        }
        CHECK(sent_now == -ECONNRESET || sent_now == -EPIPE);
        join_thread(killer);
        waitpid(other, NULL, 0);
        written += c.end[side]->statistics.bytes_written;
        connection_close(&c, side);
    }
    free(block);
}

/* One end is stopped and goes on, so that each gives up in the middle of the other's work. */
static void run_stopped(int stopped)
{
    uint64_t written = 0;
    for (uint64_t round = 0; round < (uint64_t)scaled(100) || (written == 0 && count_cores() > 1); round++) {
        struct random random = random_from(round);
        pid_t other;
        int side;
        struct connection c = halves(stopped, &other, &side);
        if (other == 0) {
            run_flow(&c, side, 24 << 20, round);
            connection_close(&c, side);
            exit(0);
        }
        struct flow flow = {c.end[side], c.bell[side], 9, 24 << 20, round + 7, LARGE};
        pthread_t here = start_thread(side == RECEIVER ? flow_receive : flow_send, &flow);
        for (int i = 0; i < 20; i++) {
            exact_sleep_us(random_below(&random, 300));
            kill(other, SIGSTOP);
            exact_sleep_us(random_below(&random, 300));
            kill(other, SIGCONT);
        }
        join_thread(here);
        join_process(other);
        written += c.end[side]->statistics.bytes_written;
        connection_close(&c, side);
    }
}

TEST(direct_sender_is_stopped_at_any_moment, NEEDS_PROCESSES) { run_stopped(SENDER); }
TEST(direct_receiver_is_stopped_at_any_moment, NEEDS_PROCESSES) { run_stopped(RECEIVER); }

/* A fork in the middle, by another thread: the child may not change what comes to its parent. */
static void run_forks(int forks)
{
    for (uint64_t round = 0; round < (uint64_t)scaled(100); round++) {
        struct random random = random_from(round);
        pid_t other;
        int side;
        struct connection c = halves(!forks, &other, &side);
        if (other == 0) {
            run_flow(&c, side, 16 << 20, round);
            connection_close(&c, side);
            exit(0);
        }
        struct flow flow = {c.end[side], c.bell[side], 9, 16 << 20, round + 7, LARGE};
        pthread_t here = start_thread(side == RECEIVER ? flow_receive : flow_send, &flow);
        exact_sleep_us(random_below(&random, 3000));
        pid_t child = start_process();
        if (child == 0) _exit(0);
        join_process(child);
        join_thread(here);
        join_process(other);
        connection_close(&c, side);
    }
}

TEST(direct_sender_forks_at_any_moment, NEEDS_PROCESSES) { run_forks(SENDER); }
TEST(direct_receiver_forks_at_any_moment, NEEDS_PROCESSES) { run_forks(RECEIVER); }

/* The receiving end is shared by two processes, one of which dies; what it had taken is lost, as with TCP. */
TEST(direct_one_of_two_receiving_processes_is_killed, NEEDS_PROCESSES)
{
    for (uint64_t round = 0; round < (uint64_t)scaled(100); round++) {
        struct random random = random_from(round);
        pid_t sender;
        int side;
        struct connection c = halves(SENDER, &sender, &side);
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
