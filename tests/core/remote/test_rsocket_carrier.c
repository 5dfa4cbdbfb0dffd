/* An rsocket as a carrier, over a library of the test's own: its rsockets are UNIX sockets that take and give little. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "remote/rsocket_carrier.h"
#include "system.h"

#define WINDOW (1u << 20)
#define WORD_BYTES 48u

static struct random cuts;

static size_t cut(size_t length)
{
    size_t some = (size_t)random_size(&cuts, 5000);
    return some < length ? some : length;
}

static ssize_t take_little(int number, const void *data, size_t length, int flags)
{
    if (random_below(&cuts, 4) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return send(number, data, cut(length), flags | MSG_NOSIGNAL);
}

static ssize_t give_little(int number, void *data, size_t length, int flags)
{
    return recv(number, data, cut(length), flags);
}

static int poll_as_ever(struct pollfd *descriptors, nfds_t count, int timeout)
{
    return poll(descriptors, count, timeout);
}

static const struct fs_rsocket_library library = {
    .rsend = take_little, .rrecv = give_little, .rpoll = poll_as_ever, .rclose = close};

struct end {
    struct fs_carrier *carrier;
    _Atomic uint32_t greeted;
    int64_t last_ticket;
    uint64_t sent, heard;
};

static struct fs_key key_of(const char *address, uint16_t port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at = {.four = {.sin_family = AF_INET, .sin_port = htons(port)}};
    inet_pton(AF_INET, address, &at.four.sin_addr);
    return fs_key_of(&at.any);
}

/* The accepting end knows the address from which the rsocket came, and no port. */
static void open_end(struct end *end, int number, int connecting, const char *from)
{
    int error = 0;
    const struct fs_rsocket_greeting greeting = {
        .connecting = connecting,
        .cookie = connecting ? 0 : 0x1234567890abcdefull,
        .limit_ns = fs_now_ns() + 60000000000ull,
        .window_bytes = WINDOW,
        .from = key_of(from, connecting ? 4711 : 0),
        .greeted = &end->greeted,
    };
    *end = (struct end){.carrier = fs_rsocket_carrier_make(&library, number, &greeting, &error)};
    CHECK(end->carrier != NULL);
}

static int poll_end(struct end *end)
{
    struct fs_arrival arrivals[7];
    int count = end->carrier->calls->poll(end->carrier, arrivals, 7);
    for (int i = 0; i < count; i++) {
        const struct fs_frame *frame = &arrivals[i].frame;
        CHECK_EQUAL(frame->position, end->heard++);
        if (frame->kind == FS_FRAME_DATA)
            for (uint32_t at = 0; at < frame->length; at++)
                CHECK(arrivals[i].data[at] == (unsigned char)(frame->position + at));
        CHECK_EQUAL(end->carrier->calls->release(end->carrier, arrivals[i].slot), 0);
    }
    return count;
}

static void post_some(struct end *end, const struct end *other, uint64_t most)
{
    unsigned char data[FS_FRAME_PAYLOAD];
    while (end->sent < most && end->sent - other->heard < FS_FRAMES && end->carrier->calls->room(end->carrier) > 0) {
        const size_t length = (size_t)random_below(&cuts, sizeof data + 1);
        const struct fs_frame frame = {length > 0 ? FS_FRAME_DATA : FS_FRAME_CREDIT, (uint32_t)length, end->sent, 0, 0};
        for (size_t at = 0; at < length; at++) data[at] = (unsigned char)(end->sent + at);
        const int64_t ticket = end->carrier->calls->post(end->carrier, &frame, data, length, end->sent + 1 == most);
        CHECK_EQUAL(ticket, end->last_ticket + 1);
        CHECK(end->carrier->calls->done(end->carrier) <= (int64_t)other->heard); /* nothing is told too early */
        end->last_ticket = ticket;
        end->sent++;
    }
}

static void make_pair(int numbers[2])
{
    cuts = random_from(77);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, numbers) == 0);
}

static void both_ends(struct end *accepting, struct end *connecting)
{
    int numbers[2];
    make_pair(numbers);
    open_end(accepting, numbers[0], 0, "10.0.0.7");
    open_end(connecting, numbers[1], 1, "10.0.0.7");
    CHECK_EQUAL(accepting->carrier->calls->room(accepting->carrier), 0); /* nothing goes before the greeting */
    CHECK(fs_rsocket_carrier_from(accepting->carrier) == NULL);
    while (connecting->greeted != FS_GREETED) {
        CHECK(poll_end(accepting) == 0);
        CHECK(poll_end(connecting) == 0);
    }
    CHECK_EQUAL(accepting->greeted, FS_GREETED);
}

TEST(rsocket_carrier_greeting_tells_who_comes, 0)
{
    struct end accepting, connecting;
    both_ends(&accepting, &connecting);
    const struct fs_key expected = key_of("10.0.0.7", 4711);
    CHECK(fs_same_key(fs_rsocket_carrier_from(accepting.carrier), &expected));
    CHECK_EQUAL(accepting.carrier->window_bytes, WINDOW);
    CHECK_EQUAL(connecting.carrier->window_bytes, WINDOW);
}

TEST(rsocket_carrier_passes_each_frame_once_and_in_order, 0)
{
    struct end end[2];
    const uint64_t most = (uint64_t)scaled(3000);
    both_ends(&end[0], &end[1]);
    while (end[0].heard < most || end[1].heard < most)
        for (int i = 0; i < 2; i++) {
            post_some(&end[i], &end[!i], most);
            CHECK(poll_end(&end[!i]) >= 0);
            CHECK_EQUAL(end[i].carrier->calls->arm(end[i].carrier), 0);
        }
    /* the last frame of each asked for an answer */
    for (int i = 0; i < 2; i++)
        while (end[i].carrier->calls->done(end[i].carrier) < end[i].last_ticket) {
            CHECK(poll_end(&end[!i]) == 0);
            CHECK(poll_end(&end[i]) == 0);
        }
    CHECK_EQUAL(end[0].carrier->calls->room(end[0].carrier), FS_FRAMES / 2);
}

static struct fs_arrival pass_one(struct end *end, struct end *other, uint32_t kind, const char *bytes)
{
    const uint32_t length = (uint32_t)strlen(bytes);
    const struct fs_frame frame = {kind, length, 0, 0, 0};
    struct fs_arrival arrival;
    CHECK(end->carrier->calls->post(end->carrier, &frame, bytes, length, 0) > 0);
    while (other->carrier->calls->poll(other->carrier, &arrival, 1) == 0)
        CHECK_EQUAL(end->carrier->calls->poll(end->carrier, &arrival, 1), 0);
    return arrival;
}

/* A frame without bytes may be released before one that came earlier. */
TEST(rsocket_carrier_keeps_bytes_until_they_are_released, 0)
{
    struct end end[2];
    both_ends(&end[0], &end[1]);
    const struct fs_arrival first = pass_one(&end[0], &end[1], FS_FRAME_DATA, "first");
    for (unsigned i = 1; i < FS_FRAMES; i++) {
        const struct fs_arrival credit = pass_one(&end[0], &end[1], FS_FRAME_CREDIT, "");
        CHECK_EQUAL(end[1].carrier->calls->release(end[1].carrier, credit.slot), 0);
    }
    const struct fs_arrival last = pass_one(&end[0], &end[1], FS_FRAME_DATA, "last");
    CHECK(memcmp(first.data, "first", 5) == 0 && memcmp(last.data, "last", 4) == 0);
}

TEST(rsocket_carrier_gives_what_came_before_the_end, 0)
{
    struct end end[2];
    both_ends(&end[0], &end[1]);
    post_some(&end[0], &end[1], 20);
    while (end[0].carrier->calls->room(end[0].carrier) < FS_FRAMES / 2) CHECK_EQUAL(poll_end(&end[0]), 0);
    end[0].carrier->calls->close(end[0].carrier);
    int last;
    do last = poll_end(&end[1]);
    while (last >= 0);
    CHECK_EQUAL(last, -ECONNRESET);
    CHECK_EQUAL(end[1].heard, 20);
}

static int until_refused(struct end *end)
{
    while (end->greeted == 0) poll_end(end);
    return (int)end->greeted;
}

TEST(rsocket_carrier_refuses_a_stranger, 0)
{
    const unsigned char stranger[WORD_BYTES] = "GET / HTTP/1.0\r\n\r\n";
    for (int connecting = 0; connecting < 2; connecting++) {
        struct end end;
        int numbers[2];
        make_pair(numbers);
        open_end(&end, numbers[0], connecting, "10.0.0.7");
        CHECK(send(numbers[1], stranger, sizeof stranger, 0) == WORD_BYTES);
        CHECK_EQUAL(until_refused(&end), EPROTO);
        CHECK_EQUAL(end.carrier->calls->room(end.carrier), 0);
        unsigned char heard[WORD_BYTES];
        /* a server that is not ours hears nothing of a connecting end */
        if (connecting) CHECK_EQUAL(recv(numbers[1], heard, sizeof heard, MSG_DONTWAIT), -1);
        end.carrier->calls->close(end.carrier);
    }
}

/* The accepting end's own word, or that of another connection, is no answer. */
TEST(rsocket_carrier_refuses_an_echo_a_wrong_number_and_another_hosts_name, 0)
{
    for (int how = 0; how < 5; how++) {
        struct end end;
        int numbers[2];
        unsigned char word[WORD_BYTES];
        make_pair(numbers);
        open_end(&end, numbers[0], 0, "10.0.0.7");
        size_t got = 0;
        while (got < sizeof word) {
            poll_end(&end);
            ssize_t more = recv(numbers[1], word + got, sizeof word - got, MSG_DONTWAIT);
            if (more > 0) got += (size_t)more;
        }
        word[8] = how == 0 ? 1 : 2;    /* 0: an echo, else the word of a connecting end */
        if (how == 1) word[16] ^= 1;   /* the number */
        if (how == 2) word[24 + 15]++; /* the address */
        if (how == 3) word[12] = 1;    /* a window that no version has */
        CHECK(send(numbers[1], word, sizeof word, 0) == WORD_BYTES);
        CHECK_EQUAL(until_refused(&end), how == 4 ? (int)FS_GREETED : EPROTO);
        end.carrier->calls->close(end.carrier);
        close(numbers[1]);
    }
}

TEST(rsocket_carrier_bears_any_bytes_behind_the_greeting, 0)
{
    for (int round = 0; round < scaled(300); round++) {
        cuts = random_from((uint64_t)round);
        struct fs_arrival arrivals[16];
        unsigned char lies[4096];
        for (size_t at = 0; at < sizeof lies; at++)
            lies[at] = random_below(&cuts, 3) == 0 ? (unsigned char)random_next(&cuts) : 0;
        for (size_t at = 0; at + 16 < sizeof lies && round % 2; at += 48) lies[at] = (unsigned char)(1 + round % 3);
        int numbers[2];
        make_pair(numbers);
        int error = 0;
        struct fs_rsocket_greeting greeting = {.limit_ns = UINT64_MAX, .window_bytes = WINDOW};
        _Atomic uint32_t greeted = FS_GREETED; /* from the first byte on */
        greeting.greeted = &greeted;
        struct fs_carrier *liar = fs_rsocket_carrier_make(&library, numbers[0], &greeting, &error);
        CHECK(liar != NULL && send(numbers[1], lies, sizeof lies, 0) == sizeof lies);
        shutdown(numbers[1], SHUT_WR);
        int count;
        do {
            count = liar->calls->poll(liar, arrivals, 16);
            for (int i = 0; i < count; i++) {
                CHECK(arrivals[i].frame.length <= FS_FRAME_PAYLOAD && arrivals[i].slot < FS_FRAMES);
                liar->calls->release(liar, arrivals[i].slot);
            }
        } while (count >= 0);
        CHECK(count == -EPROTO || count == -ECONNRESET);
        liar->calls->close(liar);
        close(numbers[1]);
    }
}
