/* One connection between hosts, at both ends: every byte once, also where its device breaks at any moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "device.h"
#include "remote/tcp_carrier.h"
#include "tcp.h"

#define MOST_DATA 1500000

struct program {
    struct fs_end *end;
    int bell;
    uint64_t sent, total, foreign_from, got; /* foreign_from: from there on its bytes go by the descriptor itself */
    int waits;                               /* shuts its half once it has heard the other end's */
    int is_raw;                              /* it has left the ring: its descriptor carries all */
    int shut, heard_end, closed;
};

struct hosts {
    struct device device;
    struct tcp tcp;
    struct fs_span *span[2];
    struct program program[2];
    int over[2];
    struct random random;
};

static void take_span(struct hosts *hosts, int side, int tcp)
{
    const struct fs_limits limits = {0, 0, 0};
    struct program *program = &hosts->program[side];
    int error = 0, pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    program->end = fs_end_open_on(hosts->span[side]->segment, FS_SIDE_CONNECTED, &limits, &error);
    CHECK(program->end != NULL);
    program->end->abrupt = 1;
    program->bell = pair[0];
    CHECK_EQUAL(fs_doorbell_prepare(pair[0]), 0);
    CHECK_EQUAL(fs_span_begin(hosts->span[side], pair[1]), 0);
    hosts->span[side]->tcp = tcp;
}

static void leave_device(struct hosts *hosts, int side)
{
    struct fs_span *span = hosts->span[side];
    const uint64_t window_bytes = span->carrier->window_bytes;
    int error = 0;
    CHECK_EQUAL(fs_span_leave_carrier(span, 1000000000ull), 0);
    span->carrier->calls->close(span->carrier);
    struct fs_carrier *next = fs_tcp_carrier_make(span->tcp, window_bytes, &error);
    CHECK(next != NULL);
    fs_span_resume(span, next);
}

/* As the agent's thread does. */
static void turn(struct hosts *hosts, int side)
{
    struct fs_span *span = hosts->span[side];
    short wants = 0;
    char first;
    if (hosts->over[side]) return;
    struct pollfd doorbell = {span->doorbell, 0, 0};
    span->program_left = poll(&doorbell, 1, 0) > 0 && doorbell.revents & POLLHUP;
    if (!fs_span_has_resumed(span) && span->tcp >= 0 && recv(span->tcp, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
        fs_span_other_ended(span, ENETDOWN);
    switch (fs_span_turn(span, &wants)) {
    case FS_SPAN_LEAVES_CARRIER: leave_device(hosts, side); break;
    case FS_SPAN_OVER:
        fs_span_finish(span);
        span->carrier->calls->close(span->carrier);
        span->carrier = NULL;
        hosts->over[side] = 1;
        break;
    default: span->carrier->calls->arm(span->carrier);
    }
}

static void step(struct hosts *hosts)
{
    if (random_below(&hosts->random, 4) > 0) turn(hosts, (int)random_below(&hosts->random, 2));
    device_carry(&hosts->device, &hosts->random);
}

static struct hosts *make(void)
{
    static struct hosts hosts;
    int error = 0;
    memset(&hosts, 0, sizeof hosts);
    hosts.tcp = tcp_connect(AF_INET, "127.0.0.1");
    for (int side = 0; side < 2; side++) {
        hosts.span[side] = fs_span_make(side == 0, &error);
        CHECK(hosts.span[side] != NULL);
        hosts.span[side]->resumes = 1;
    }
    device_join(&hosts.device, hosts.span[0], hosts.span[1]);
    CHECK_EQUAL(fs_span_claim(hosts.span[1]), 1);
    take_span(&hosts, 1, tcp_accept(&hosts.tcp));
    hosts.random = random_from(0);
    while (hosts.span[0]->state != FS_SPAN_OPEN) step(&hosts);
    take_span(&hosts, 0, hosts.tcp.client);
    hosts.tcp.client = -1;
    return &hosts;
}

static void close_program(struct program *program)
{
    if (program->closed) return;
    fs_end_closing(program->end, program->bell, 0);
    close(program->bell);
    fs_end_closed(program->end);
    program->closed = 1;
}

static void finish(struct hosts *hosts)
{
    for (int side = 0; side < 2; side++) {
        close_program(&hosts->program[side]);
        fs_end_free(hosts->program[side].end);
        fs_span_drop(hosts->span[side]);
    }
    tcp_forget(&hosts->tcp);
}

static void send_more(struct hosts *hosts, int side)
{
    static unsigned char block[300000];
    struct program *program = &hosts->program[side];
    uint64_t left = program->total - program->sent;
    size_t size = random_size(&hosts->random, sizeof block);
    ssize_t sent;
    if (left == 0) {
        if (program->waits && !program->heard_end) return;
        if (!program->shut)
            CHECK_EQUAL(program->is_raw ? shutdown(program->bell, SHUT_WR)
                                        : fs_end_shutdown(program->end, program->bell, SHUT_WR),
                        0);
        program->shut = 1;
        return;
    }
    if (size > left) size = left;
    if (program->sent < program->foreign_from && size > program->foreign_from - program->sent)
        size = program->foreign_from - program->sent;
    stream_fill((uint64_t)side, program->sent, block, size);
    if (program->sent < program->foreign_from) {
        sent = fs_end_send(program->end, program->bell, block, size, FS_NO_SIGNAL);
    } else {
        sent = send(program->bell, block, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) sent = -errno;
    }
    CHECK(sent > 0 || sent == -EAGAIN);
    if (sent > 0) program->sent += (uint64_t)sent;
}

static void receive_more(struct hosts *hosts, int side)
{
    static unsigned char block[300000];
    struct program *program = &hosts->program[side];
    size_t size = random_size(&hosts->random, sizeof block);
    ssize_t got = program->is_raw ? recv(program->bell, block, size, MSG_DONTWAIT)
                                  : fs_end_receive(program->end, program->bell, block, size, 0, 1);
    if (got == -EAGAIN || (got < 0 && errno == EAGAIN)) return;
    CHECK(got >= 0);
    if (got == 0) {
        program->heard_end = 1;
        return;
    }
    stream_check((uint64_t)!side, program->got, block, (size_t)got);
    program->got += (uint64_t)got;
}

static int is_done(const struct hosts *hosts)
{
    return hosts->over[0] && hosts->over[1] && hosts->program[0].heard_end && hosts->program[1].heard_end;
}

static void exchange(struct hosts *hosts, uint64_t breaks_at, int side)
{
    uint64_t limit = fs_now_ns() + STALL_NS;
    for (uint64_t steps = 0; !is_done(hosts); steps++) {
        int at = (int)random_below(&hosts->random, 2);
        if (steps == breaks_at) device_break(&hosts->device, side);
        if (steps == breaks_at + random_below(&hosts->random, 30) && side == 0) device_break(&hosts->device, 1);
        if (random_below(&hosts->random, 3) == 0) send_more(hosts, at);
        if (random_below(&hosts->random, 3) == 0 && !hosts->program[at].heard_end) receive_more(hosts, at);
        step(hosts);
        CHECK(fs_now_ns() < limit);
    }
}

enum mode { BY_THE_RING, FOREIGN_SENDER, RELEASED };

static void run(enum mode mode)
{
    int resumed = 0;
    uint64_t written = 0, taken = 0;
    for (int round = 0; round < scaled(400); round++) {
        struct hosts *hosts = make();
        hosts->random = random_from((uint64_t)round);
        for (int side = 0; side < 2; side++) {
            struct program *program = &hosts->program[side];
            program->total = round % 3 == 0 ? MOST_DATA : random_size(&hosts->random, MOST_DATA);
            program->foreign_from = mode == FOREIGN_SENDER ? random_below(&hosts->random, program->total)
                                    : mode == RELEASED     ? 0
                                                           : program->total;
            program->is_raw = mode == RELEASED;
            hosts->span[side]->offers = (int)random_below(&hosts->random, 2); /* each end for itself */
            if (program->is_raw) CHECK_EQUAL(fs_end_release(program->end, program->bell), 0);
        }
        if (mode == FOREIGN_SENDER) { /* nothing else may be under way then */
            struct program *listens = &hosts->program[round % 2];
            listens->total = listens->foreign_from = 0;
            listens->waits = 1;
        }
        exchange(hosts, random_size(&hosts->random, 3000), (int)random_below(&hosts->random, 2));
        for (int side = 0; side < 2; side++) {
            CHECK_EQUAL(hosts->program[side].got, hosts->program[!side].total);
            resumed += fs_span_has_resumed(hosts->span[side]);
            written += hosts->span[side]->counts.written;
            taken += hosts->span[side]->counts.taken;
        }
        finish(hosts);
    }
    CHECK(resumed > 0);
    if (mode == BY_THE_RING) CHECK(written > 0 && taken > 0);
}

TEST(resume_at_any_moment, 0) { run(BY_THE_RING); }
TEST(resume_of_what_the_descriptor_carries, 0) { run(FOREIGN_SENDER); }
TEST(resume_of_ends_that_left_the_ring, 0) { run(RELEASED); }

/* The device that has to move it is the one that the sender chose. */
TEST(large_data_as_the_sender_chose, 0)
{
    for (unsigned choice = 0; choice < 8; choice++) {
        struct hosts *hosts = make();
        for (int side = 0; side < 2; side++) {
            hosts->span[side]->offers = choice >> side & 1;
            hosts->span[side]->resumes = choice >> 2;
            hosts->program[side].total = hosts->program[side].foreign_from = 2 * MOST_DATA;
        }
        exchange(hosts, UINT64_MAX, 1);
        for (int side = 0; side < 2; side++) {
            const struct fs_span *from = hosts->span[side], *to = hosts->span[!side];
            CHECK_EQUAL(hosts->program[!side].got, hosts->program[side].total);
            CHECK_EQUAL(from->counts.written == 0, from->offers);
            CHECK_EQUAL(to->counts.taken > 0, from->offers);
            CHECK_EQUAL(fs_span_has_resumed(from), 0);
        }
        finish(hosts);
    }
}

/* What a program shut is not asked again and again. */
static int asked_in_vain(struct hosts *hosts, int side)
{
    int vain = 0;
    for (int i = 0; i < 200; i++) {
        struct fs_span *span = hosts->span[side];
        const uint64_t heard = span->heard, frames = span->frames;
        short wants = 0;
        CHECK_EQUAL(fs_span_turn(span, &wants), FS_SPAN_GOES_ON);
        device_carry(&hosts->device, &hosts->random);
        struct pollfd bell = {span->doorbell, wants, 0};
        vain += poll(&bell, 1, 0) > 0 && span->heard == heard && span->frames == frames;
    }
    return vain;
}

TEST(span_of_a_program_that_does_not_read, 0)
{
    for (int shut = 0; shut < 2; shut++) {
        struct hosts *hosts = make();
        struct program *program = &hosts->program[0];
        hosts->program[1].total = hosts->program[1].foreign_from = 4 << 20;
        if (shut > 0) CHECK_EQUAL(fs_end_shutdown(program->end, program->bell, SHUT_RD), 0);
        for (int i = 0; i < 5000; i++) {
            send_more(hosts, 1);
            step(hosts);
        }
        CHECK(hosts->program[1].sent < hosts->program[1].total);
        CHECK(asked_in_vain(hosts, 0) < 5);
        finish(hosts);
    }
}

/* As TCP: what it sends reaches who reads it, while nothing more can come the other way. */
TEST(span_of_a_program_that_sends_and_does_not_read, 0)
{
    struct hosts *hosts = make();
    struct program *full = &hosts->program[0], *reader = &hosts->program[1];
    const uint64_t limit = fs_now_ns() + STALL_NS;
    full->is_raw = 1;
    CHECK_EQUAL(fs_end_release(full->end, full->bell), 0);
    full->total = 32 << 20;
    reader->total = reader->foreign_from = 4 << 20;
    while (reader->got < full->total) {
        send_more(hosts, 0);
        if (reader->sent < reader->total) send_more(hosts, 1);
        receive_more(hosts, 1);
        step(hosts);
        CHECK(fs_now_ns() < limit);
    }
    CHECK(reader->sent < reader->total);
    finish(hosts);
}

/* As TCP: what comes for a reading half that is shut is dropped, and the other half goes on. */
TEST(span_of_a_descriptor_that_shut_reading, 0)
{
    struct hosts *hosts = make();
    struct program *deaf = &hosts->program[0];
    deaf->is_raw = 1;
    CHECK_EQUAL(fs_end_release(deaf->end, deaf->bell), 0);
    CHECK_EQUAL(shutdown(deaf->bell, SHUT_RD), 0);
    for (int side = 0; side < 2; side++) hosts->program[side].total = MOST_DATA;
    hosts->program[1].foreign_from = MOST_DATA;
    uint64_t limit = fs_now_ns() + STALL_NS;
    while (!hosts->program[0].shut || !hosts->program[1].heard_end || !hosts->program[1].shut) {
        if (hosts->program[1].shut) send_more(hosts, 0); /* once both its halves are shut, what comes breaks it off */
        else send_more(hosts, 1);
        if (!hosts->program[1].heard_end) receive_more(hosts, 1);
        step(hosts);
        CHECK(fs_now_ns() < limit);
    }
    CHECK_EQUAL(hosts->program[1].got, deaf->total);
    finish(hosts);
}

/* Neither end reads, and no byte more can go either way: who still waits for room must hear that the other one closed. */
TEST(span_of_a_program_that_closes_while_both_are_full, 0)
{
    struct hosts *hosts = make();
    const struct program *left = &hosts->program[1];
    const uint64_t limit = fs_now_ns() + STALL_NS;
    ssize_t sent = 0;
    for (int side = 0; side < 2; side++) hosts->program[side].total = hosts->program[side].foreign_from = 4 << 20;
    for (int i = 0; i < 5000; i++) {
        send_more(hosts, i % 2);
        step(hosts);
    }
    for (int side = 0; side < 2; side++) CHECK(hosts->program[side].sent < hosts->program[side].total);
    close_program(&hosts->program[0]);
    while (sent >= 0 || sent == -EAGAIN) {
        step(hosts);
        sent = fs_end_send(left->end, left->bell, "x", 1, FS_NO_SIGNAL);
        CHECK(fs_now_ns() < limit);
    }
    CHECK(sent == -ECONNRESET || sent == -EPIPE);
    while (!hosts->over[0] || !hosts->over[1]) step(hosts);
    finish(hosts);
}
