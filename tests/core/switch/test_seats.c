/* Numbers that pollers watch: who hears by a bit, who by tokens, and that whoever begins to hear by the kernel alone is shown
 * what is unread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"
#include "switch/loop.h"
#include "switch/polling.h"
#include "switch/ringing.h"
#include "switch/seats.h"

#define MOST 8
#define NUMBERS 256
#define BEFORE_A_LOOP 16

/* ---- an epoll object of a program ---- */

struct poller {
    int epoll;
    uint32_t masks[NUMBERS];
    struct fs_seats seats;
};

static struct poller make_poller(void)
{
    struct poller poller = {.epoll = epoll_create1(EPOLL_CLOEXEC)};
    CHECK(poller.epoll >= 0);
    return poller;
}

static void show_all(const struct poller *poller)
{
    for (int i = 0; (i = fs_seats_next(&poller->seats, i)) >= 0; i++)
        if (fs_table_find(i) != NULL) fs_carry_show(fs_table_find(i), i);
}

static void drop_poller(struct poller *poller)
{
    close(poller->epoll);
    fs_seats_end(&poller->seats);
}

static void watch(struct poller *poller, int number, uint32_t events)
{
    struct epoll_event event = {events, {.fd = number}};
    CHECK(number < NUMBERS);
    poller->masks[number] = events;
    int result = epoll_ctl(poller->epoll, EPOLL_CTL_ADD, number, &event);
    CHECK(result == 0 || (errno == EEXIST && epoll_ctl(poller->epoll, EPOLL_CTL_MOD, number, &event) == 0));
    if (events & EPOLLET) fs_seats_leave(&poller->seats, number);
    else if (fs_seats_take(&poller->seats, number, events & EPOLLONESHOT ? FS_HEARS_TOKENS : FS_HEARS_ANY))
        fs_carry_show(fs_table_find(number), number);
    if (events & EPOLLET) fs_connection_watch(fs_table_find(number), number);
}

static void ignore(struct poller *poller, int number)
{
    fs_seats_leave(&poller->seats, number);
    CHECK_EQUAL(epoll_ctl(poller->epoll, EPOLL_CTL_DEL, number, NULL), 0);
}

static void note_told(struct poller *poller, int number)
{
    if (!fs_seats_reported(&poller->seats, number)) return;
    int bell = fs_seats_make_loop(&poller->seats);
    struct epoll_event event = {EPOLLIN, {.fd = bell}};
    CHECK(bell > 0);
    CHECK_EQUAL(epoll_ctl(poller->epoll, EPOLL_CTL_ADD, bell, &event), 0);
    fs_seats_reported(&poller->seats, number);
}

/* 1: the kernel tells of a token that is left over.  What is told once is armed again. */
static int is_left_over(struct poller *poller, int number)
{
    uint32_t mask = poller->masks[number];
    if (mask & EPOLLET) fs_polling_reported_edge(number);
    if (mask & EPOLLET) return 0;
    int stale = fs_polling_is_stale(number, fs_seats_flags(&poller->seats, number)) == 1;
    note_told(poller, number);
    struct epoll_event event = {mask, {.fd = number}};
    if (stale && mask & EPOLLONESHOT) CHECK_EQUAL(epoll_ctl(poller->epoll, EPOLL_CTL_MOD, number, &event), 0);
    return stale;
}

/* What the kernel tells and is so. */
static int without_stale(struct poller *poller, const struct epoll_event *events, int count, int *numbers)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        int number = events[i].data.fd;
        if (number != poller->seats.bell && !is_left_over(poller, number)) numbers[found++] = number;
    }
    return found;
}

static int once(struct poller *poller, int *numbers, int ms)
{
    struct epoll_event events[MOST];
    struct fs_loop *asleep;
    if (fs_seats_moved(&poller->seats)) show_all(poller);
    int count = fs_seats_sleep(&poller->seats, numbers, MOST, 0, &asleep);
    if (count == -ESTALE) show_all(poller);
    if (count > 0) return count;
    count = epoll_wait(poller->epoll, events, MOST, count == -EBUSY ? 0 : ms);
    int rung = 0;
    for (int i = 0; i < count; i++) rung |= events[i].data.fd == poller->seats.bell;
    fs_seats_awake(&poller->seats, asleep, rung);
    CHECK(count >= 0 || errno == EINTR);
    return count == 0 && ms != 0 ? -ETIMEDOUT : without_stale(poller, events, count, numbers);
}

/* The first number that has something. */
static int await(struct poller *poller)
{
    int numbers[MOST], count;
    while ((count = once(poller, numbers, (int)(STALL_NS / 1000000))) <= 0)
        if (count == -ETIMEDOUT) fail(__FILE__, __LINE__, "nobody told the poller");
    return numbers[0];
}

static int hears_nothing(struct poller *poller)
{
    int numbers[MOST];
    return once(poller, numbers, 0) == 0;
}

/* ---- what is so ---- */

static uint32_t listeners(const struct pair *pair, int side)
{
    return atomic_load(&pair->end[side]->record->listeners);
}

static int shows(int number)
{
    struct pollfd one = {number, POLLIN, 0};
    return poll(&one, 1, 0) > 0;
}

/* For who hears by the kernel alone. */
static void expect_shown(int number)
{
    struct pollfd one = {number, POLLIN, 0};
    if (poll(&one, 1, (int)(STALL_NS / 1000000)) != 1) fail(__FILE__, __LINE__, "the kernel never told");
}

static void say(struct pair *pair, int side) { CHECK_EQUAL(send_now(pair, side, "abc", 3, 0), 3); }

/* It sleeps, is told, and has it all. */
static void exchange(struct poller *poller, struct pair *pair)
{
    CHECK(hears_nothing(poller));
    say(pair, 1);
    CHECK_EQUAL(await(poller), pair->fd[0]);
    expect_bytes(pair, 0, "abc");
}

/* The number of side 0 has its bit, and the sender knows the loop: it sends no token any more. */
static void learn(struct poller *poller, struct pair *pair)
{
    int known = fs_ring_known();
    watch(poller, pair->fd[0], EPOLLIN);
    for (int i = 0; i < BEFORE_A_LOOP + 4; i++) exchange(poller, pair);
    CHECK(fs_seats_has_bit(&poller->seats, pair->fd[0]));
    CHECK(hears_nothing(poller));
    CHECK(fs_ring_known() > known);
    CHECK_EQUAL(listeners(pair, 0), 0);
}

/* Bytes of which a bit alone has told. */
static void leave_unread(struct poller *poller, struct pair *pairs, int count)
{
    CHECK(hears_nothing(poller));
    for (int i = 0; i < count; i++) {
        say(&pairs[i], 1);
        CHECK(!shows(pairs[i].fd[0]));
    }
}

static void close_both(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        if (pair->fd[side] >= 0) pair_close(pair, side);
    pair_done(pair);
}

/* ---- one poller ---- */

TEST(seat_gets_a_bit_when_the_kernel_has_told_of_it_often_enough, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    watch(&poller, pair.fd[0], EPOLLIN);
    CHECK_EQUAL(listeners(&pair, 0), 1);
    CHECK_EQUAL(fs_seats_flags(&poller.seats, pair.fd[0]), FS_COUNTED);
    exchange(&poller, &pair);
    CHECK_EQUAL(fs_seats_flags(&poller.seats, pair.fd[0]), FS_COUNTED);
    for (int i = 0; i < BEFORE_A_LOOP; i++) exchange(&poller, &pair);
    CHECK_EQUAL(fs_seats_flags(&poller.seats, pair.fd[0]), FS_BY_BIT);
    CHECK_EQUAL(listeners(&pair, 0), 0);
    for (int i = 0; i < 4; i++) exchange(&poller, &pair);
    uint64_t before = atomic_load(&fs_words_in(pair.end[0]->end)->tokens) >> FS_TOKEN_SHIFT;
    for (int i = 0; i < 20; i++) exchange(&poller, &pair);
    CHECK_EQUAL(atomic_load(&fs_words_in(pair.end[0]->end)->tokens) >> FS_TOKEN_SHIFT, before);
    ignore(&poller, pair.fd[0]);
    CHECK_EQUAL(fs_seats_flags(&poller.seats, pair.fd[0]), 0);
    CHECK_EQUAL(listeners(&pair, 0), 0);
    drop_poller(&poller);
    close_both(&pair);
}

TEST(seat_that_is_told_once_gives_up_its_bit_and_is_shown, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    int numbers[MOST];
    learn(&poller, &pair);
    for (int i = 0; i < 5; i++) {
        watch(&poller, pair.fd[0], EPOLLIN);
        if (i == 0) leave_unread(&poller, &pair, 1);
        else say(&pair, 1);
        watch(&poller, pair.fd[0], EPOLLIN | EPOLLONESHOT);
        CHECK_EQUAL(listeners(&pair, 0), 1);
        CHECK_EQUAL(await(&poller), pair.fd[0]);
        CHECK(!fs_seats_has_bit(&poller.seats, pair.fd[0]));
        CHECK_EQUAL(once(&poller, numbers, 0), 0); /* the kernel has told it */
        expect_bytes(&pair, 0, "abc");
        watch(&poller, pair.fd[0], EPOLLIN | EPOLLONESHOT);
        exchange(&poller, &pair);
    }
    CHECK_EQUAL(listeners(&pair, 0), 1);
    drop_poller(&poller);
    CHECK_EQUAL(listeners(&pair, 0), 0);
    close_both(&pair);
}

TEST(seat_that_comes_to_be_told_of_edges_is_shown, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    learn(&poller, &pair);
    leave_unread(&poller, &pair, 1);
    watch(&poller, pair.fd[0], EPOLLIN | EPOLLET);
    CHECK_EQUAL(fs_seats_flags(&poller.seats, pair.fd[0]), 0);
    CHECK_EQUAL(await(&poller), pair.fd[0]);
    expect_bytes(&pair, 0, "abc");
    CHECK(!shows(pair.fd[0]));
    exchange(&poller, &pair);
    drop_poller(&poller);
    close_both(&pair);
}

/* Of a poller that fastsock sees, by exact tokens. */
TEST(each_edge_is_told_to_a_program_that_has_not_read_since_memory_came, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    watch(&poller, pair.fd[0], EPOLLIN | EPOLLET);
    for (int i = 0; i < 8; i++) {
        CHECK_EQUAL(send_now(&pair, 1, "x", 1, 0), 1);
        CHECK_EQUAL(await(&poller), pair.fd[0]);
    }
    expect_bytes(&pair, 0, "xxxxxxxx");
    drop_poller(&poller);
    close_both(&pair);
}

TEST(seats_of_a_loop_that_ends_are_shown, 0)
{
    enum { MANY = 3 };
    struct pair pairs[MANY];
    for (int bell_closed = 0; bell_closed < 2; bell_closed++) {
        struct poller poller = make_poller();
        for (int i = 0; i < MANY; i++) {
            pairs[i] = pair_attached(4096);
            watch(&poller, pairs[i].fd[0], EPOLLIN);
        }
        for (int turn = 0; turn < BEFORE_A_LOOP + 4; turn++)
            for (int i = 0; i < MANY; i++) exchange(&poller, &pairs[i]);
        leave_unread(&poller, pairs, MANY);
        int bell = poller.seats.bell;
        if (bell_closed) {
            CHECK_EQUAL(close(bell), 0);
        } else {
            CHECK_EQUAL(epoll_ctl(poller.epoll, EPOLL_CTL_DEL, bell, NULL), 0);
            fs_seats_drop_loop(&poller.seats);
            show_all(&poller);
        }
        for (int i = 0; i < MANY; i++) {
            struct pair *first = NULL;
            int number = await(&poller);
            for (int k = 0; k < MANY; k++)
                if (pairs[k].fd[0] == number) first = &pairs[k];
            CHECK(first != NULL);
            expect_bytes(first, 0, "abc");
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_EQUAL(fs_seats_flags(&poller.seats, pairs[i].fd[0]), FS_COUNTED);
            CHECK_EQUAL(listeners(&pairs[i], 0), 1);
            exchange(&poller, &pairs[i]);
        }
        drop_poller(&poller);
        for (int i = 0; i < MANY; i++) close_both(&pairs[i]);
    }
}

TEST(loop_that_others_sleep_in_ends_when_they_wake, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    struct fs_loop *asleep;
    int numbers[MOST];
    learn(&poller, &pair);
    for (int ends = 0; ends < 2; ends++) {
        int descriptors = count_descriptors();
        CHECK_EQUAL(fs_seats_sleep(&poller.seats, numbers, MOST, 0, &asleep), 0);
        if (!ends) CHECK(asleep != NULL);
        if (ends) fs_seats_end(&poller.seats);
        else fs_seats_drop_loop(&poller.seats);
        if (!ends) CHECK_EQUAL(count_descriptors(), descriptors);
        fs_seats_awake(&poller.seats, asleep, 0);
        if (!ends) CHECK(count_descriptors() < descriptors);
        CHECK(poller.seats.dropped == NULL);
        CHECK_EQUAL(poller.seats.sleepers, 0);
    }
    close(poller.epoll);
    close_both(&pair);
}

/* ---- connections that come and go ---- */

TEST(number_of_a_closed_connection_serves_the_next_one, 0)
{
    struct poller poller = make_poller();
    struct pair first = pair_attached(4096), second = pair_attached(4096);
    learn(&poller, &first);
    for (int turn = 0; turn < 20; turn++) {
        int number = first.fd[0];
        pair_close(&first, 0); /* and nobody tells the poller */
        CHECK_EQUAL(fs_seats_flags(&poller.seats, number), 0);
        CHECK(hears_nothing(&poller));
        CHECK_EQUAL(fcntl(second.fd[0], F_DUPFD_CLOEXEC, number), number);
        CHECK_EQUAL(fs_table_duplicate(second.fd[0], number), 0);
        pair_close(&second, 0);
        second.fd[0] = number;
        say(&second, 1);
        watch(&poller, number, EPOLLIN);
        CHECK_EQUAL(await(&poller), number);
        expect_bytes(&second, 0, "abc");
        for (int i = 0; i < 4; i++) exchange(&poller, &second);
        CHECK(fs_seats_has_bit(&poller.seats, number));
        CHECK_EQUAL(listeners(&second, 0), 0);
        close_both(&first);
        first = second;
        second = pair_attached(4096);
    }
    drop_poller(&poller);
    close_both(&first);
    close_both(&second);
}

TEST(number_that_is_no_connection_any_more_leaves_its_seat, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    int ends[2];
    learn(&poller, &pair);
    int number = pair.fd[0];
    pair_close(&pair, 0);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    if (ends[0] != number) {
        CHECK_EQUAL(dup2(ends[0], number), number);
        close(ends[0]);
    }
    struct epoll_event event = {EPOLLIN, {.fd = number}};
    CHECK_EQUAL(epoll_ctl(poller.epoll, EPOLL_CTL_ADD, number, &event), 0);
    CHECK_EQUAL(fs_seats_take(&poller.seats, number, FS_HEARS_ANY), 0);
    CHECK_EQUAL(fs_seats_next(&poller.seats, 0), -1);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK_EQUAL(await(&poller), number);
    close(number), close(ends[1]);
    drop_poller(&poller);
    close_both(&pair);
}

/* ---- several who listen ---- */

TEST(second_poller_is_shown_what_the_first_ones_bit_has_told, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller first = make_poller(), second = make_poller();
    learn(&first, &pair);
    for (int turn = 0; turn < 20; turn++) {
        leave_unread(&first, &pair, 1);
        watch(&second, pair.fd[0], EPOLLIN);
        CHECK_EQUAL(listeners(&pair, 0), 1);
        CHECK_EQUAL(await(&second), pair.fd[0]);
        CHECK_EQUAL(await(&first), pair.fd[0]);
        expect_bytes(&pair, 0, "abc");
        for (int i = 0; i < BEFORE_A_LOOP + 2; i++) {
            say(&pair, 1);
            CHECK_EQUAL(await(i & 1 ? &first : &second), pair.fd[0]);
            CHECK_EQUAL(await(i & 1 ? &second : &first), pair.fd[0]);
            expect_bytes(&pair, 0, "abc");
            CHECK(hears_nothing(&first));
            CHECK(hears_nothing(&second));
        }
        CHECK_EQUAL(fs_seats_flags(&second.seats, pair.fd[0]), FS_COUNTED); /* one loop has the bit */
        ignore(&second, pair.fd[0]);
        CHECK_EQUAL(listeners(&pair, 0), 0);
        exchange(&first, &pair);
        exchange(&first, &pair);
    }
    drop_poller(&first);
    drop_poller(&second);
    close_both(&pair);
}

TEST(second_poller_gets_the_bit_that_the_first_one_leaves, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller[2] = {make_poller(), make_poller()};
    learn(&poller[0], &pair);
    for (int turn = 0; turn < 20; turn++) {
        struct poller *leaves = &poller[turn & 1], *comes = &poller[!(turn & 1)];
        leave_unread(leaves, &pair, 1);
        ignore(leaves, pair.fd[0]);
        watch(comes, pair.fd[0], EPOLLIN);
        CHECK_EQUAL(await(comes), pair.fd[0]);
        expect_bytes(&pair, 0, "abc");
        for (int i = 0; i < BEFORE_A_LOOP + 4; i++) exchange(comes, &pair);
        CHECK(fs_seats_has_bit(&comes->seats, pair.fd[0]));
        CHECK_EQUAL(listeners(&pair, 0), 0);
    }
    for (int i = 0; i < 2; i++) drop_poller(&poller[i]);
    close_both(&pair);
}

/* ---- forks ---- */

enum first_call { WAITS, TAKES, LEAVES, DROPS, ENDS, FIRST_CALLS };

/* Whatever the child calls first, all that it watches is shown to it. */
static void be_child(struct poller *poller, struct pair *pairs, enum first_call first)
{
    int number = pairs[0].fd[0];
    struct poller own = make_poller();
    switch (first) {
    case WAITS: break;
    case TAKES: watch(poller, number, EPOLLIN); break;
    case LEAVES:
        ignore(poller, number);
        watch(poller, number, EPOLLIN);
        break;
    case DROPS: fs_seats_drop_loop(&poller->seats); break;
    default:
        fs_seats_end(&poller->seats);
        watch(&own, number, EPOLLIN);
        watch(&own, pairs[1].fd[0], EPOLLIN);
    }
    int numbers[MOST];
    once(first == ENDS ? &own : poller, numbers, 0);
    for (int i = 0; i < 2; i++) expect_shown(pairs[i].fd[0]);
    for (int i = 0; i < 2; i++) expect_bytes(&pairs[i], 0, "abc");
    close(own.epoll);
}

TEST(forked_child_is_shown_what_its_parents_bit_has_told, NEEDS_PROCESSES)
{
    for (enum first_call first = 0; first < FIRST_CALLS; first++) {
        struct pair pairs[2] = {pair_attached(4096), pair_attached(4096)};
        struct poller poller = make_poller();
        for (int i = 0; i < 2; i++) watch(&poller, pairs[i].fd[0], EPOLLIN);
        for (int turn = 0; turn < BEFORE_A_LOOP + 4; turn++)
            for (int i = 0; i < 2; i++) exchange(&poller, &pairs[i]);
        leave_unread(&poller, pairs, 2);
        pid_t child = start_process();
        if (child == 0) {
            be_child(&poller, pairs, first);
            _exit(0);
        }
        join_process(child);
        for (int i = 0; i < 2; i++) {
            CHECK(hears_nothing(&poller));
            CHECK(fs_seats_has_bit(&poller.seats, pairs[i].fd[0]));
        }
        for (int i = 0; i < 2; i++) exchange(&poller, &pairs[i]);
        drop_poller(&poller);
        for (int i = 0; i < 2; i++) close_both(&pairs[i]);
    }
}

/* ---- who answers ---- */

TEST(end_that_is_released_leaves_a_token_for_what_a_bit_has_told, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    learn(&poller, &pair);
    leave_unread(&poller, &pair, 1);
    CHECK_EQUAL(fs_leave_release(pair.end[1], pair.fd[1]), 0);
    ignore(&poller, pair.fd[0]);
    fs_connection_watch(pair.end[0], pair.fd[0]);
    expect_shown(pair.fd[0]);
    expect_bytes(&pair, 0, "abc");
    CHECK(!shows(pair.fd[0]));
    CHECK_EQUAL(send(pair.fd[1], "abc", 3, 0), 3); /* other code */
    expect_bytes(&pair, 0, "abc");
    drop_poller(&poller);
    close_both(&pair);
}

/* The other end's thread finds its sender at work for longer than it waits. */
TEST(token_comes_when_the_sender_is_done, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    learn(&poller, &pair);
    leave_unread(&poller, &pair, 1);
    ignore(&poller, pair.fd[0]);
    fs_lock_word *sender = &pair.end[1]->record->sender;
    CHECK_EQUAL(fs_lock(sender, 0), 0);
    fs_connection_watch(pair.end[0], pair.fd[0]);
    exact_sleep_us(120000); /* the thread has had its turn */
    CHECK(!shows(pair.fd[0]));
    fs_unlock(sender);
    expect_shown(pair.fd[0]);
    expect_bytes(&pair, 0, "abc");
    drop_poller(&poller);
    close_both(&pair);
}

static void *hold_for_long(void *word)
{
    CHECK_EQUAL(fs_lock(word, 0), 0);
    exact_sleep_us(120000);
    fs_unlock(word);
    return NULL;
}

/* As while another thread copies a large block. */
TEST(whoever_comes_while_another_one_reads_for_long_hears, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    learn(&poller, &pair);
    leave_unread(&poller, &pair, 1);
    ignore(&poller, pair.fd[0]);
    fs_lock_word *receiver = &pair.end[0]->record->receiver;
    pthread_t reader = start_thread(hold_for_long, receiver);
    while (atomic_load(receiver) == 0) sched_yield();
    fs_connection_watch(pair.end[0], pair.fd[0]);
    expect_shown(pair.fd[0]);
    pthread_join(reader, NULL);
    expect_bytes(&pair, 0, "abc");
    drop_poller(&poller);
    close_both(&pair);
}

/* A process of the sending end, which says something for each byte that it is told, and then leaves. */
static void speak(struct pair *pair, int told)
{
    char byte;
    pair_close(pair, 0);
    while (read(told, &byte, 1) == 1) say(pair, 1);
    fs_leave_all();
    _exit(0);
}

TEST(process_that_leaves_to_a_silent_one_leaves_a_token, NEEDS_PROCESSES)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    int told[2];
    CHECK(pipe2(told, O_CLOEXEC) == 0);
    pid_t child = start_process();
    if (child == 0) {
        close(told[1]);
        speak(&pair, told[0]);
    }
    watch(&poller, pair.fd[0], EPOLLIN);
    for (int i = 0; i < BEFORE_A_LOOP + 4; i++) {
        CHECK(hears_nothing(&poller));
        CHECK(write(told[1], "", 1) == 1);
        CHECK_EQUAL(await(&poller), pair.fd[0]);
        expect_bytes(&pair, 0, "abc");
    }
    CHECK(fs_seats_has_bit(&poller.seats, pair.fd[0]));
    CHECK(hears_nothing(&poller));
    CHECK(write(told[1], "", 1) == 1);
    CHECK_EQUAL(await(&poller), pair.fd[0]);
    close(told[1]);
    join_process(child);
    ignore(&poller, pair.fd[0]);
    fs_connection_watch(pair.end[0], pair.fd[0]);
    expect_shown(pair.fd[0]);
    expect_bytes(&pair, 0, "abc");
    CHECK(!shows(pair.fd[0]));
    close(told[0]);
    drop_poller(&poller);
    close_both(&pair);
}

/* ---- stress ---- */

struct stream {
    struct pair *pair;
    int messages;
    _Atomic int sent, taken;
};

/* One message at a time, so that each must be heard of. */
static void *send_messages(void *argument)
{
    struct stream *stream = argument;
    for (int i = 0; i < stream->messages; i++) {
        say(stream->pair, 1);
        atomic_store(&stream->sent, i + 1);
        while (atomic_load(&stream->taken) <= i) sched_yield();
    }
    return NULL;
}

/* The loop, and whoever begins to hear by the kernel alone, at any moment of a send. */
static void hear(struct stream *stream, struct poller *loop, struct random *random)
{
    struct pair *pair = stream->pair;
    struct poller other = make_poller();
    int number = pair->fd[0], numbers[MOST];
    for (uint64_t i = random_below(random, 4); i > 0; i--) once(loop, numbers, 0);
    switch (random_below(random, 5)) {
    case 0: /* a second poller */
        watch(&other, number, EPOLLIN);
        CHECK_EQUAL(await(&other), number);
        break;
    case 1: /* an event once */
        watch(loop, number, EPOLLIN | EPOLLONESHOT);
        CHECK_EQUAL(await(loop), number);
        watch(loop, number, EPOLLIN);
        break;
    case 2: /* one whom nobody sees */
        fs_connection_watch(pair->end[0], number);
        expect_shown(number);
        fs_connection_unwatch(pair->end[0], number);
        break;
    case 3: /* to another poller, and back */
        ignore(loop, number);
        watch(&other, number, EPOLLIN);
        CHECK_EQUAL(await(&other), number);
        ignore(&other, number);
        watch(loop, number, EPOLLIN);
        break;
    default: CHECK_EQUAL(await(loop), number);
    }
    drop_poller(&other);
    expect_bytes(pair, 0, "abc");
}

TEST(whoever_begins_to_hear_by_the_kernel_alone_hears, 0)
{
    struct pair pair = pair_attached(4096);
    struct poller loop = make_poller();
    struct random random = random_from(7);
    struct stream stream = {&pair, scaled(20000), 0, 0};
    learn(&loop, &pair);
    pthread_t sender = start_thread(send_messages, &stream);
    for (int i = 0; i < stream.messages; i++) {
        hear(&stream, &loop, &random);
        atomic_store(&stream.taken, i + 1);
    }
    pthread_join(sender, NULL);
    CHECK(atomic_load(&pair.end[0]->record->listeners) <= 1);
    drop_poller(&loop);
    CHECK_EQUAL(listeners(&pair, 0), 0);
    close_both(&pair);
}

/* A child hears of a message that is said at any moment of its first calls. */
static void serve_once(struct poller *poller, struct pair *pair, enum first_call first)
{
    int number = pair->fd[0];
    if (first == LEAVES) ignore(poller, number);
    if (first != WAITS) watch(poller, number, EPOLLIN);
    CHECK_EQUAL(await(poller), number);
    expect_bytes(pair, 0, "abc");
    drop_poller(poller);
    fs_leave_all();
}

TEST(children_that_take_over_a_poller_hear, NEEDS_PROCESSES)
{
    struct pair pair = pair_attached(4096);
    struct poller poller = make_poller();
    struct random random = random_from(8);
    int told[2];
    CHECK(pipe2(told, O_CLOEXEC) == 0);
    pid_t speaker = start_process();
    if (speaker == 0) {
        close(told[1]);
        speak(&pair, told[0]);
    }
    watch(&poller, pair.fd[0], EPOLLIN);
    for (int i = scaled(3000); i > 0; i--) {
        if (random_below(&random, 2)) CHECK(hears_nothing(&poller));
        CHECK(write(told[1], "", 1) == 1);
        if (random_below(&random, 4)) {
            CHECK_EQUAL(await(&poller), pair.fd[0]);
            expect_bytes(&pair, 0, "abc");
            continue;
        }
        pid_t child = start_process();
        if (child == 0) {
            close(told[1]);
            serve_once(&poller, &pair, random_below(&random, LEAVES + 1));
            _exit(0);
        }
        join_process(child);
    }
    CHECK(fs_seats_has_bit(&poller.seats, pair.fd[0]));
    CHECK_EQUAL(listeners(&pair, 0), 0);
    close(told[0]), close(told[1]);
    join_process(speaker);
    drop_poller(&poller);
    close_both(&pair);
}
