/* Two ends that find each other in their own calls, whatever they call, and whoever is between. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"
#include "pair.h"
#include "sockets/address.h"
#include "switch/candidates.h"
#include "switch/carry.h"
#include "switch/leave.h"
#include "switch/table.h"
#include "switch/waiting.h"
#include "tcp.h"

#define STRANGER 12345
#define MOST_AT_ONCE 16384
#define SOON_NS 10000000000ull /* what is right does not take so long */

struct side {
    int fd;
    struct fs_connection *connection;
    uint64_t sent, received; /* of the stream of this side, and of the other one */
};

struct ends {
    struct side side[2]; /* 0 accepted, 1 connected */
};

static void use(uint32_t calls, uint64_t bytes)
{
    const struct fs_candidate_settings settings = {
        .calls = calls, .bytes = bytes, .ring_bytes = 4096, .limits = {20, 0, 0}};
    map_same_memory_once = 1;
    fs_candidates_set(&settings);
}

static void enter(struct side *side, int fd, enum fs_role role)
{
    CHECK_EQUAL(fs_table_enter(fd, role), 0);
    *side = (struct side){fd, fs_table_find(fd), 0, 0};
}

static struct ends make_with(int family, const char *ip, enum fs_role accepted, enum fs_role connected)
{
    struct tcp tcp = tcp_connect(family, ip);
    struct ends ends;
    enter(&ends.side[0], tcp_accept(&tcp), accepted);
    enter(&ends.side[1], tcp.client, connected);
    close(tcp.listener);
    return ends;
}

/* What later connections find made already: the pipe that wakes sleepers, the stream that looks, and the socket of the
 * thread that answers. */
static int descriptors_at_first(void)
{
    struct pair pair = pair_attached(4096);
    CHECK_EQUAL(send_now(&pair, 0, "x", 1, 0), 1);
    expect_bytes(&pair, 1, "x");
    for (int side = 0; side < 2; side++) pair_close(&pair, side);
    pair_done(&pair);
    struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
    struct fs_descriptor stream = FS_DESCRIPTOR_NONE;
    struct fs_tuple tuple;
    pid_t process;
    CHECK_EQUAL(fs_tuple_of(tcp.client, &tuple), 0);
    CHECK_EQUAL(fs_name_find(&stream, FS_NAME_OFFERS, &tuple, 0, FS_PEERS_OWN, &process), -ECONNREFUSED);
    fs_wake_leaving();
    fs_wake_leaving_done();
    tcp_forget(&tcp);
    return count_descriptors();
}

static struct ends make(void) { return make_with(AF_INET, "127.0.0.1", FS_ROLE_ACCEPTED, FS_ROLE_CONNECTED); }

static void leave(struct side *side)
{
    if (side->fd < 0) return;
    fs_leave_descriptor(side->fd);
    close(side->fd);
    side->fd = -1;
}

static void forget(struct ends *ends)
{
    for (int i = 0; i < 2; i++) leave(&ends->side[i]);
}

static ssize_t try_send(struct side *side, uint64_t stream, size_t length)
{
    unsigned char block[MOST_AT_ONCE];
    if (length > sizeof block) length = sizeof block;
    stream_fill(stream, side->sent, block, length);
    struct iovec one = {block, length};
    struct fs_parts parts = fs_parts_of(&one, 1);
    ssize_t sent = fs_carry_send(side->connection, side->fd, &parts, FS_NO_SIGNAL, MSG_DONTWAIT);
    if (sent > 0) side->sent += (uint64_t)sent;
    return sent;
}

static int sleeps; /* a receive does, in the kernel */

static ssize_t try_receive(struct side *side, uint64_t stream, size_t length)
{
    unsigned char block[MOST_AT_ONCE];
    if (length > sizeof block) length = sizeof block;
    ssize_t got = fs_carry_receive(side->connection, side->fd, block, length, sleeps ? FS_MAY_SLEEP : 0,
                                   sleeps ? 0 : MSG_DONTWAIT);
    if (got > 0) {
        stream_check(stream, side->received, block, (size_t)got);
        side->received += (uint64_t)got;
    }
    return got;
}

static void wait_until(struct side *side, int what)
{
    static const _Atomic int never;
    uint64_t deadline = fs_now_ns() + SOON_NS;
    int error = fs_carry_wait_briefly(side->connection, side->fd, what, deadline, &never);
    if (error == FS_IN_VAIN) error = fs_carry_wait_long(side->connection, side->fd, what, deadline, &never);
    CHECK_EQUAL(error, 0);
}

static ssize_t send_all(struct side *side, uint64_t stream, size_t length)
{
    uint64_t until = side->sent + length;
    while (side->sent < until) {
        ssize_t sent = try_send(side, stream, (size_t)(until - side->sent));
        if (sent == -EAGAIN) wait_until(side, FS_WRITABLE);
        else if (sent < 0) return sent;
    }
    return (ssize_t)length;
}

static ssize_t receive_all(struct side *side, uint64_t stream, size_t length)
{
    uint64_t until = side->received + length;
    while (side->received < until) {
        ssize_t got = try_receive(side, stream, (size_t)(until - side->received));
        if (got == -EAGAIN) wait_until(side, FS_READABLE);
        else if (got <= 0) return got;
    }
    return (ssize_t)length;
}

static void one_way(struct ends *ends, int from, size_t length)
{
    CHECK_EQUAL(send_all(&ends->side[from], (uint64_t)from, length), (ssize_t)length);
    CHECK_EQUAL(receive_all(&ends->side[!from], (uint64_t)from, length), (ssize_t)length);
}

static void there_and_back(struct ends *ends)
{
    one_way(ends, 1, 10);
    one_way(ends, 0, 10);
}

static enum fs_why why(const struct side *side) { return fs_candidate_why(side->connection); }
static int is_attached(const struct side *side) { return fs_record_state(side->connection->record) == FS_ATTACHED; }
static int are_attached(const struct ends *ends) { return is_attached(&ends->side[0]) && is_attached(&ends->side[1]); }

/* How many round trips it took. */
static int talk_until_attached(struct ends *ends, int most)
{
    int trips = 0;
    while (!are_attached(ends) && trips < most) there_and_back(ends), trips++;
    CHECK(are_attached(ends));
    CHECK(why(&ends->side[0]) == FS_WHY_ATTACHED && why(&ends->side[1]) == FS_WHY_ATTACHED);
    for (int i = 0; i < 10; i++) there_and_back(ends);
    return trips;
}

static int descriptors_of(struct ends *ends)
{
    return count_descriptors() - (ends->side[0].fd >= 0) - (ends->side[1].fd >= 0);
}

static void run(int family, const char *ip, enum fs_role accepted, enum fs_role connected)
{
    int before = descriptors_at_first();
    use(8, UINT64_MAX);
    struct ends ends = make_with(family, ip, accepted, connected);
    for (int i = 0; i < 7; i++) {
        there_and_back(&ends);
        CHECK(why(&ends.side[0]) == FS_WHY_YOUNG && why(&ends.side[1]) == FS_WHY_YOUNG);
    }
    int trips = talk_until_attached(&ends, 20);
    CHECK(trips <= 8);
    CHECK(descriptors_of(&ends) <= before);
    forget(&ends);
    CHECK(count_descriptors() <= before); /* the stream that looks again */
}

TEST(candidates_attach_over_ipv4, 0) { run(AF_INET, "127.0.0.1", FS_ROLE_ACCEPTED, FS_ROLE_CONNECTED); }
TEST(candidates_attach_over_ipv6, 0) { run(AF_INET6, "::1", FS_ROLE_ACCEPTED, FS_ROLE_CONNECTED); }
TEST(candidates_attach_over_ipv4_mapped_into_ipv6, 0)
{
    run(AF_INET6, "::ffff:127.0.0.1", FS_ROLE_ACCEPTED, FS_ROLE_CONNECTED);
}
TEST(candidates_attach_through_a_listener_at_every_address, 0)
{
    run(AF_INET, "0.0.0.0", FS_ROLE_ACCEPTED, FS_ROLE_CONNECTED);
}
TEST(candidates_attach_where_no_end_knows_who_connected, 0)
{
    run(AF_INET, "127.0.0.1", FS_ROLE_UNKNOWN, FS_ROLE_UNKNOWN);
    run(AF_INET6, "::1", FS_ROLE_UNKNOWN, FS_ROLE_UNKNOWN);
}
TEST(candidates_attach_where_one_end_knows_who_connected, 0)
{
    run(AF_INET, "127.0.0.1", FS_ROLE_UNKNOWN, FS_ROLE_CONNECTED);
    run(AF_INET, "127.0.0.1", FS_ROLE_ACCEPTED, FS_ROLE_UNKNOWN);
}

TEST(candidates_attach_at_the_first_call, 0)
{
    use(0, 0);
    for (int i = 0; i < scaled(50); i++) {
        struct ends ends = make();
        CHECK(talk_until_attached(&ends, 8) <= 4);
        forget(&ends);
    }
}

TEST(candidates_attach_after_so_many_bytes, 0)
{
    use(UINT32_MAX - 1, 64 * 1024);
    struct ends ends = make();
    for (int i = 0; i < 6; i++) one_way(&ends, 1, 10000);
    CHECK(why(&ends.side[0]) == FS_WHY_YOUNG && why(&ends.side[1]) == FS_WHY_YOUNG);
    for (int i = 0; i < 4; i++) one_way(&ends, 1, 10000);
    talk_until_attached(&ends, 10);
    forget(&ends);
}

TEST(candidates_never_attach_where_the_setting_says_so, 0)
{
    const struct fs_candidate_settings settings = {.never = 1, .calls = 0, .bytes = 0, .ring_bytes = 4096};
    fs_candidates_set(&settings);
    struct ends ends = make();
    int before = descriptors_at_first();
    for (int i = 0; i < 100; i++) there_and_back(&ends);
    CHECK(why(&ends.side[0]) == FS_WHY_YOUNG && !is_attached(&ends.side[0]));
    CHECK_EQUAL(count_descriptors(), before);
    forget(&ends);
}

/* However many calls one end makes for each of the other, and whatever the number at which an end looks first. */
TEST(candidates_attach_at_any_ratio_of_calls, 0)
{
    static const size_t shares[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96};
    const size_t count = sizeof shares / sizeof *shares, length = 96;
    for (size_t i = 0; i < count * count * 2; i++) {
        size_t sends = shares[i / 2 % count], receives = shares[i / 2 / count], from = i % 2;
        use(i % 3 == 0 ? 8 : i % 3 == 1 ? 11 : 15, UINT64_MAX);
        struct ends ends = make();
        for (int turn = 0; turn < 4000 && !are_attached(&ends); turn++) {
            for (size_t k = 0; k < sends; k++) send_all(&ends.side[from], (uint64_t)from, length / sends);
            for (size_t k = 0; k < receives; k++) receive_all(&ends.side[!from], (uint64_t)from, length / receives);
        }
        if (!are_attached(&ends))
            fail(__FILE__, __LINE__, "%zu: %zu sends, %zu receives: %d, %d", from, sends, receives, why(&ends.side[0]),
                 why(&ends.side[1]));
        forget(&ends);
    }
}

/* Calls on a socket that is not connected yet are in vain, and prove nothing. */
TEST(candidates_attach_that_were_used_while_they_connected, 0)
{
    struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
    struct ends ends;
    use(0, 0);
    CHECK(listen(tcp.listener, 0) == 0); /* it is full: the next connection waits */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&tcp.listening, sizeof tcp.listening) < 0 && errno == EINPROGRESS);
    enter(&ends.side[1], fd, FS_ROLE_CONNECTED);
    for (int i = 0; i < 3; i++) CHECK_EQUAL(try_send(&ends.side[1], 1, 10), -EAGAIN);
    CHECK_EQUAL(why(&ends.side[1]), FS_WHY_BUSY);
    close(tcp_accept(&tcp));
    enter(&ends.side[0], tcp_accept(&tcp), FS_ROLE_ACCEPTED);
    wait_until(&ends.side[1], FS_WRITABLE);
    talk_until_attached(&ends, 20);
    forget(&ends);
    tcp_forget(&tcp);
}

/* ---- those that are not attached ---- */

TEST(candidates_whose_other_end_is_not_there_give_up, 0)
{
    use(8, UINT64_MAX);
    for (int plain = 0; plain < 2; plain++) {
        struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
        int fd[2] = {tcp_accept(&tcp), tcp.client}, most = 0, looks = 0;
        struct side side;
        int before = descriptors_at_first();
        enter(&side, fd[!plain], plain ? FS_ROLE_ACCEPTED : FS_ROLE_CONNECTED);
        uint32_t next = 0;
        for (int i = 0; i < 40000; i++) {
            char byte;
            CHECK_EQUAL(try_send(&side, 1, 1), 1);
            CHECK(recv(fd[plain], &byte, 1, 0) == 1);
            int more = i % 64 == 0 || i < 64 ? count_descriptors() - before : 0;
            if (more > most) most = more;
            looks += side.connection->record->next_try != next;
            next = side.connection->record->next_try;
        }
        CHECK_EQUAL(why(&side), FS_WHY_NOBODY);
        CHECK(plain || looks <= 80); /* each costs as much as a small message */
        CHECK_EQUAL(side.connection->record->next_try, UINT32_MAX);
        CHECK(count_descriptors() <= before);
        CHECK(most <= 2);
        leave(&side);
        close(fd[plain]);
        close(tcp.listener);
    }
}

TEST(candidates_that_are_connected_to_themselves_stay, 0)
{
    struct sockaddr_storage place;
    socklen_t size = sizeof(struct sockaddr_in);
    int own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    use(0, 0);
    CHECK_EQUAL(fs_put_address(&place, AF_INET, "127.0.0.1", 0), 0);
    CHECK(bind(own, (struct sockaddr *)&place, size) == 0);
    CHECK(getsockname(own, (struct sockaddr *)&place, &size) == 0);
    CHECK(connect(own, (struct sockaddr *)&place, size) == 0);
    struct side side;
    enter(&side, own, FS_ROLE_CONNECTED);
    for (int i = 0; i < 30; i++) {
        CHECK_EQUAL(try_send(&side, 1, 10), 10);
        CHECK_EQUAL(receive_all(&side, 1, 10), 10);
    }
    CHECK_EQUAL(why(&side), FS_WHY_ITSELF);
    leave(&side);
}

/* Other code sends, or receives, before the ends look. */
TEST(candidates_that_other_code_has_used_stay, 0)
{
    use(8, UINT64_MAX);
    for (int way = 0; way < 2; way++) {
        struct ends ends = make();
        char byte;
        if (way == 0) {
            CHECK(send(ends.side[1].fd, "x", 1, 0) == 1);
            CHECK_EQUAL(fs_carry_receive(ends.side[0].connection, ends.side[0].fd, &byte, 1, 0, 0), 1);
        } else {
            struct iovec one = {"x", 1};
            struct fs_parts parts = fs_parts_of(&one, 1);
            CHECK_EQUAL(fs_carry_send(ends.side[1].connection, ends.side[1].fd, &parts, 0, 0), 1);
            CHECK(recv(ends.side[0].fd, &byte, 1, 0) == 1);
        }
        for (int i = 0; i < 100; i++) there_and_back(&ends);
        CHECK_EQUAL(why(&ends.side[!way]), FS_WHY_FOREIGN);
        CHECK(!is_attached(&ends.side[0]) && !is_attached(&ends.side[1]));
        forget(&ends);
    }
}

TEST(candidates_that_are_watched_stay, 0)
{
    use(8, UINT64_MAX);
    struct ends ends = make();
    fs_connection_watch(ends.side[0].connection, ends.side[0].fd);
    for (int i = 0; i < 100; i++) there_and_back(&ends);
    CHECK_EQUAL(why(&ends.side[0]), FS_WHY_WATCHED);
    CHECK(!is_attached(&ends.side[0]) && !is_attached(&ends.side[1]));
    forget(&ends);
}

TEST(candidates_with_a_direction_shut_stay, 0)
{
    use(8, UINT64_MAX);
    struct ends ends = make();
    CHECK_EQUAL(fs_leave_shutdown(ends.side[0].connection, ends.side[0].fd, SHUT_WR), 0);
    for (int i = 0; i < 100; i++) one_way(&ends, 1, 10);
    CHECK_EQUAL(why(&ends.side[0]), FS_WHY_ENDED);
    CHECK(!is_attached(&ends.side[1]));
    forget(&ends);
}

TEST(candidates_that_two_processes_hold_wait, NEEDS_PROCESSES)
{
    use(8, UINT64_MAX);
    struct ends ends = make();
    int told[2];
    CHECK(pipe(told) == 0);
    pid_t child = start_process();
    if (child == 0) {
        char byte;
        close(told[1]);
        CHECK(read(told[0], &byte, 1) == 0);
        _exit(0); /* without a close */
    }
    for (int i = 0; i < 50; i++) there_and_back(&ends);
    CHECK_EQUAL(why(&ends.side[0]), FS_WHY_SHARED);
    CHECK_EQUAL(why(&ends.side[1]), FS_WHY_SHARED);
    close(told[0]), close(told[1]);
    join_process(child);
    talk_until_attached(&ends, 400);
    forget(&ends);
}

/* A stranger has bound the connection's name, or comes to it. */
static struct sockaddr_un name_of(struct ends *ends, socklen_t *size)
{
    struct sockaddr_un name;
    struct fs_descriptor listener;
    struct fs_tuple tuple;
    *size = sizeof name;
    CHECK_EQUAL(fs_tuple_of(ends->side[0].fd, &tuple), 0);
    CHECK_EQUAL(fs_name_listen(&listener, FS_NAME_OFFERS, &tuple, 1), 0);
    CHECK(getsockname(listener.number, (struct sockaddr *)&name, size) == 0);
    fs_descriptor_close(&listener);
    return name;
}

TEST(candidates_whose_name_a_stranger_has_stay, NEEDS_PROCESSES)
{
    if (!may_change_user()) return;
    use(8, UINT64_MAX);
    struct ends ends = make();
    socklen_t size;
    struct sockaddr_un name = name_of(&ends, &size);
    int ready[2], told[2];
    char byte;
    CHECK(pipe(ready) == 0 && pipe(told) == 0);
    pid_t stranger = start_process();
    if (stranger == 0) {
        fs_leave_all();
        close(told[1]);
        CHECK(setresuid(STRANGER, STRANGER, STRANGER) == 0);
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(bind(listener, (struct sockaddr *)&name, size) == 0 && listen(listener, 10) == 0);
        CHECK(write(ready[1], "", 1) == 1 && read(told[0], &byte, 1) == 0);
        int came;
        while ((came = accept(listener, NULL, NULL)) >= 0) CHECK(read(came, &byte, 1) == 0); /* nothing was passed */
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    for (int i = 0; i < 60; i++) there_and_back(&ends);
    CHECK_EQUAL(why(&ends.side[0]), FS_WHY_TAKEN);
    CHECK_EQUAL(why(&ends.side[1]), FS_WHY_OTHER_USER);
    close(told[0]), close(told[1]), close(ready[0]), close(ready[1]);
    join_process(stranger);
    talk_until_attached(&ends, 4000);
    forget(&ends);
}

TEST(candidates_send_strangers_away_and_attach, NEEDS_PROCESSES)
{
    if (!may_change_user()) return;
    use(8, UINT64_MAX);
    struct ends ends = make();
    socklen_t size;
    struct sockaddr_un name = name_of(&ends, &size);
    for (int i = 0; i < 8; i++) one_way(&ends, 0, 10); /* only the accepting end has called as often */
    CHECK_EQUAL(why(&ends.side[0]), FS_WHY_LISTENING);
    pid_t stranger = start_process();
    if (stranger == 0) {
        fs_leave_all();
        CHECK(setresuid(STRANGER, STRANGER, STRANGER) == 0);
        int own = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(own, (struct sockaddr *)&name, size) == 0 && send(own, "me", 2, 0) == 2);
        _exit(0);
    }
    join_process(stranger);
    one_way(&ends, 1, 10);
    for (int i = 0; i < 20 && why(&ends.side[0]) == FS_WHY_LISTENING; i++) one_way(&ends, 0, 10);
    CHECK(why(&ends.side[0]) == FS_WHY_OTHER_USER || why(&ends.side[0]) == FS_WHY_ATTACHED);
    talk_until_attached(&ends, 400);
    forget(&ends);
}

/* ---- offers that come to nothing ---- */

static void take_back(int sends)
{
    use(8, UINT64_MAX);
    int before = descriptors_at_first();
    struct ends ends = make();
    struct fs_descriptor listener;
    struct fs_tuple tuple;
    CHECK_EQUAL(fs_tuple_of(ends.side[0].fd, &tuple), 0);
    CHECK_EQUAL(fs_name_listen(&listener, FS_NAME_OFFERS, &tuple, 1), 0);
    atomic_store(&ends.side[0].connection->record->next_try, UINT32_MAX);
    for (int i = 0; i < 10; i++) one_way(&ends, sends, 10);
    CHECK_EQUAL(why(&ends.side[1]), FS_WHY_OFFERED);
    CHECK(descriptors_of(&ends) <= before + 1); /* the name; what was sent is closed */
    for (int i = 0; i < 100 && why(&ends.side[1]) == FS_WHY_OFFERED; i++) one_way(&ends, sends, 10);
    CHECK_EQUAL(why(&ends.side[1]), FS_WHY_UNANSWERED);
    fs_descriptor_close(&listener);
    atomic_store(&ends.side[0].connection->record->next_try, 0);
    for (int i = 0; i < 300; i++) one_way(&ends, sends, 10);
    talk_until_attached(&ends, 3000);
    forget(&ends);
}

TEST(candidates_take_back_an_offer_that_nobody_takes, 0) { take_back(1); }
TEST(candidates_that_only_receive_take_back_an_offer, 0) { take_back(0); }

TEST(candidates_that_close_in_between_leave_nothing, 0)
{
    use(8, UINT64_MAX);
    for (int first = 0; first < 2; first++)
        for (int calls = 7; calls < 13; calls++) {
            int before = descriptors_at_first();
            struct ends ends = make();
            for (int i = 0; i < calls; i++) one_way(&ends, i & 1, 10);
            for (int i = 0; i < calls; i++) one_way(&ends, first, 10);
            leave(&ends.side[first]);
            char byte;
            ssize_t got = fs_carry_receive(ends.side[!first].connection, ends.side[!first].fd, &byte, 1, 0, 0);
            CHECK(got == 0 || got == -EAGAIN || got == -ECONNRESET);
            leave(&ends.side[!first]);
            CHECK(count_descriptors() <= before);
        }
}

/* ---- many, threads, and those that die ---- */

TEST(candidates_by_the_hundred, 0)
{
    enum { MANY = 200 };
    static struct ends ends[MANY];
    int before = descriptors_at_first(), left = MANY;
    struct rlimit numbers;
    CHECK(getrlimit(RLIMIT_NOFILE, &numbers) == 0);
    if (numbers.rlim_max < MANY * 4) return;
    numbers.rlim_cur = MANY * 4;
    CHECK(setrlimit(RLIMIT_NOFILE, &numbers) == 0);
    use(8, UINT64_MAX);
    for (int i = 0; i < MANY; i++) ends[i] = make();
    for (int round = 0; round < 2000 && left > 0; round++) {
        left = 0;
        for (int i = 0; i < MANY; i++) {
            there_and_back(&ends[i]);
            left += !are_attached(&ends[i]);
        }
        CHECK(count_descriptors() <= before + 2 * MANY + MANY * 4 / 8 + 2);
    }
    CHECK_EQUAL(left, 0);
    for (int i = 0; i < MANY; i++) forget(&ends[i]);
    CHECK(count_descriptors() <= before);
}

TEST(candidates_wait_for_their_turn_where_names_are_few, 0)
{
    struct rlimit before, few;
    struct ends ends[6];
    use(8, UINT64_MAX);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = 48; /* 6 of them names */
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int i = 0; i < 6; i++) ends[i] = make();
    struct rlimit fewer = before;
    fewer.rlim_cur = 30; /* numbers beyond it stay open */
    CHECK(setrlimit(RLIMIT_NOFILE, &fewer) == 0);
    for (int k = 0; k < 9; k++)
        for (int i = 0; i < 6; i++)
            CHECK_EQUAL(send_all(&ends[i].side[0], 0, 10), 10); /* the other end has not called */
    int listening = 0, many = 0;
    for (int i = 0; i < 6; i++) {
        listening += why(&ends[i].side[0]) == FS_WHY_LISTENING;
        many += why(&ends[i].side[0]) == FS_WHY_MANY;
    }
    CHECK_EQUAL(listening, 4);
    CHECK_EQUAL(many, 2);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    for (int i = 0; i < 6; i++) {
        CHECK_EQUAL(receive_all(&ends[i].side[1], 0, 90), 90);
        talk_until_attached(&ends[i], 200);
    }
    for (int i = 0; i < 6; i++) forget(&ends[i]);
}

struct flow_of {
    struct side *side;
    uint64_t stream, total;
    int sends;
    ssize_t ended;
};

static void *flow(void *argument)
{
    struct flow_of *flow = argument;
    struct random random = random_from(flow->stream * 2 + (uint64_t)flow->sends);
    ssize_t moved = 1;
    for (uint64_t done = 0; done < flow->total && moved > 0; done += moved > 0 ? (uint64_t)moved : 0) {
        size_t length = random_size(&random, 3000);
        if (length > flow->total - done) length = (size_t)(flow->total - done);
        moved =
            flow->sends ? send_all(flow->side, flow->stream, length) : receive_all(flow->side, flow->stream, length);
    }
    flow->ended = moved;
    return NULL;
}

static void flow_both_ways(struct ends *ends, uint64_t total)
{
    struct flow_of flows[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        int sends = i & 1, from = i >> 1;
        flows[i] = (struct flow_of){&ends->side[sends ? from : !from], (uint64_t)from, total, sends, 0};
        threads[i] = start_thread(flow, &flows[i]);
    }
    for (int i = 0; i < 4; i++) join_thread(threads[i]);
    for (int i = 0; i < 4; i++) CHECK(flows[i].ended > 0);
}

/* A thread for each direction of each end: attaches come while others are at work. */
static void attach_under_threads(int sleeping)
{
    int attached = 0, runs = scaled(60);
    sleeps = sleeping;
    for (int i = 0; i < runs; i++) {
        use((uint32_t)(i % 12), UINT64_MAX);
        struct ends ends = make();
        for (int k = 0; k < 20 && !are_attached(&ends); k++) flow_both_ways(&ends, 100000);
        attached += are_attached(&ends);
        flow_both_ways(&ends, 100000);
        forget(&ends);
    }
    CHECK(attached >= runs / 2);
}

TEST(candidates_attach_while_threads_send_and_receive, 0) { attach_under_threads(0); }
TEST(candidates_attach_while_threads_sleep_in_the_kernel, 0) { attach_under_threads(1); }

static void *call_again_and_again(void *argument)
{
    struct flow_of *flow = argument;
    for (;;) {
        char byte = 0;
        struct iovec one = {&byte, 1};
        struct fs_parts parts = fs_parts_of(&one, 1);
        ssize_t moved = flow->sends
                            ? fs_carry_send(flow->side->connection, flow->side->fd, &parts, FS_NO_SIGNAL, MSG_DONTWAIT)
                            : fs_carry_receive(flow->side->connection, flow->side->fd, &byte, 1, 0, MSG_DONTWAIT);
        if (moved == 0 || (moved < 0 && moved != -EAGAIN)) return NULL;
    }
}

/* An end is closed under threads that are perhaps in a step of it. */
TEST(candidates_closed_under_threads, 0)
{
    struct random random = random_from(7);
    int before = descriptors_at_first();
    for (int i = 0; i < scaled(300); i++) {
        use(0, 0);
        struct ends ends = make();
        struct flow_of flows[4];
        pthread_t threads[4];
        for (int k = 0; k < 4; k++) {
            flows[k] = (struct flow_of){&ends.side[k >> 1], 0, 0, k & 1, 0};
            threads[k] = start_thread(call_again_and_again, &flows[k]);
        }
        exact_sleep_us(random_below(&random, 400));
        for (int k = 0; k < 2; k++) {
            fs_leave_descriptor(ends.side[k].fd);
            shutdown(ends.side[k].fd, SHUT_RDWR);
        }
        for (int k = 0; k < 4; k++) join_thread(threads[k]);
        for (int k = 0; k < 2; k++) close(ends.side[k].fd);
    }
    CHECK(count_descriptors() <= before);
}

/* Two processes, one of which is killed at any moment.  What the other one reads is right, and ends. */
TEST(candidates_of_a_process_that_dies, NEEDS_PROCESSES)
{
    struct random random = random_from(8);
    use(0, 0);
    int before = descriptors_at_first();
    for (int i = 0; i < scaled(200); i++) {
        struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
        int fd[2] = {tcp_accept(&tcp), tcp.client}, mine = (int)random_below(&random, 2), status;
        struct side side;
        pid_t child = start_process();
        if (child == 0) {
            close(fd[mine]);
            enter(&side, fd[!mine], mine ? FS_ROLE_ACCEPTED : FS_ROLE_CONNECTED);
            while (send_all(&side, 1, 10) > 0 && receive_all(&side, 2, 10) > 0) {}
            _exit(1);
        }
        close(fd[!mine]);
        enter(&side, fd[mine], mine ? FS_ROLE_CONNECTED : FS_ROLE_ACCEPTED);
        uint64_t death = fs_now_ns() + random_below(&random, 3000000);
        int dead = 0;
        for (;;) {
            if (!dead && fs_now_ns() >= death) {
                kill(child, SIGKILL);
                dead = 1;
            }
            ssize_t moved = receive_all(&side, 1, 10);
            if (moved > 0) moved = send_all(&side, 2, 10);
            if (moved > 0) continue;
            CHECK(moved == 0 || moved == -ECONNRESET || moved == -EPIPE);
            break;
        }
        CHECK(dead);
        CHECK(waitpid(child, &status, 0) == child);
        leave(&side);
        close(tcp.listener);
    }
    CHECK(count_descriptors() <= before);
}

/* ---- those who wait ---- */

struct attach {
    struct side *side;
    uint64_t within_ns;
    uint64_t delay_us;
    int result;
};

static void *attach_now(void *argument)
{
    struct attach *attach = argument;
    exact_sleep_us(attach->delay_us);
    attach->result = fs_candidate_attach(attach->side->connection, attach->side->fd, fs_now_ns() + attach->within_ns);
    return NULL;
}

static void attach_both(struct ends *ends, uint64_t delay_us[2], uint64_t within_ns, int result[2])
{
    struct attach attaches[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        attaches[i] = (struct attach){&ends->side[i], within_ns, delay_us[i], 0};
        threads[i] = start_thread(attach_now, &attaches[i]);
    }
    for (int i = 0; i < 2; i++) join_thread(threads[i]), result[i] = attaches[i].result;
}

TEST(attach_by_both_ends_whoever_comes_first, 0)
{
    struct random random = random_from(9);
    int before = descriptors_at_first();
    use(UINT32_MAX - 1, UINT64_MAX);
    for (int i = 0; i < scaled(300); i++) {
        struct ends ends = make();
        uint64_t delay_us[2] = {random_below(&random, 600), random_below(&random, 600)};
        int result[2];
        if (i % 3 == 1) there_and_back(&ends);
        if (i % 3 == 2) CHECK_EQUAL(send_all(&ends.side[1], 1, 100), 100); /* on its way meanwhile */
        attach_both(&ends, delay_us, SOON_NS, result);
        CHECK(result[0] == 0 && result[1] == 0);
        if (i % 3 == 2) CHECK_EQUAL(receive_all(&ends.side[0], 1, 100), 100);
        CHECK(talk_until_attached(&ends, 2) == 0);
        CHECK_EQUAL(fs_candidate_attach(ends.side[0].connection, ends.side[0].fd, 0), 0); /* it is */
        forget(&ends);
    }
    CHECK(count_descriptors() <= before);
}

/* Somebody else sits where the end that looks would wait for the other one. */
TEST(attach_without_a_name_to_wait_at, 0)
{
    use(UINT32_MAX - 1, UINT64_MAX);
    for (uint64_t delay = 0; delay < 3; delay++) {
        struct ends ends = make();
        struct fs_descriptor taken;
        struct fs_tuple tuple;
        uint64_t delay_us[2] = {delay * 500, 0};
        int result[2];
        CHECK_EQUAL(fs_tuple_of(ends.side[1].fd, &tuple), 0);
        CHECK_EQUAL(fs_name_listen(&taken, FS_NAME_WAITS, &tuple, 1), 0);
        CHECK_EQUAL(fs_candidate_attach(ends.side[1].connection, ends.side[1].fd, fs_now_ns() + 1000000), -ETIMEDOUT);
        attach_both(&ends, delay_us, SOON_NS, result);
        CHECK(result[0] == 0 && result[1] == 0);
        fs_descriptor_close(&taken);
        forget(&ends);
    }
}

TEST(attach_without_the_other_end_is_over_in_time, 0)
{
    use(UINT32_MAX - 1, UINT64_MAX);
    struct ends ends = make();
    int before = descriptors_at_first();
    for (int i = 0; i < 2; i++) {
        uint64_t start = fs_now_ns();
        CHECK_EQUAL(fs_candidate_attach(ends.side[i].connection, ends.side[i].fd, start + 30000000), -ETIMEDOUT);
        CHECK(fs_now_ns() - start >= 30000000);
        CHECK_EQUAL(why(&ends.side[i]), i == 0 ? FS_WHY_LISTENING : FS_WHY_NOBODY);
    }
    CHECK(count_descriptors() <= before);
    for (int i = 0; i < 20; i++) there_and_back(&ends);
    CHECK(!is_attached(&ends.side[0]));
    forget(&ends);
}

/* The other end only sends and receives. */
TEST(attach_by_one_end_while_the_other_one_calls, 0)
{
    for (int waits = 0; waits < 2; waits++) {
        use(UINT32_MAX - 1, UINT64_MAX);
        struct ends ends = make();
        use(0, 0); /* the next connections, and what asks the other end below */
        atomic_store(&ends.side[!waits].connection->record->next_try, 0);
        struct attach attach = {&ends.side[waits], SOON_NS, 0, 0};
        pthread_t thread = start_thread(attach_now, &attach);
        uint64_t until = fs_now_ns() + SOON_NS;
        struct side *calls = &ends.side[!waits];
        while (!is_attached(&ends.side[waits]) && fs_now_ns() < until) {
            CHECK_EQUAL(send_all(calls, (uint64_t)!waits, 1), 1);
            exact_sleep_us(20);
        }
        join_thread(thread);
        CHECK_EQUAL(attach.result, 0);
        CHECK_EQUAL(receive_all(&ends.side[waits], (uint64_t)!waits, (size_t)calls->sent), (ssize_t)calls->sent);
        talk_until_attached(&ends, 2);
        forget(&ends);
    }
}

TEST(attach_of_an_end_that_is_closed_meanwhile, 0)
{
    use(UINT32_MAX - 1, UINT64_MAX);
    for (int side = 0; side < 2; side++) {
        struct ends ends = make();
        struct attach attach = {&ends.side[side], SOON_NS, 0, 0};
        pthread_t thread = start_thread(attach_now, &attach);
        exact_sleep_us(2000);
        int fd = ends.side[side].fd;
        fs_leave_descriptor(fd);
        join_thread(thread);
        CHECK_EQUAL(attach.result, -ECANCELED);
        close(fd);
        leave(&ends.side[!side]);
    }
}

TEST(attach_with_an_end_that_dies, NEEDS_PROCESSES)
{
    struct random random = random_from(10);
    use(UINT32_MAX - 1, UINT64_MAX);
    for (int i = 0; i < scaled(100); i++) {
        struct tcp tcp = tcp_connect(AF_INET, "127.0.0.1");
        int fd[2] = {tcp_accept(&tcp), tcp.client}, mine = i & 1, status;
        struct side side;
        pid_t child = start_process();
        if (child == 0) {
            close(fd[mine]);
            enter(&side, fd[!mine], mine ? FS_ROLE_ACCEPTED : FS_ROLE_CONNECTED);
            fs_candidate_attach(side.connection, side.fd, fs_now_ns() + SOON_NS);
            for (;;) pause();
        }
        close(fd[!mine]);
        enter(&side, fd[mine], mine ? FS_ROLE_CONNECTED : FS_ROLE_ACCEPTED);
        struct attach attach = {&side, 20000000, 0, 0};
        pthread_t thread = start_thread(attach_now, &attach);
        exact_sleep_us(random_below(&random, 1500));
        kill(child, SIGKILL);
        join_thread(thread);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(attach.result == 0 || attach.result == -ETIMEDOUT || attach.result == -ECANCELED);
        char byte;
        ssize_t got;
        while ((got = fs_carry_receive(side.connection, side.fd, &byte, 1, 0, 0)) == -EAGAIN) {}
        CHECK(got == 0 || got == -ECONNRESET);
        leave(&side);
        close(tcp.listener);
    }
}
