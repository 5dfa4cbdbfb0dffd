/* From which call on connections look for memory, by how long the last ones of their listener lived. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "switch/candidates.h"
#include "switch/carry.h"
#include "switch/closed.h"
#include "switch/leave.h"
#include "switch/lives.h"
#include "switch/table.h"
#include "tcp.h"

static const struct fs_place here = {.port = 80}, there = {.port = 81};

static void live(enum fs_outcome outcome, uint64_t calls, uint64_t late, int times)
{
    const struct fs_life life = {outcome, calls, late};
    for (int i = 0; i < times; i++) fs_lives_learn(&here, &life);
}

static uint32_t threshold(void) { return fs_lives_threshold(&here, 1).calls; }

TEST(lives_that_nobody_knows_begin_in_the_middle, 0)
{
    fs_lives_clear();
    struct fs_threshold first = fs_lives_threshold(&here, 1);
    CHECK(first.calls == FS_LIVES_FIRST && first.lesson == FS_LESSON_NONE);
    CHECK_EQUAL(fs_lives_least(), FS_LIVES_FIRST);
}

TEST(lives_that_are_long_look_with_the_first_call, 0)
{
    fs_lives_clear();
    live(FS_LIFE_FAR, 1000, 0, 1);
    CHECK_EQUAL(threshold(), 1);
    CHECK_EQUAL(fs_lives_least(), 1);
    CHECK(fs_lives_threshold(&here, 1).lesson == FS_LESSON_LIVES);
    CHECK_EQUAL(fs_lives_threshold(&there, 1).calls, FS_LIVES_FIRST);
    live(FS_LIFE_UNTRIED, 3, 0, 4); /* short ones: the threshold goes beyond them */
    CHECK(threshold() >= 4);
    CHECK_EQUAL(fs_lives_least(), threshold() < FS_LIVES_FIRST ? threshold() : FS_LIVES_FIRST);
}

TEST(lives_that_end_soon_after_the_attach_are_not_attached_again, 0)
{
    fs_lives_clear();
    live(FS_LIFE_NEAR, 10, 0, 1);
    for (int i = 0; i < 200; i++) {
        CHECK(threshold() > 10);
        live(FS_LIFE_UNTRIED, 10, 0, 1);
    }
    live(FS_LIFE_NEAR, 100000, 0, 1);
    CHECK_EQUAL(threshold(), 16);       /* just beyond the short ones: a long one loses little there */
    live(FS_LIFE_NEAR, 100000, 0, 200); /* and a program may change */
    CHECK_EQUAL(threshold(), 1);
}

TEST(lives_on_one_core_must_be_longer, 0)
{
    fs_lives_clear();
    live(FS_LIFE_NEAR, 100, 0, 3);
    CHECK(threshold() > 100);
    fs_lives_clear();
    live(FS_LIFE_FAR, 100, 0, 3);
    CHECK_EQUAL(threshold(), 1);
}

/* One call that moves much: its carrier does not change in the middle. */
TEST(lives_whose_memory_comes_too_late_are_left_alone, 0)
{
    fs_lives_clear();
    live(FS_LIFE_FAR, 130, 125, 8);
    CHECK(threshold() > 130);
    fs_lives_clear();
    live(FS_LIFE_CUT_OFF, 130, 0, 8);
    CHECK(threshold() > 130);
}

TEST(lives_whose_other_end_never_comes_look_seldom, 0)
{
    int early = 0;
    fs_lives_clear();
    live(FS_LIFE_IN_VAIN, 50, 0, 1);
    for (uint16_t from = 0; from < 640; from += 2) {
        struct fs_threshold now = fs_lives_threshold(&here, from);
        CHECK(now.lesson == FS_LESSON_VAIN);
        CHECK(now.calls == FS_LIVES_FIRST || now.calls == FS_LIVES_LAST);
        CHECK_EQUAL(fs_lives_threshold(&here, from).calls, now.calls); /* the other end says the same */
        early += now.calls == FS_LIVES_FIRST;
    }
    CHECK_EQUAL(early, 20);
    live(FS_LIFE_UNTRIED, 5000, 0, 5);
    CHECK(fs_lives_threshold(&here, 1).lesson == FS_LESSON_VAIN);
    live(FS_LIFE_FAR, 5000, 0, 1); /* one came */
    CHECK_EQUAL(threshold(), 1);
}

TEST(lives_of_many_listeners_stay_bounded, 0)
{
    const struct fs_life life = {FS_LIFE_FAR, 1000, 0};
    fs_lives_clear();
    for (uint32_t i = 0; i < 100000; i++) {
        struct fs_place place = {.port = (uint16_t)i};
        memcpy(place.address, &i, sizeof i);
        fs_lives_learn(&place, &life);
        CHECK_EQUAL(fs_lives_threshold(&place, 1).calls, 1);
    }
    CHECK_EQUAL(fs_lives_least(), 1);
    fs_lives_clear();
    CHECK_EQUAL(fs_lives_least(), FS_LIVES_FIRST);
}

/* ---- of connections that live ---- */

struct ends {
    int fd[2]; /* 0 accepted */
    struct fs_connection *connection[2];
};

static void learn_from_now_on(void)
{
    const struct fs_candidate_settings settings = {.learns = 1, .ring_bytes = 4096, .limits = {20, 0, 0}};
    map_same_memory_once = 1;
    fs_lives_clear();
    fs_candidates_set(&settings);
}

static struct tcp listen_here(void)
{
    struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
    close(tcp_accept(&tcp)); /* the first one is not wanted */
    return tcp;
}

static struct ends connect_to(const struct tcp *tcp)
{
    struct ends ends;
    ends.fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(ends.fd[1], (const struct sockaddr *)&tcp->listening, sizeof(struct sockaddr_in)) == 0);
    ends.fd[0] = tcp_accept(tcp);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(fs_table_enter(ends.fd[i], i == 0 ? FS_ROLE_ACCEPTED : FS_ROLE_CONNECTED), 0);
        ends.connection[i] = fs_table_find(ends.fd[i]);
    }
    return ends;
}

static void one_way(struct ends *ends, int from)
{
    char byte = 'x';
    struct iovec one = {&byte, 1};
    struct fs_parts parts = fs_parts_of(&one, 1);
    CHECK_EQUAL(fs_carry_send(ends->connection[from], ends->fd[from], &parts, FS_NO_SIGNAL, 0), 1);
    ssize_t got;
    while ((got = fs_carry_receive(ends->connection[!from], ends->fd[!from], &byte, 1, 0, 0)) == -EAGAIN) continue;
    CHECK(got == 1 && byte == 'x');
}

static int is_attached(const struct ends *ends)
{
    return fs_record_state(ends->connection[0]->record) == FS_ATTACHED &&
           fs_record_state(ends->connection[1]->record) == FS_ATTACHED;
}

/* Whether it was attached in the end, and after how many round trips. */
static int live_for(const struct tcp *tcp, int trips, int *after)
{
    struct ends ends = connect_to(tcp);
    *after = 0;
    for (int i = 0; i < trips; i++) {
        one_way(&ends, 1);
        one_way(&ends, 0);
        if (!is_attached(&ends)) *after = i + 1;
    }
    int attached = is_attached(&ends);
    for (int i = 1; i >= 0; i--) {
        fs_closed_note(ends.fd[i]);
        fs_leave_descriptor(ends.fd[i]);
        close(ends.fd[i]);
    }
    return attached;
}

TEST(connections_that_live_for_few_calls_are_not_attached_in_vain, 0)
{
    struct tcp tcp = listen_here();
    int after, attached = 0;
    learn_from_now_on();
    for (int i = 0; i < 60; i++) attached += live_for(&tcp, 11, &after);
    CHECK(attached <= 1);
    CHECK(live_for(&tcp, 4000, &after) && after <= 40); /* one that lives on is, nevertheless */
    for (int i = 0; i < 200; i++) CHECK(live_for(&tcp, 2000, &after));
    CHECK(live_for(&tcp, 2000, &after) && after <= 4); /* where all do, from their first calls on */
    tcp_forget(&tcp);
}

TEST(connections_of_a_listener_say_where_their_threshold_comes_from, 0)
{
    struct tcp tcp = listen_here();
    int after;
    learn_from_now_on();
    CHECK(live_for(&tcp, 4000, &after));
    struct ends ends = connect_to(&tcp);
    CHECK_EQUAL(fs_candidate_threshold(ends.connection[1]).calls, 0);
    one_way(&ends, 1);
    for (int i = 0; i < 2; i++) {
        struct fs_threshold threshold = fs_candidate_threshold(ends.connection[i]);
        CHECK(threshold.calls == 1 && threshold.lesson == FS_LESSON_LIVES);
        fs_leave_descriptor(ends.fd[i]);
        close(ends.fd[i]);
    }
    tcp_forget(&tcp);
}

/* ---- those that were closed ---- */

TEST(closed_connections_are_kept_for_reports, 0)
{
    static struct fs_closed seen[FS_CLOSED_KEPT];
    struct tcp tcp = listen_here();
    int after;
    learn_from_now_on();
    fs_closed_keep(0);
    size_t before = fs_closed_list(seen);
    live_for(&tcp, 2, &after);
    CHECK_EQUAL(fs_closed_list(seen), before);
    fs_closed_keep(1);
    for (int i = 0; i < FS_CLOSED_KEPT + 10; i++) live_for(&tcp, 1, &after);
    fs_closed_keep(0);
    CHECK_EQUAL(fs_closed_list(seen), FS_CLOSED_KEPT);
    const struct fs_closed *last = &seen[FS_CLOSED_KEPT - 1];
    CHECK(last->role == FS_ROLE_ACCEPTED && last[-1].role == FS_ROLE_CONNECTED);
    CHECK(last->carriers.tcp_in == 1 && last->carriers.tcp_out == 1 && last->carriers.state == FS_CANDIDATE);
    CHECK_EQUAL(last->own.four.sin_port, ((struct sockaddr_in *)&tcp.listening)->sin_port);
    CHECK_EQUAL(last->other.four.sin_port, last[-1].own.four.sin_port);
    tcp_forget(&tcp);
}
