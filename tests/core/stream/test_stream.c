/* Bytes under load: threads and processes that block, several users of one end. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"

#define MIB (1ull << 20)

static void watch_some(struct connection *connection, int which)
{
    for (int side = 0; side < 2; side++)
        if (which >> side & 1) fs_end_watch(connection->end[side], connection->bell[side]);
}

/* Both ends send and receive at once: four threads. */
static void run_duplex_threads(uint32_t small, double spin_us, int watched, uint64_t total, uint64_t largest)
{
    struct connection c = connection_both(small, spin_us);
    struct flow flows[4];
    pthread_t threads[4];
    watch_some(&c, watched);
    for (int side = 0; side < 2; side++) {
        uint64_t out = (uint64_t)side, in = (uint64_t)!side;
        flows[2 * side] = (struct flow){c.end[side], c.bell[side], out, total, out + 10, largest};
        flows[2 * side + 1] = (struct flow){c.end[side], c.bell[side], in, total, out + 20, largest};
    }
    for (int i = 0; i < 4; i++) threads[i] = start_thread(i % 2 ? flow_receive : flow_send, &flows[i]);
    for (int i = 0; i < 4; i++) join_thread(threads[i]);
    connection_close(&c, 0);
    connection_close(&c, 1);
}

TEST(threads_send_and_receive_small_ring, 0) { run_duplex_threads(4096, 50, 0, (uint64_t)scaled(160) * MIB, 20000); }
TEST(threads_send_and_receive_small_ring_tiny_pieces, 0)
{
    run_duplex_threads(4096, 50, 0, (uint64_t)scaled(8192) * 1024, 64);
}
TEST(threads_send_and_receive_small_ring_one_watched, 0)
{
    run_duplex_threads(4096, 50, 1, (uint64_t)scaled(160) * MIB, 20000);
}
TEST(threads_send_and_receive_small_ring_both_watched, 0)
{
    run_duplex_threads(4096, 50, 3, (uint64_t)scaled(160) * MIB, 20000);
}
TEST(threads_send_and_receive_without_spinning, 0)
{
    run_duplex_threads(4096, 0, 0, (uint64_t)scaled(80) * MIB, 20000);
}
TEST(threads_send_and_receive_without_spinning_watched, 0)
{
    run_duplex_threads(4096, 0, 3, (uint64_t)scaled(80) * MIB, 20000);
}
TEST(threads_send_and_receive_large_ring, 0) { run_duplex_threads(1 << 20, 50, 2, (uint64_t)scaled(512) * MIB, MIB); }

static void run_duplex_processes(uint32_t small, double spin_us, int watched, uint64_t total, uint64_t largest)
{
    struct connection c = connection_make(small);
    pid_t other = start_process();
    int side = other == 0;
    connection_forget(&c, !side);
    connection_open(&c, side, spin_us);
    if (watched >> side & 1) fs_end_watch(c.end[side], c.bell[side]);
    struct flow out = {c.end[side], c.bell[side], (uint64_t)side, total, (uint64_t)side + 30, largest};
    struct flow in = {c.end[side], c.bell[side], (uint64_t)!side, total, (uint64_t)side + 40, largest};
    pthread_t sender = start_thread(flow_send, &out);
    flow_receive(&in);
    join_thread(sender);
    connection_close(&c, side);
    if (other == 0) exit(0);
    join_process(other);
}

TEST(processes_send_and_receive_small_ring, NEEDS_PROCESSES)
{
    run_duplex_processes(4096, 50, 0, (uint64_t)scaled(160) * MIB, 20000);
}
TEST(processes_send_and_receive_watched, NEEDS_PROCESSES)
{
    run_duplex_processes(4096, 50, 3, (uint64_t)scaled(160) * MIB, 20000);
}
TEST(processes_send_and_receive_without_spinning, NEEDS_PROCESSES)
{
    run_duplex_processes(4096, 0, 1, (uint64_t)scaled(80) * MIB, 20000);
}
TEST(processes_send_and_receive_large_ring, NEEDS_PROCESSES)
{
    run_duplex_processes(1 << 20, 50, 0, (uint64_t)scaled(512) * MIB, MIB);
}

/* A question and its answer, so that each side sleeps and wakes every time. */
TEST(processes_ping_pong, NEEDS_PROCESSES)
{
    struct connection c = connection_make(4096);
    pid_t other = start_process();
    int side = other == 0;
    connection_forget(&c, !side);
    connection_open(&c, side, 50);
    struct random sizes = random_from(7); /* the same on both sides */
    unsigned char block[3000];
    uint64_t position = 0;
    for (int i = 0; i < scaled(20000); i++) {
        if (i % 1000 == 500) fs_end_watch(c.end[side], c.bell[side]);
        if (i % 64 < 2 && i % 2 == side) exact_sleep_us(1500); /* past the other side's futex sleep */
        size_t size = random_size(&sizes, sizeof block);
        for (int turn = 0; turn < 2; turn++) {
            if (turn == side) {
                stream_fill(5, position, block, size);
                CHECK_EQUAL(send_everything(c.end[side], c.bell[side], block, size), size);
            } else {
                for (size_t done = 0; done < size;) {
                    ssize_t got = receive_some(c.end[side], c.bell[side], block + done, size - done);
                    CHECK(got > 0);
                    done += (size_t)got;
                }
                stream_check(5, position, block, size);
            }
        }
        position += size;
    }
    connection_close(&c, side);
    if (other == 0) exit(0);
    join_process(other);
}

/* ---- several users of one end: units that stay whole because every size is a multiple of theirs ---- */

#define UNIT 16u
#define MOST_WRITERS 8
#define MOST_UNITS 64

struct unit {
    uint64_t writer_and_number, check;
};

struct tally { /* shared with forked processes */
    _Atomic uint64_t units[MOST_WRITERS], sum[MOST_WRITERS], highest[MOST_WRITERS];
};

struct user {
    struct fs_end *end;
    int bell;
    uint64_t writer, count, salt;
    struct tally *tally;
    int tolerant; /* others may be killed: only order counts */
};

static uint64_t check_of(uint64_t value) { return (value ^ 0x5bd1e995ull) * 0x9E3779B97F4A7C15ull; }

static void *write_units(void *argument)
{
    struct user *user = argument;
    struct random random = random_from(user->salt);
    struct unit units[MOST_UNITS];
    for (uint64_t number = 0; number < user->count;) {
        uint64_t now = random_size(&random, MOST_UNITS);
        if (now > user->count - number) now = user->count - number;
        for (uint64_t i = 0; i < now; i++) {
            uint64_t value = user->writer << 48 | (number + i + 1);
            units[i] = (struct unit){value, check_of(value)};
        }
        CHECK_EQUAL(send_everything(user->end, user->bell, units, now * UNIT), now * UNIT);
        number += now;
    }
    return NULL;
}

static void *read_units(void *argument)
{
    struct user *user = argument;
    struct random random = random_from(user->salt);
    struct unit units[MOST_UNITS];
    uint64_t last[MOST_WRITERS] = {0};
    for (;;) {
        ssize_t got = receive_some(user->end, user->bell, units, random_size(&random, MOST_UNITS) * UNIT);
        if (got == 0) return NULL;
        CHECK(got > 0 && got % UNIT == 0);
        for (ssize_t i = 0; i < got / UNIT; i++) {
            uint64_t value = units[i].writer_and_number, writer = value >> 48, number = value & 0xffffffffffffull;
            CHECK_EQUAL(units[i].check, check_of(value));
            CHECK(writer < MOST_WRITERS);
            CHECK(number > last[writer]); /* several readers: each sees a part, in order */
            last[writer] = number;
            atomic_fetch_add(&user->tally->units[writer], 1);
            atomic_fetch_add(&user->tally->sum[writer], number);
            if (number > user->tally->highest[writer]) user->tally->highest[writer] = number;
        }
    }
}

static struct tally *shared_tally(void)
{
    struct tally *tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(tally != MAP_FAILED);
    return tally;
}

static void check_tally(const struct tally *tally, uint64_t writer, uint64_t count)
{
    CHECK_EQUAL(tally->units[writer], count);
    CHECK_EQUAL(tally->sum[writer], count * (count + 1) / 2);
}

static void run_many_threads(int writers, int readers, uint64_t count, int watched)
{
    struct connection c = connection_both(4096, 50);
    struct tally *tally = shared_tally();
    struct user users[16];
    pthread_t threads[16];
    watch_some(&c, watched);
    for (int i = 0; i < writers; i++) {
        users[i] = (struct user){c.end[0], c.bell[0], (uint64_t)i, count, (uint64_t)i + 50, tally, 0};
        threads[i] = start_thread(write_units, &users[i]);
    }
    for (int i = writers; i < writers + readers; i++) {
        users[i] = (struct user){c.end[1], c.bell[1], 0, 0, (uint64_t)i + 60, tally, 0};
        threads[i] = start_thread(read_units, &users[i]);
    }
    for (int i = 0; i < writers; i++) join_thread(threads[i]);
    CHECK_EQUAL(fs_end_shutdown(c.end[0], c.bell[0], 1), 0);
    for (int i = writers; i < writers + readers; i++) join_thread(threads[i]);
    for (int i = 0; i < writers; i++) check_tally(tally, (uint64_t)i, count);
    connection_close(&c, 0);
    connection_close(&c, 1);
}

TEST(many_threads_write_one_end, 0) { run_many_threads(4, 1, (uint64_t)scaled(400000), 0); }
TEST(many_threads_read_one_end, 0) { run_many_threads(1, 4, (uint64_t)scaled(800000), 0); }
TEST(many_threads_on_both_ends_watched, 0) { run_many_threads(3, 3, (uint64_t)scaled(400000), 3); }

/* Forked processes share each end; some are killed at random moments and stay unburied while the others go on. */
static void run_many_processes(int writers, int readers, uint64_t count, int kill_writers, int kill_readers,
                               uint64_t salt)
{
    struct connection c = connection_both(4096, 50);
    struct tally *tally = shared_tally();
    struct random random = random_from(salt);
    pid_t processes[16];
    if (random_below(&random, 2)) watch_some(&c, 3);
    for (int i = 0; i < writers + readers; i++) {
        int side = i >= writers;
        processes[i] = start_process();
        if (processes[i] != 0) continue;
        connection_forget(&c, !side);
        struct user user = {c.end[side], c.bell[side], (uint64_t)i, count, salt + (uint64_t)i + 70, tally, 0};
        if (side) read_units(&user);
        else write_units(&user);
        exit(0);
    }
    connection_forget(&c, 1);
    for (int i = 0; i < kill_writers; i++) {
        exact_sleep_us(random_below(&random, 3000));
        kill(processes[i], SIGKILL);
    }
    for (int i = 0; i < kill_readers; i++) {
        exact_sleep_us(random_below(&random, 3000));
        kill(processes[writers + i], SIGKILL);
    }
    for (int i = kill_writers; i < writers; i++) join_process(processes[i]);
    CHECK_EQUAL(fs_end_shutdown(c.end[0], c.bell[0], 1), 0);
    for (int i = writers + kill_readers; i < writers + readers; i++) join_process(processes[i]);
    if (kill_readers == 0)
        for (int i = kill_writers; i < writers; i++) check_tally(tally, (uint64_t)i, count);
    for (int i = 0; i < kill_writers; i++) waitpid(processes[i], NULL, 0);
    for (int i = 0; i < kill_readers; i++) waitpid(processes[writers + i], NULL, 0);
    for (int i = 0; i < kill_writers && kill_readers == 0; i++) { /* what a killed writer sent has no holes */
        uint64_t sent = tally->highest[i];
        check_tally(tally, (uint64_t)i, sent);
    }
    connection_close(&c, 0);
    munmap(tally, sizeof *tally);
}

TEST(many_processes_share_both_ends, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(4); i++) run_many_processes(3, 3, 100000, 0, 0, 200 + (uint64_t)i);
}

TEST(killed_writers_leave_the_end_to_the_others, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(200); i++) run_many_processes(3, 1, 30000, 2, 0, 1000 + (uint64_t)i);
}

TEST(killed_readers_leave_the_end_to_the_others, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(200); i++) run_many_processes(1, 3, 60000, 0, 2, 2000 + (uint64_t)i);
}

/* A third thread that only asks how much is unread is never told of an impossible amount. */
struct onlooker {
    struct connection *c;
    _Atomic int stop;
};

static void *look_on(void *argument)
{
    struct onlooker *o = argument;
    while (!atomic_load(&o->stop))
        for (int side = 0; side < 2; side++) {
            ssize_t unread = fs_end_unread(o->c->end[side], o->c->bell[side]);
            CHECK(unread >= 0 && unread <= 32768);
        }
    return NULL;
}

TEST(onlooker_sees_possible_amounts, 0)
{
    struct connection c = connection_both(4096, 20);
    struct onlooker onlooker = {.c = &c};
    pthread_t watcher = start_thread(look_on, &onlooker);
    struct flow out = {c.end[0], c.bell[0], 4, (uint64_t)scaled(200) * MIB, 95, 9000}, in = out;
    in.end = c.end[1], in.bell = c.bell[1];
    pthread_t sender = start_thread(flow_send, &out);
    flow_receive(&in);
    join_thread(sender);
    atomic_store(&onlooker.stop, 1);
    join_thread(watcher);
    connection_close(&c, 0);
    connection_close(&c, 1);
}

TEST(the_core_is_not_handed_over_where_that_costs, 0)
{
    struct fs_yielding past = {0};
    uint64_t start, ms = (uint64_t)(1000 * fs_ticks_per_us());
    CHECK(fs_yield_try(&past, &start));
    fs_yield_learn(&past, fs_ticks(), 1, 1);
    CHECK(fs_yield_try(&past, &start));
    fs_yield_learn(&past, fs_ticks() - ms, 0, 1); /* nobody answered */
    while (!fs_yield_try(&past, &start)) {}
    fs_yield_learn(&past, fs_ticks() - 3 * ms, 1, 1); /* somebody else had the core for a slice */
    CHECK(past.rest >= 5000);
    fs_yield_learn(&past, fs_ticks() - 3 * ms, 1, 10);
    CHECK(past.rest >= 500 && past.rest < 5000);
    for (uint32_t rest = past.rest; rest > 0; rest--) CHECK(!fs_yield_try(&past, &start));
    CHECK(fs_yield_try(&past, &start));
}

static int spins_among(struct fs_spin *past, int waits, int answered)
{
    int spins = 0;
    for (int i = 0; i < waits; i++) {
        if (!fs_spin_is_due(past)) continue;
        spins++;
        fs_spin_learn(past, answered);
    }
    return spins;
}

TEST(a_spin_that_is_not_answered_becomes_rare_and_comes_back_when_one_is, 0)
{
    struct fs_spin past = {.success = 1.0f};
    CHECK(spins_among(&past, 100, 1) == 100);
    spins_among(&past, 5000, 0);
    CHECK(spins_among(&past, 10240, 0) == 10); /* a spin of 50 us costs each wait 50 ns */
    spins_among(&past, 1024 + 16 * 8, 1);
    CHECK(spins_among(&past, 100, 1) == 100);
}
