/* A loop that hears by bits: which looks are due, when it is woken, and what others do to it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "switch/loop.h"
#include "switch/ringing.h"

#define MOST 64

static void close_both(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        if (pair->fd[side] >= 0) pair_close(pair, side);
    pair_done(pair);
}

static struct fs_loop *make_loop(void)
{
    int error = 0;
    struct fs_loop *loop = fs_loop_make(&error);
    CHECK_EQUAL(error, 0);
    CHECK(loop != NULL);
    return loop;
}

static int join(struct fs_loop *loop, struct pair *pair, int side)
{
    int slot = fs_loop_join(loop, pair->end[side], pair->fd[side], NULL);
    CHECK(slot >= 0);
    return slot;
}

static int shows(int descriptor)
{
    struct pollfd one = {descriptor, POLLIN, 0};
    return poll(&one, 1, 0) > 0;
}

static int looks(struct fs_loop *loop)
{
    int numbers[MOST];
    return fs_loop_look(loop, numbers, MOST, FS_AT_ONCE);
}

/* As a program's loop sleeps, until there is something to read on the one connection that it watches. */
static void await(struct fs_loop *loop, struct pair *pair, int side, int slot)
{
    int numbers[MOST], count;
    while ((count = fs_loop_sleep(loop, numbers, MOST, 0)) == 0 || count == -EBUSY) {
        struct pollfd list[2] = {{fs_loop_descriptor(loop), POLLIN, 0}, {pair->fd[side], POLLIN, 0}};
        if (count == -EBUSY) continue;
        if (poll(list, 2, (int)(STALL_NS / 1000000)) == 0) fail(__FILE__, __LINE__, "nobody woke the loop");
        fs_loop_awake(loop, list[0].revents != 0);
        if (list[1].revents) fs_loop_heat(loop, slot, 1);
    }
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(numbers[0], pair->fd[side]);
}

static uint64_t tokens(const struct pair *pair, int side)
{
    return atomic_load(&fs_words_in(pair->end[side]->end)->tokens) >> FS_TOKEN_SHIFT;
}

/* A message is sent and taken by the loop, and the sender has come to know the loop. */
static void make_known(struct fs_loop *loop, struct pair *pair, int side, int slot)
{
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(send_now(pair, !side, "x", 1, 0), 1);
        await(loop, pair, side, slot);
        expect_bytes(pair, side, "x");
        CHECK_EQUAL(looks(loop), 0);
    }
    CHECK(fs_ring_known() >= 1);
}

TEST(loop_hears_by_a_token_until_the_sender_knows_it_and_then_by_its_bit, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_loop *loop = make_loop();
    int slot = join(loop, &pair, 0), numbers[MOST];
    make_known(loop, &pair, 0, slot);
    uint64_t before = tokens(&pair, 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(fs_loop_sleep(loop, numbers, MOST, 0), 0);
        CHECK(!shows(fs_loop_descriptor(loop)));
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        CHECK(shows(fs_loop_descriptor(loop)));
        CHECK(!shows(pair.fd[0]));
        fs_loop_awake(loop, 1);
        CHECK(!shows(fs_loop_descriptor(loop)));
        CHECK_EQUAL(looks(loop), 1);
        CHECK_EQUAL(looks(loop), 1); /* as long as there is something */
        expect_bytes(&pair, 0, "abc");
        CHECK_EQUAL(looks(loop), 0);
    }
    CHECK_EQUAL(tokens(&pair, 0), before);
    fs_loop_leave(loop, slot);
    fs_loop_free(loop);
    close_both(&pair);
}

TEST(loop_that_is_awake_is_not_rung, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_loop *loop = make_loop();
    int slot = join(loop, &pair, 1);
    make_known(loop, &pair, 1, slot);
    CHECK_EQUAL(looks(loop), 0);
    CHECK_EQUAL(send_now(&pair, 0, "abc", 3, 0), 3);
    CHECK(!shows(fs_loop_descriptor(loop)));
    CHECK_EQUAL(looks(loop), 1);
    fs_loop_free(loop);
    close_both(&pair);
}

TEST(loop_is_told_of_the_end_and_of_bytes_on_tcp_by_the_kernel, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_loop *loop = make_loop();
    int slot = join(loop, &pair, 0);
    make_known(loop, &pair, 0, slot);
    static unsigned char block[1 << 20];
    CHECK(send_now(&pair, 1, block, sizeof block, 0) > 0); /* more than the ring takes: the rest goes over TCP */
    while (fs_carry_unread(pair.end[0], pair.fd[0]) != 0) {
        await(loop, &pair, 0, slot);
        CHECK(receive_now(&pair, 0, block, sizeof block, 0) > 0);
    }
    pair_close(&pair, 1);
    await(loop, &pair, 0, slot);
    CHECK_EQUAL(receive_now(&pair, 0, block, sizeof block, 0), 0);
    fs_loop_free(loop);
    close_both(&pair);
}

TEST(second_loop_at_a_connection_hears_by_tokens, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_loop *loop = make_loop(), *second = make_loop();
    int slot = join(loop, &pair, 0);
    CHECK_EQUAL(fs_loop_join(second, pair.end[0], pair.fd[0], NULL), -EBUSY);
    make_known(loop, &pair, 0, slot);
    fs_carry_listen(pair.end[0], pair.fd[0], 1);
    for (int i = 0; i < 20; i++) { /* whichever of them settles last, both are told */
        if (i & 1) CHECK_EQUAL(fs_carry_settle(pair.end[0], pair.fd[0], FS_COUNTED), 0);
        int numbers[MOST];
        fs_loop_heat(loop, slot, 1);
        CHECK_EQUAL(fs_loop_sleep(loop, numbers, MOST, 0), 0);
        if (!(i & 1)) CHECK_EQUAL(fs_carry_settle(pair.end[0], pair.fd[0], FS_COUNTED), 0);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        CHECK(shows(fs_loop_descriptor(loop)));
        CHECK(shows(pair.fd[0]));
        fs_loop_awake(loop, 1);
        expect_bytes(&pair, 0, "abc");
    }
    for (int i = 0; i < 10; i++) { /* the loop takes the tokens, and the other one sleeps on */
        int numbers[MOST];
        fs_loop_heat(loop, slot, 1);
        CHECK_EQUAL(fs_loop_sleep(loop, numbers, MOST, 0), 0);
        CHECK(!shows(pair.fd[0]));
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        CHECK(shows(pair.fd[0]));
        fs_loop_awake(loop, 1);
        expect_bytes(&pair, 0, "abc");
    }
    fs_carry_listen(pair.end[0], pair.fd[0], -1);
    fs_loop_leave(loop, slot);
    slot = join(second, &pair, 0); /* from one loop to another */
    make_known(second, &pair, 0, slot);
    fs_loop_free(second);
    slot = join(loop, &pair, 0); /* what a loop had is free once it is gone */
    make_known(loop, &pair, 0, slot);
    fs_loop_free(loop);
    close_both(&pair);
}

TEST(slot_serves_the_next_connection_and_a_late_sender_costs_a_look, 0)
{
    struct fs_loop *loop = make_loop();
    for (int i = 0; i < scaled(100); i++) {
        struct pair one = pair_attached(4096), other = pair_attached(4096);
        int slot = join(loop, &one, 0);
        make_known(loop, &one, 0, slot);
        struct fs_switch_words *words = fs_words_in(one.end[0]->end);
        uint64_t home = atomic_load(&words->loop);
        if (i & 1) pair_close(&one, 0);
        fs_loop_leave(loop, slot);
        CHECK_EQUAL(join(loop, &other, 0), slot);
        CHECK_EQUAL(looks(loop), 0);
        CHECK_EQUAL(fs_ring_loop(home, (uint32_t)slot), 1);
        CHECK_EQUAL(looks(loop), 0);
        CHECK_EQUAL(send_now(&other, 1, "abc", 3, 0), 3);
        await(loop, &other, 0, slot);
        fs_loop_leave(loop, slot);
        close_both(&one);
        close_both(&other);
    }
    fs_loop_free(loop);
}

TEST(connection_that_is_not_attached_or_closed_joins_no_loop, 0)
{
    struct pair pair = pair_both(4096);
    struct fs_loop *loop = make_loop();
    CHECK_EQUAL(fs_loop_join(loop, pair.end[0], pair.fd[0], NULL), -EAGAIN);
    CHECK_EQUAL(pair_offer(&pair), 0);
    CHECK_EQUAL(fs_loop_join(loop, pair.end[1], pair.fd[1], NULL), -EAGAIN);
    CHECK_EQUAL(pair_join(&pair), 0);
    CHECK_EQUAL(fs_attach_progress(pair.end[1], pair.fd[1]), 1);
    int slot = join(loop, &pair, 0), fd = pair.fd[0];
    pair_close(&pair, 0);
    CHECK_EQUAL(looks(loop), 0);
    fs_loop_leave(loop, slot);
    CHECK_EQUAL(fs_loop_join(loop, pair.end[0], fd, NULL), -EBADF);
    fs_loop_free(loop);
    close_both(&pair);
}

TEST(sender_that_knows_many_loops_forgets_those_that_rest, 0)
{
    int descriptors = 0;
    for (int i = 0; i < 300; i++) {
        struct pair pair = pair_attached(4096);
        struct fs_loop *loop = make_loop();
        int slot = join(loop, &pair, 0);
        make_known(loop, &pair, 0, slot);
        fs_loop_free(loop);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        expect_bytes(&pair, 0, "abc");
        close_both(&pair);
        if (i == 150) descriptors = count_descriptors();
    }
    CHECK(fs_ring_known() <= 64);
    CHECK(count_descriptors() <= descriptors + 20);
}

TEST(program_that_closes_unknown_numbers_hears_by_tokens, NEEDS_PROCESSES) /* it closes a helper thread's, too */
{
    struct pair pair = pair_attached(4096);
    struct fs_loop *loop = make_loop();
    int slot = join(loop, &pair, 0);
    make_known(loop, &pair, 0, slot);
    for (int number = 3; number < 200; number++)
        if (number != pair.fd[0] && number != pair.fd[1]) close(number);
    int own[2], numbers[MOST];
    CHECK(pipe(own) == 0);
    for (int i = 0; i < 40; i++) CHECK(dup(own[1]) >= 0);
    for (int i = 0; i < 10; i++) {
        fs_loop_heat(loop, slot, 1);
        CHECK_EQUAL(fs_loop_sleep(loop, numbers, MOST, 0), 0);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        CHECK(shows(pair.fd[0]));
        fs_loop_awake(loop, 0);
        expect_bytes(&pair, 0, "abc");
    }
    CHECK(!shows(own[0])); /* nobody wrote into what has those numbers now */
    CHECK_EQUAL(fs_loop_descriptor(loop), -1);
    fs_loop_free(loop);
}

/* ---- processes ---- */

TEST(forked_child_does_not_own_its_parents_loop_and_asks_for_loops_anew, NEEDS_PROCESSES)
{
    struct pair pair = pair_attached(4096);
    struct fs_loop *loop = make_loop();
    int slot = join(loop, &pair, 0), numbers[MOST];
    make_known(loop, &pair, 0, slot);
    pid_t child = start_process();
    if (child == 0) {
        CHECK_EQUAL(fs_ring_known(), 0);
        CHECK_EQUAL(fs_loop_look(loop, numbers, MOST, 0), -ECHILD);
        CHECK_EQUAL(fs_loop_sleep(loop, numbers, MOST, 0), -ECHILD);
        CHECK_EQUAL(fs_loop_join(loop, pair.end[0], pair.fd[0], NULL), -ECHILD);
        CHECK_EQUAL(fs_loop_descriptor(loop), -1);
        fs_loop_free(loop);
        pair_close(&pair, 0);
        struct waiter waiter = waiter_make(&pair, 1, FS_WRITABLE, BLOCKING);
        for (int i = 0; i < 1000; i++) CHECK_EQUAL(pair_send(&pair, &waiter, "abc", 3, 0), 3);
        pair_close(&pair, 1);
        exit(0);
    }
    pair_close(&pair, 1);
    char got[3001];
    size_t done = 0;
    for (ssize_t part = 1; part != 0;) {
        await(loop, &pair, 0, slot);
        part = receive_now(&pair, 0, got + done, sizeof got - done, 0);
        CHECK(part >= 0);
        done += (size_t)part;
    }
    CHECK_EQUAL(done, 3000);
    join_process(child);
    fs_loop_free(loop);
    close_both(&pair);
}

TEST(sender_goes_on_when_the_loops_process_is_killed, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(20); i++) {
        struct pair pair = pair_attached(4096);
        int ready[2];
        CHECK(pipe(ready) == 0);
        pid_t child = start_process();
        if (child == 0) {
            pair_close(&pair, 1);
            struct fs_loop *loop = make_loop();
            int slot = join(loop, &pair, 0);
            for (int received = 0;; received++) {
                char got[16];
                await(loop, &pair, 0, slot);
                CHECK(receive_now(&pair, 0, got, sizeof got, 0) > 0);
                if (received == 5) CHECK_EQUAL(write(ready[1], "r", 1), 1);
            }
        }
        pair_forget(&pair, 0);
        struct pollfd told = {ready[0], POLLIN, 0};
        while (poll(&told, 1, 0) == 0) {
            send_now(&pair, 1, "abc", 3, 0);
            sched_yield();
        }
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child);
        for (int sent = 0; sent < 10; sent++) { /* no signal, and no call that lasts */
            ssize_t result = send_now(&pair, 1, "abc", 3, 0);
            CHECK(result > 0 || result == -EPIPE || result == -ECONNRESET || result == -EAGAIN);
        }
        close(ready[0]);
        close(ready[1]);
        close_both(&pair);
    }
}

/* ---- many at once ---- */

#define STREAMS 12

struct crowd {
    struct pair pair[STREAMS];
    uint64_t total;
};

struct sending {
    struct crowd *crowd;
    int first, step;
};

/* One thread of several: short messages on its connections in turn, and pauses, so that the loop sleeps often. */
static void *send_streams(void *argument)
{
    struct sending *sending = argument;
    struct crowd *crowd = sending->crowd;
    struct random random = random_from((uint64_t)sending->first + 77);
    uint64_t done[STREAMS] = {0};
    for (int left = 1; left;) {
        left = 0;
        for (int i = sending->first; i < STREAMS; i += sending->step) {
            unsigned char piece[512];
            if (done[i] == crowd->total) continue;
            left = 1;
            size_t size = random_size(&random, sizeof piece);
            if (size > crowd->total - done[i]) size = (size_t)(crowd->total - done[i]);
            stream_fill((uint64_t)i, done[i], piece, size);
            ssize_t sent = send_now(&crowd->pair[i], 1, piece, size, 0);
            if (sent > 0) done[i] += (uint64_t)sent;
            else CHECK(sent == -EAGAIN);
            if (random_below(&random, 4) == 0) sched_yield();
            if (random_below(&random, 16) == 0) exact_sleep_us(random_below(&random, 60));
        }
    }
    return NULL;
}

/* One loop, and all its connections.  Now and then one moves to another slot. */
static void receive_streams(struct crowd *crowd, struct fs_loop *loop)
{
    struct random random = random_from(99);
    uint64_t done[STREAMS] = {0};
    int slots[STREAMS], ended = 0;
    for (int i = 0; i < STREAMS; i++) slots[i] = join(loop, &crowd->pair[i], 0);
    while (ended < STREAMS) {
        int numbers[MOST], count = fs_loop_sleep(loop, numbers, MOST, random_below(&random, 2) ? FS_AT_ONCE : 0);
        if (count == 0) {
            struct pollfd list[STREAMS + 1];
            for (int i = 0; i < STREAMS; i++) list[i] = (struct pollfd){crowd->pair[i].fd[0], POLLIN, 0};
            list[STREAMS] = (struct pollfd){fs_loop_descriptor(loop), POLLIN, 0};
            if (poll(list, STREAMS + 1, (int)(STALL_NS / 1000000)) == 0)
                fail(__FILE__, __LINE__, "nobody woke the loop");
            fs_loop_awake(loop, list[STREAMS].revents != 0);
            for (int i = 0; i < STREAMS; i++)
                if (list[i].revents) fs_loop_heat(loop, slots[i], 1);
        }
        for (int k = 0; k < count; k++) {
            unsigned char piece[1024];
            int i = 0;
            while (crowd->pair[i].fd[0] != numbers[k]) i++;
            ssize_t got = receive_now(&crowd->pair[i], 0, piece, random_size(&random, sizeof piece), 0);
            if (got == -EAGAIN) continue;
            CHECK(got > 0);
            stream_check((uint64_t)i, done[i], piece, (size_t)got);
            done[i] += (uint64_t)got;
            if (done[i] == crowd->total) ended++;
            if (random_below(&random, 64) == 0) {
                fs_loop_leave(loop, slots[i]);
                slots[i] = join(loop, &crowd->pair[i], 0);
            }
        }
    }
    for (int i = 0; i < STREAMS; i++) fs_loop_leave(loop, slots[i]);
}

TEST(loop_hears_of_every_byte_of_many_senders, 0)
{
    struct crowd crowd = {.total = (uint64_t)scaled(400000)};
    for (int i = 0; i < STREAMS; i++) crowd.pair[i] = pair_attached(4096);
    struct fs_loop *loop = make_loop();
    struct sending sending[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        sending[i] = (struct sending){&crowd, i, 3};
        threads[i] = start_thread(send_streams, &sending[i]);
    }
    receive_streams(&crowd, loop);
    for (int i = 0; i < 3; i++) join_thread(threads[i]);
    fs_loop_free(loop);
    for (int i = 0; i < STREAMS; i++) close_both(&crowd.pair[i]);
}

TEST(loop_hears_of_every_byte_of_other_processes, NEEDS_PROCESSES)
{
    struct crowd crowd = {.total = (uint64_t)scaled(1000000)};
    pid_t children[3];
    for (int i = 0; i < STREAMS; i++) crowd.pair[i] = pair_attached(4096);
    for (int c = 0; c < 3; c++) {
        if ((children[c] = start_process()) != 0) continue;
        for (int i = 0; i < STREAMS; i++) pair_close(&crowd.pair[i], 0);
        struct sending sending = {&crowd, c, 3};
        send_streams(&sending);
        exit(0);
    }
    struct fs_loop *loop = make_loop();
    receive_streams(&crowd, loop);
    for (int c = 0; c < 3; c++) join_process(children[c]);
    fs_loop_free(loop);
    for (int i = 0; i < STREAMS; i++) close_both(&crowd.pair[i]);
}
