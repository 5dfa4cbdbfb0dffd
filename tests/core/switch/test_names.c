/* Two ends that find each other by name, and all those who come to a name in between. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"
#include "sockets/address.h"
#include "switch/names.h"
#include "tcp.h"

#define NOBODY 65534
#define STRANGER 12345

struct ends {
    struct tcp tcp;
    int accepted;
    struct fs_tuple of_accepted, of_client;
};

static struct ends make(int family, const char *ip)
{
    struct ends ends = {.tcp = tcp_connect(family, ip)};
    ends.accepted = tcp_accept(&ends.tcp);
    CHECK_EQUAL(fs_tuple_of(ends.accepted, &ends.of_accepted), 0);
    CHECK_EQUAL(fs_tuple_of(ends.tcp.client, &ends.of_client), 0);
    return ends;
}

static void forget(struct ends *ends)
{
    close(ends->accepted);
    tcp_forget(&ends->tcp);
}

static int listen_for(struct ends *ends, struct fs_descriptor *listener)
{
    return fs_name_listen(listener, FS_NAME_OFFERS, &ends->of_accepted, 1);
}

static int find(struct ends *ends, struct fs_descriptor *stream)
{
    pid_t process = 0;
    int error = fs_name_find(stream, FS_NAME_OFFERS, &ends->of_client, 0, FS_PEERS_OWN, &process);
    CHECK(error != 0 || process > 0);
    return error;
}

static int take_in(struct fs_descriptor *listener, struct fs_descriptor *stream)
{
    pid_t process = 0;
    int error = fs_name_accept(listener, stream, FS_PEERS_OWN, &process);
    CHECK(error != 0 || process > 0);
    return error;
}

static const struct fs_counters counted = {.received = 11, .acknowledged = 12};

static int offer(struct fs_descriptor *stream)
{
    int memory = memfd_create("offered", MFD_CLOEXEC);
    CHECK(memory >= 0 && pwrite(memory, "memory", 6, 0) == 6);
    int error = fs_offer_send(stream, &counted, memory);
    close(memory);
    return error;
}

static void expect_offer(struct fs_descriptor *stream)
{
    struct fs_counters counters;
    struct fs_descriptor memory;
    char text[6];
    CHECK_EQUAL(fs_offer_take(stream, &memory, &counters), 0);
    CHECK(counters.received == counted.received && counters.acknowledged == counted.acknowledged);
    CHECK(pread(fs_descriptor_number(&memory), text, 6, 0) == 6 && memcmp(text, "memory", 6) == 0);
    CHECK(fcntl(memory.number, F_GETFD) == FD_CLOEXEC);
    fs_descriptor_close(&memory);
}

static void run(int family, const char *ip)
{
    struct ends ends = make(family, ip);
    int before = count_descriptors();
    struct fs_descriptor listener = FS_DESCRIPTOR_NONE, out = FS_DESCRIPTOR_NONE, in = FS_DESCRIPTOR_NONE;
    CHECK(fs_tuple_is_local(&ends.of_accepted) && fs_tuple_is_local(&ends.of_client));
    CHECK(fs_tuple_is_first(&ends.of_accepted) == !fs_tuple_is_first(&ends.of_client));
    CHECK(!fs_tuple_is_own(&ends.of_accepted) && !fs_tuple_is_own(&ends.of_client));
    CHECK_EQUAL(find(&ends, &out), -ECONNREFUSED);
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    CHECK_EQUAL(take_in(&listener, &in), -EAGAIN);
    CHECK_EQUAL(find(&ends, &out), 0);
    CHECK_EQUAL(take_in(&listener, &in), 0);
    fs_descriptor_close(&listener);
    struct fs_descriptor memory;
    struct fs_counters counters;
    CHECK_EQUAL(fs_offer_take(&in, &memory, &counters), -EAGAIN);
    CHECK_EQUAL(offer(&out), 0);
    fs_descriptor_close(&out); /* what it sent stays */
    expect_offer(&in);
    CHECK_EQUAL(fs_offer_take(&in, &memory, &counters), -ECONNRESET);
    fs_descriptor_close(&in);
    CHECK_EQUAL(find(&ends, &out), -ECONNREFUSED);
    CHECK(count_descriptors() <= before + 1); /* the one that serves again */
    forget(&ends);
}

TEST(names_meet_over_ipv4, 0) { run(AF_INET, "127.0.0.1"); }
TEST(names_meet_over_ipv6, 0) { run(AF_INET6, "::1"); }
TEST(names_meet_over_ipv4_mapped_into_ipv6, 0) { run(AF_INET6, "::ffff:127.0.0.1"); }
TEST(names_meet_through_a_listener_at_every_address, 0)
{
    run(AF_INET, "0.0.0.0");
    run(AF_INET6, "::");
}

/* An IPv4 client of a listener whose sockets are IPv6's. */
TEST(names_meet_between_ipv4_and_ipv6, 0)
{
    struct tcp tcp = tcp_connect(AF_INET6, "::");
    struct sockaddr_in six_port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ends ends = {.tcp = tcp};
    six_port.sin_port = ((struct sockaddr_in6 *)&tcp.listening)->sin6_port;
    close(tcp_accept(&tcp));
    close(tcp.client);
    ends.tcp.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(ends.tcp.client, (struct sockaddr *)&six_port, sizeof six_port) == 0);
    ends.accepted = tcp_accept(&tcp);
    CHECK_EQUAL(fs_tuple_of(ends.accepted, &ends.of_accepted), 0);
    CHECK_EQUAL(fs_tuple_of(ends.tcp.client, &ends.of_client), 0);
    struct fs_descriptor listener, out;
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    CHECK_EQUAL(find(&ends, &out), 0);
    fs_descriptor_close(&out);
    fs_descriptor_close(&listener);
    forget(&ends);
}

TEST(names_of_two_processes_meet, NEEDS_PROCESSES)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, out, in;
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    pid_t client = start_process();
    if (client == 0) {
        CHECK_EQUAL(find(&ends, &out), 0);
        CHECK_EQUAL(offer(&out), 0);
        _exit(0);
    }
    join_process(client);
    pid_t process;
    CHECK_EQUAL(fs_name_accept(&listener, &in, FS_PEERS_OWN, &process), 0);
    CHECK_EQUAL(process, client);
    expect_offer(&in);
    fs_descriptor_close(&in);
    fs_descriptor_close(&listener);
    forget(&ends);
}

/* ---- tuples ---- */

TEST(tuple_of_a_socket_that_is_connected_to_itself, 0)
{
    struct sockaddr_storage place;
    struct fs_tuple tuple;
    socklen_t size = sizeof(struct sockaddr_in);
    int own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(fs_put_address(&place, AF_INET, "127.0.0.1", 0), 0);
    CHECK(bind(own, (struct sockaddr *)&place, size) == 0);
    CHECK_EQUAL(fs_tuple_of(own, &tuple), -ENOTCONN);
    CHECK(getsockname(own, (struct sockaddr *)&place, &size) == 0);
    CHECK(connect(own, (struct sockaddr *)&place, size) == 0);
    CHECK_EQUAL(fs_tuple_of(own, &tuple), 0);
    CHECK(fs_tuple_is_own(&tuple) && !fs_tuple_is_first(&tuple) && fs_tuple_is_local(&tuple));
    close(own);
    CHECK_EQUAL(fs_tuple_of(own, &tuple), -EBADF);
}

TEST(tuple_of_other_sockets, 0)
{
    struct fs_tuple tuple;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK_EQUAL(fs_tuple_of(pair[0], &tuple), -EAFNOSUPPORT);
    close(pair[0]), close(pair[1]);
}

static int is_local_to(const struct ends *ends, const char *ip)
{
    struct fs_tuple tuple = ends->of_client;
    struct in6_addr address;
    CHECK(inet_pton(AF_INET6, ip, &address) == 1);
    memcpy(tuple.other.address, &address, sizeof address);
    return fs_tuple_is_local(&tuple);
}

TEST(tuple_of_another_host_is_not_local, 0)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    int before = count_descriptors();
    CHECK(is_local_to(&ends, "::ffff:127.8.9.10") && is_local_to(&ends, "::1"));
    CHECK(!is_local_to(&ends, "::ffff:192.0.2.1") && !is_local_to(&ends, "2001:db8::1"));
    CHECK_EQUAL(count_descriptors(), before);
    forget(&ends);
}

/* Every address of this host is, from each other one. */
TEST(tuple_of_own_addresses_is_local, 0)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct ifaddrs *all;
    CHECK(getifaddrs(&all) == 0);
    for (struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
        if (each->ifa_addr == NULL || each->ifa_addr->sa_family != AF_INET) continue;
        struct fs_tuple tuple = ends.of_client;
        memcpy(tuple.other.address + 12, &((struct sockaddr_in *)each->ifa_addr)->sin_addr, 4);
        CHECK(fs_tuple_is_local(&tuple));
    }
    freeifaddrs(all);
    forget(&ends);
}

/* ---- strangers ---- */

static struct sockaddr_un name_of(struct ends *ends, socklen_t *size)
{
    struct sockaddr_un name;
    struct fs_descriptor listener;
    *size = sizeof name;
    CHECK_EQUAL(listen_for(ends, &listener), 0);
    CHECK(getsockname(listener.number, (struct sockaddr *)&name, size) == 0);
    fs_descriptor_close(&listener);
    return name;
}

static void become(uid_t user)
{
    if (may_change_user()) CHECK(setresuid(user, user, user) == 0);
}

struct stranger {
    pid_t process;
    int ready, leave; /* pipes: it says, and is told */
};

/* A process of another user that listens at the ends' name. */
static struct stranger start_stranger(struct ends *ends, uid_t user)
{
    int ready[2], leave[2];
    socklen_t size;
    struct sockaddr_un name = name_of(ends, &size);
    CHECK(pipe(ready) == 0 && pipe(leave) == 0);
    pid_t process = start_process();
    if (process == 0) {
        char byte;
        close(leave[1]);
        become(user);
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(bind(listener, (struct sockaddr *)&name, size) == 0 && listen(listener, 1) == 0);
        CHECK(write(ready[1], "", 1) == 1 && read(leave[0], &byte, 1) == 0);
        int came = accept(listener, NULL, NULL);
        CHECK(came < 0 || read(came, &byte, 1) == 0); /* nothing was passed */
        _exit(0);
    }
    close(ready[1]), close(leave[0]);
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    return (struct stranger){process, ready[0], leave[1]};
}

static void end_stranger(struct stranger *stranger)
{
    close(stranger->leave);
    join_process(stranger->process);
    close(stranger->ready);
}

static void meet_listening_stranger(uid_t user)
{
    if (!may_change_user()) return;
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct stranger stranger = start_stranger(&ends, user);
    struct fs_descriptor listener, out;
    int before = count_descriptors();
    CHECK_EQUAL(listen_for(&ends, &listener), -EADDRINUSE);
    CHECK_EQUAL(find(&ends, &out), -EACCES);
    CHECK_EQUAL(count_descriptors(), before);
    end_stranger(&stranger);
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    fs_descriptor_close(&listener);
    forget(&ends);
}

TEST(names_of_a_stranger_get_no_offer, NEEDS_PROCESSES) { meet_listening_stranger(STRANGER); }
TEST(names_of_nobody_get_no_offer, NEEDS_PROCESSES) { meet_listening_stranger(NOBODY); }

TEST(names_send_a_stranger_away, NEEDS_PROCESSES)
{
    if (!may_change_user()) return;
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, in, out;
    socklen_t size;
    struct sockaddr_un name = name_of(&ends, &size);
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    int before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        pid_t stranger = start_process();
        if (stranger == 0) {
            become(STRANGER);
            int own = socket(AF_UNIX, SOCK_STREAM, 0);
            CHECK(connect(own, (struct sockaddr *)&name, size) == 0);
            _exit(0);
        }
        join_process(stranger);
        CHECK_EQUAL(take_in(&listener, &in), -EACCES);
        CHECK_EQUAL(count_descriptors(), before);
    }
    CHECK_EQUAL(take_in(&listener, &in), -EAGAIN);
    CHECK_EQUAL(find(&ends, &out), 0);
    CHECK_EQUAL(take_in(&listener, &in), 0);
    fs_descriptor_close(&in), fs_descriptor_close(&out), fs_descriptor_close(&listener);
    forget(&ends);
}

/* In a user namespace that gives no number to its user, and none to anybody else: all have nobody's. */
TEST(names_of_users_without_numbers_do_not_meet, NEEDS_PROCESSES)
{
    if (!may_change_user()) return;
    struct ends ends = make(AF_INET, "127.0.0.1");
    pid_t process = start_process();
    if (process == 0) {
        struct fs_descriptor listener, out;
        become(STRANGER);
        if (unshare(CLONE_NEWUSER) != 0) _exit(0); /* not permitted here */
        CHECK_EQUAL(listen_for(&ends, &listener), 0);
        CHECK_EQUAL(find(&ends, &out), -EACCES);
        _exit(0);
    }
    join_process(process);
    forget(&ends);
}

TEST(names_of_any_user_meet_where_both_say_so, NEEDS_PROCESSES)
{
    if (!may_change_user()) return;
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, in;
    pid_t process;
    CHECK_EQUAL(fs_name_listen(&listener, FS_NAME_OFFERS, &ends.of_accepted, 1), 0);
    pid_t stranger = start_process();
    if (stranger == 0) {
        struct fs_descriptor out;
        become(STRANGER);
        CHECK_EQUAL(fs_name_find(&out, FS_NAME_OFFERS, &ends.of_client, 0, FS_PEERS_ANY, &process), 0);
        CHECK_EQUAL(offer(&out), 0);
        _exit(0);
    }
    join_process(stranger);
    CHECK_EQUAL(fs_name_accept(&listener, &in, FS_PEERS_ANY, &process), 0);
    expect_offer(&in);
    fs_descriptor_close(&in), fs_descriptor_close(&listener);
    forget(&ends);
}

/* ---- what comes instead of an offer ---- */

static void say(int stream, const void *bytes, size_t length, const int *numbers, int count)
{
    union {
        char space[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec one = {(void *)(uintptr_t)bytes, length};
    struct msghdr header = {.msg_iov = &one, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
    if (count > 0) {
        header.msg_control = control.space, header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights = (struct cmsghdr){
            .cmsg_len = CMSG_LEN((size_t)count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(rights), numbers, (size_t)count * sizeof(int));
    }
    CHECK(sendmsg(stream, &header, MSG_NOSIGNAL) == (ssize_t)length);
}

TEST(names_take_nothing_but_an_offer, 0)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, in, out, memory;
    struct fs_counters counters;
    char right[256];
    int numbers[4];
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    CHECK_EQUAL(find(&ends, &out), 0); /* as an offer looks */
    CHECK_EQUAL(take_in(&listener, &in), 0);
    CHECK_EQUAL(offer(&out), 0);
    ssize_t length = recv(in.number, right, sizeof right, 0);
    CHECK(length > 0);
    fs_descriptor_close(&in), fs_descriptor_close(&out);
    for (int i = 0; i < 4; i++) numbers[i] = memfd_create("junk", MFD_CLOEXEC);
    int before = count_descriptors();
    for (int way = 0; way < 8; way++) {
        char bytes[256] = {0};
        size_t sent = (size_t)length;
        memcpy(bytes, right, sent);
        int count = way < 4 ? way : 1, expected = way == 1 ? 0 : -EPROTO;
        if (way == 4) bytes[0] ^= 1; /* the magic number */
        if (way == 5) bytes[8] ^= 1; /* the version */
        if (way == 6) sent--;
        if (way == 7) sent = 0, expected = -ECONNRESET;
        CHECK_EQUAL(find(&ends, &out), 0);
        CHECK_EQUAL(take_in(&listener, &in), 0);
        if (sent > 0) say(out.number, bytes, sent, numbers, count);
        fs_descriptor_close(&out);
        CHECK_EQUAL(fs_offer_take(&in, &memory, &counters), expected);
        fs_descriptor_close(&memory);
        fs_descriptor_close(&in);
        CHECK_EQUAL(count_descriptors(), before);
    }
    for (int i = 0; i < 4; i++) close(numbers[i]);
    fs_descriptor_close(&listener);
    forget(&ends);
}

TEST(names_where_no_number_is_free, 0)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, in, out, memory, more;
    struct fs_counters counters;
    struct rlimit before, none;
    pid_t process;
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    CHECK_EQUAL(find(&ends, &out), 0);
    CHECK_EQUAL(offer(&out), 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_EQUAL(fs_name_accept(&listener, &in, FS_PEERS_OWN, &process), -EMFILE);
    CHECK_EQUAL(fs_name_listen(&more, FS_NAME_WAITS, &ends.of_client, 1), -EMFILE);
    CHECK_EQUAL(find(&ends, &more), -EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_EQUAL(take_in(&listener, &in), 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_EQUAL(fs_offer_take(&in, &memory, &counters), -EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    fs_descriptor_close(&in), fs_descriptor_close(&out), fs_descriptor_close(&listener);
    forget(&ends);
}

/* ---- numbers that the program does not know ---- */

TEST(names_survive_a_program_that_closes_every_number, 0)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, in, out;
    CHECK_EQUAL(find(&ends, &out), -ECONNREFUSED); /* there is a spare stream now */
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    int number = listener.number;
    for (int each = 3; each < 64; each++)
        if (each != ends.accepted && each != ends.tcp.client && each != ends.tcp.listener) close(each);
    CHECK_EQUAL(take_in(&listener, &in), -EBADF);
    CHECK_EQUAL(find(&ends, &out), -ECONNREFUSED);
    int file;
    do file = memfd_create("the program's", 0);
    while (file < number);
    fs_descriptor_close(&listener);
    CHECK(fcntl(number, F_GETFD) >= 0);
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    CHECK_EQUAL(find(&ends, &out), 0);
    fs_descriptor_close(&out), fs_descriptor_close(&listener);
    forget(&ends);
}

TEST(names_take_no_number_of_a_standard_stream, 0)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, out, in;
    int kept = dup(0);
    close(0);
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    CHECK_EQUAL(find(&ends, &out), 0);
    CHECK_EQUAL(take_in(&listener, &in), 0);
    CHECK(listener.number > 2 && out.number > 2 && in.number > 2 && fcntl(0, F_GETFD) < 0);
    CHECK(fcntl(in.number, F_GETFD) == FD_CLOEXEC);
    CHECK(dup2(kept, 0) == 0);
    close(kept);
    fs_descriptor_close(&in), fs_descriptor_close(&out), fs_descriptor_close(&listener);
    forget(&ends);
}

TEST(names_are_not_a_forked_child_s, NEEDS_PROCESSES)
{
    struct ends ends = make(AF_INET, "127.0.0.1");
    struct fs_descriptor listener, out;
    int told[2], ready[2], before = count_descriptors();
    char byte;
    CHECK(pipe(told) == 0 && pipe(ready) == 0);
    CHECK_EQUAL(listen_for(&ends, &listener), 0);
    CHECK_EQUAL(find(&ends, &out), 0);
    pid_t child = start_process();
    if (child == 0) {
        CHECK_EQUAL(count_descriptors(), before + 4);
        CHECK(fs_descriptor_number(&listener) < 0 && fs_descriptor_number(&out) < 0);
        fs_descriptor_close(&listener);
        close(told[1]);
        CHECK(write(ready[1], "", 1) == 1);
        CHECK(read(told[0], &byte, 1) == 0); /* until the parent has seen what it must */
        CHECK_EQUAL(listen_for(&ends, &listener), 0);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(fs_descriptor_number(&listener) >= 0);
    fs_descriptor_close(&listener);
    fs_descriptor_close(&out);
    CHECK_EQUAL(find(&ends, &out), -ECONNREFUSED); /* the child does not keep the name */
    close(told[0]), close(told[1]);
    join_process(child);
    close(ready[0]), close(ready[1]);
    forget(&ends);
}

struct finder {
    struct ends *ends;
    _Atomic int *over;
};

static void *find_again_and_again(void *argument)
{
    struct finder *finder = argument;
    while (!atomic_load(finder->over)) {
        struct fs_descriptor out, listener, in;
        find(finder->ends, &out);
        fs_descriptor_close(&out);
        if (listen_for(finder->ends, &listener) == 0) {
            if (take_in(&listener, &in) == 0) fs_descriptor_close(&in);
            fs_descriptor_close(&listener);
        }
    }
    return NULL;
}

static void run_finders(int forks)
{
    enum { THREADS = 3 };
    struct ends ends[THREADS];
    _Atomic int over = 0;
    pthread_t threads[THREADS];
    struct finder finders[THREADS];
    for (int i = 0; i < THREADS; i++) ends[i] = make(AF_INET, "127.0.0.1");
    int before = count_descriptors();
    for (int i = 0; i < THREADS; i++) {
        finders[i] = (struct finder){&ends[i], &over};
        threads[i] = start_thread(find_again_and_again, &finders[i]);
    }
    for (int i = 0; i < scaled(300); i++) {
        if (!forks) {
            struct fs_descriptor out;
            find(&ends[0], &out);
            fs_descriptor_close(&out);
            continue;
        }
        pid_t child = start_process();
        if (child == 0) _exit(count_descriptors() != before);
        join_process(child);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
    CHECK(count_descriptors() <= before + 1);
    for (int i = 0; i < THREADS; i++) forget(&ends[i]);
}

TEST(names_found_by_threads, 0) { run_finders(0); }
TEST(names_found_by_threads_of_a_process_that_forks, NEEDS_PROCESSES) { run_finders(1); }

/* ---- many, and those that die ---- */

TEST(names_of_thousands_at_once, 0)
{
    enum { MANY = 3000, AT_ONCE = 200 };
    struct fs_descriptor listeners[AT_ONCE], out, in;
    struct ends ends = make(AF_INET, "127.0.0.1");
    int before = count_descriptors();
    for (int done = 0; done < scaled(MANY); done += AT_ONCE) {
        struct ends each[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            each[i] = ends;
            each[i].of_accepted.other.port = each[i].of_client.own.port = (uint16_t)(done + i + 1);
            CHECK_EQUAL(listen_for(&each[i], &listeners[i]), 0);
        }
        for (int i = AT_ONCE - 1; i >= 0; i--) {
            CHECK_EQUAL(find(&each[i], &out), 0);
            CHECK_EQUAL(offer(&out), 0);
            fs_descriptor_close(&out);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            CHECK_EQUAL(take_in(&listeners[i], &in), 0);
            expect_offer(&in);
            fs_descriptor_close(&in);
            fs_descriptor_close(&listeners[i]);
        }
    }
    CHECK_EQUAL(count_descriptors(), before);
    forget(&ends);
}

TEST(names_of_a_process_that_dies, NEEDS_PROCESSES | NEEDS_FAULTS)
{
    for (int point = BEFORE_CALL; point <= AFTER_CALL; point++) {
        struct ends ends = make(AF_INET, "127.0.0.1");
        struct fs_descriptor listener, in, out, memory;
        struct fs_counters counters;
        int status;
        CHECK_EQUAL(listen_for(&ends, &listener), 0);
        pid_t client = start_process();
        if (client == 0) {
            die_in(IN_SEND, 1, (enum fault_point)point);
            CHECK_EQUAL(find(&ends, &out), 0);
            offer(&out);
            _exit(0);
        }
        CHECK(waitpid(client, &status, 0) == client && WIFSIGNALED(status));
        CHECK_EQUAL(take_in(&listener, &in), 0);
        if (point == AFTER_CALL) expect_offer(&in);
        CHECK_EQUAL(fs_offer_take(&in, &memory, &counters), -ECONNRESET);
        fs_descriptor_close(&in);
        fs_descriptor_close(&listener);
        client = start_process(); /* now the one that listens */
        if (client == 0) {
            CHECK_EQUAL(listen_for(&ends, &listener), 0);
            kill(getpid(), SIGKILL);
        }
        CHECK(waitpid(client, &status, 0) == client && WIFSIGNALED(status));
        CHECK_EQUAL(find(&ends, &out), -ECONNREFUSED);
        forget(&ends);
    }
}
