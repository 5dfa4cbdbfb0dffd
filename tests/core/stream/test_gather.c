/* Gathers: what is sent by one call becomes readable at once, where there is room for it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "parts.h"

#define SMALL 4096
#define MOST 1024 /* parts: the kernel takes no more */

struct gather {
    struct iovec part[MOST];
    int count;
    size_t length;
    unsigned char bytes[FS_TOGETHER];
};

/* The stream's next bytes, cut at random; some parts are empty. */
static struct fs_parts cut(struct gather *gather, struct random *random, uint64_t position, size_t length)
{
    size_t done = 0;
    stream_fill(1, position, gather->bytes, length);
    for (gather->count = 0; gather->count < MOST - 1 && done < length; gather->count++) {
        size_t part = random_below(random, 4) == 0 ? 0 : random_size(random, length - done);
        gather->part[gather->count] = (struct iovec){gather->bytes + done, part};
        done += part;
    }
    gather->part[gather->count++] = (struct iovec){gather->bytes + done, length - done};
    gather->length = length;
    return fs_parts_of(gather->part, gather->count);
}

static void send_whole(struct connection *c, struct fs_parts *parts)
{
    const size_t length = parts->left;
    for (ssize_t sent; (sent = fs_end_send_parts(c->end[0], c->bell[0], parts, FS_PATIENT)) != (ssize_t)length;)
        CHECK_EQUAL(sent, -EAGAIN); /* never a part of it */
    CHECK_EQUAL(parts->left, 0);
}

TEST(a_gather_is_found_whole_wherever_the_ring_ends, 0)
{
    struct connection c = connection_both(SMALL, 0);
    struct random random = random_from(1);
    struct gather gather;
    unsigned char got[SMALL + 1];
    uint64_t position = 0;
    for (int i = 0; i < scaled(20000); i++) {
        size_t length = random_size(&random, SMALL);
        struct fs_parts parts = cut(&gather, &random, position, length);
        send_whole(&c, &parts);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 0), length);
        stream_check(1, position, got, length);
        position += length;
    }
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

TEST(many_parts_of_one_byte_and_none_at_all, 0)
{
    struct connection c = connection_both(SMALL, 0);
    struct iovec part[MOST];
    unsigned char bytes[MOST], got[MOST];
    for (int i = 0; i < MOST; i++) part[i] = (struct iovec){bytes + i, 1};
    stream_fill(1, 0, bytes, MOST);
    struct fs_parts parts = fs_parts_of(part, MOST), none = fs_parts_of(part, 0);
    CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &none, 0), 0);
    send_whole(&c, &parts);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, MOST, 0, 0), MOST);
    stream_check(1, 0, got, MOST);
    struct iovec empty[3] = {{NULL, 0}, {bytes, 0}, {NULL, 0}};
    none = fs_parts_of(empty, 3);
    CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &none, 0), 0);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, MOST, 0, 0), -EAGAIN);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

/* The rest of the small area would hold a part of it.  Who can wait looks for room there first. */
TEST(a_ring_grows_rather_than_cut_what_is_short, 0)
{
    static const _Atomic int never;
    for (int patient = 0; patient < 2; patient++) {
        struct connection c = connection_both(SMALL, 0);
        struct random random = random_from(2);
        struct gather gather;
        unsigned char got[2 * SMALL];
        struct fs_parts parts = cut(&gather, &random, 0, SMALL - 100);
        send_whole(&c, &parts);
        parts = cut(&gather, &random, SMALL - 100, 300);
        if (patient) {
            CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &parts, FS_PATIENT), -EAGAIN);
            CHECK_EQUAL(fs_ring_unread(&c.end[0]->out), SMALL - 100);
            CHECK_EQUAL(fs_end_wait(c.end[0], c.bell[0], FS_WRITABLE, fs_now_ns() + STALL_NS, &never), 0);
        }
        CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &parts, patient ? FS_PATIENT : 0), 300);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 0), SMALL + 200);
        stream_check(1, 0, got, SMALL + 200);
        for (int side = 0; side < 2; side++) connection_close(&c, side);
    }
}

struct sender {
    struct connection *c;
    struct fs_parts *parts;
};

static void *send_all_of_it(void *argument)
{
    struct sender *sender = argument;
    for (ssize_t sent; sender->parts->left != 0;) {
        sent = fs_end_send_parts(sender->c->end[0], sender->c->bell[0], sender->parts, FS_PATIENT);
        if (sent > 0) CHECK_EQUAL(sender->parts->left, 0);
        else wait_for(sender->c->end[0], sender->c->bell[0], FS_WRITABLE);
    }
    return NULL;
}

/* It finds the ring nearly full all the time. */
TEST(who_waits_for_room_sends_all_of_it_at_once, 0)
{
    for (double spin_us = 0; spin_us <= 50; spin_us += 50) {
        struct connection c = connection_both(SMALL, spin_us);
        struct random random = random_from(4);
        struct gather gather;
        unsigned char got[2 * SMALL];
        uint64_t at = 0, sent = 0;
        for (int i = 0; i < scaled(3000); i++) {
            size_t before = SMALL - random_size(&random, SMALL - 1), length = random_size(&random, SMALL);
            struct fs_parts parts = cut(&gather, &random, sent, before);
            send_whole(&c, &parts);
            parts = cut(&gather, &random, sent + before, length);
            struct sender sender = {&c, &parts};
            pthread_t thread = start_thread(send_all_of_it, &sender);
            for (size_t left = before + length; left > 0;) {
                ssize_t part = receive_some(c.end[1], c.bell[1], got, random_size(&random, sizeof got));
                CHECK(part > 0);
                stream_check(1, at, got, (size_t)part);
                at += (uint64_t)part, left -= (size_t)part;
            }
            join_thread(thread);
            sent += before + length;
        }
        for (int side = 0; side < 2; side++) connection_close(&c, side);
    }
}

#define BOUNDED 8192 /* no ring keeps smaller than TCP's least buffers */

/* Its program asked for a small one. */
TEST(too_little_room_takes_the_first_bytes, 0)
{
    struct connection c = connection_both(BOUNDED, 0);
    struct random random = random_from(3);
    struct gather gather;
    unsigned char got[BOUNDED];
    uint64_t position = 0;
    fs_end_set_send_buffer(c.end[0], BOUNDED / 2);
    for (int i = 0; i < scaled(2000); i++) {
        size_t unread = random_size(&random, BOUNDED - 1), length = BOUNDED - unread + random_size(&random, BOUNDED);
        struct fs_parts parts = cut(&gather, &random, position, unread);
        send_whole(&c, &parts);
        parts = cut(&gather, &random, position + unread, length);
        CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &parts, 0), BOUNDED - unread);
        CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &parts, 0), -EAGAIN);
        CHECK_EQUAL(parts.left, length - (BOUNDED - unread));
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 0), BOUNDED);
        stream_check(1, position, got, BOUNDED);
        position += BOUNDED;
        while (parts.left != 0) {
            ssize_t sent = fs_end_send_parts(c.end[0], c.bell[0], &parts, 0);
            CHECK(sent > 0);
            CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 0), sent);
            stream_check(1, position, got, (size_t)sent);
            position += (uint64_t)sent;
        }
    }
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

/* ---- a reader that waits ---- */

struct reader {
    struct connection *c;
    int rounds, watched;
    size_t most;
};

/* The lengths that both sides draw. */
static size_t next_length(struct random *random, size_t most) { return random_size(random, most); }

static void *answer_whole_ones(void *argument)
{
    struct reader *reader = argument;
    struct connection *c = reader->c;
    struct random lengths = random_from(5);
    unsigned char *got = malloc(reader->most + 1);
    uint64_t position = 0;
    CHECK(got != NULL);
    if (reader->watched) fs_end_watch(c->end[1], c->bell[1]);
    for (int i = 0; i < reader->rounds; i++) {
        size_t length = next_length(&lengths, reader->most);
        CHECK_EQUAL(receive_some(c->end[1], c->bell[1], got, reader->most + 1), length);
        stream_check(1, position, got, length);
        position += length;
        CHECK_EQUAL(send_some(c->end[1], c->bell[1], "k", 1), 1);
    }
    free(got);
    return NULL;
}

static void send_to_one_who_waits(struct connection *c, int rounds, size_t most)
{
    struct random lengths = random_from(5), cuts = random_from(6);
    struct gather *gather = malloc(sizeof *gather);
    uint64_t position = 0;
    char answer;
    CHECK(gather != NULL);
    for (int i = 0; i < rounds; i++) {
        size_t length = next_length(&lengths, most);
        struct fs_parts parts = cut(gather, &cuts, position, length);
        CHECK_EQUAL(fs_end_send_parts(c->end[0], c->bell[0], &parts, i % 2 ? FS_PATIENT : 0), length);
        position += length;
        CHECK_EQUAL(receive_some(c->end[0], c->bell[0], &answer, 1), 1);
    }
    free(gather);
}

static void run_waiting_thread(uint32_t small, double spin_us, int watched, size_t most)
{
    struct connection c = connection_both(small, spin_us);
    struct reader reader = {&c, scaled(20000), watched, most};
    pthread_t thread = start_thread(answer_whole_ones, &reader);
    send_to_one_who_waits(&c, reader.rounds, most);
    join_thread(thread);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

TEST(one_who_waits_sees_no_part_of_a_gather, 0) { run_waiting_thread(SMALL, 50, 0, 1000); }
TEST(one_who_waits_asleep_sees_no_part_of_a_gather, 0) { run_waiting_thread(SMALL, 0, 1, 1000); }
TEST(one_who_waits_sees_no_part_of_a_chunk, 0) { run_waiting_thread(1 << 20, 50, 0, FS_TOGETHER); }
TEST(one_who_waits_sees_no_part_of_what_makes_the_ring_grow, 0) { run_waiting_thread(SMALL, 50, 0, 4 * SMALL); }

TEST(another_process_that_waits_sees_no_part_of_a_gather, NEEDS_PROCESSES)
{
    struct connection c = connection_make(SMALL);
    int rounds = scaled(20000);
    pid_t other = start_process();
    int side = other == 0;
    connection_forget(&c, !side);
    connection_open(&c, side, 50);
    if (other == 0) {
        struct reader reader = {&c, rounds, 0, 3000};
        answer_whole_ones(&reader);
        connection_close(&c, 1);
        exit(0);
    }
    send_to_one_who_waits(&c, rounds, 3000);
    join_process(other);
    connection_close(&c, 0);
}

/* ---- several who send ---- */

#define RECORD 304
#define HEADER 4

struct writer {
    struct connection *c;
    unsigned char name;
    int records;
};

#define RECORDS 6000 /* of each of three: the ring has room for all, and TCP too mixes what finds none */

/* Records of a header and a body, each of one byte all along. */
static void *write_records(void *argument)
{
    struct writer *writer = argument;
    unsigned char bytes[RECORD];
    memset(bytes, writer->name, sizeof bytes);
    for (int i = 0; i < writer->records; i++) {
        struct iovec part[2] = {{bytes, HEADER}, {bytes + HEADER, RECORD - HEADER}};
        struct fs_parts parts = fs_parts_of(part, 2);
        send_whole(writer->c, &parts);
    }
    return NULL;
}

static void read_records(struct connection *c, int records)
{
    unsigned char record[RECORD];
    for (int i = 0; i < records; i++) {
        for (size_t done = 0; done < sizeof record;) {
            ssize_t got = receive_some(c->end[1], c->bell[1], record + done, sizeof record - done);
            CHECK(got > 0);
            done += (size_t)got;
        }
        for (int at = 1; at < RECORD; at++) CHECK_EQUAL(record[at], record[0]);
    }
}

TEST(gathers_of_several_threads_do_not_mix, 0)
{
    struct connection c = connection_both(1 << 20, 50);
    struct writer writers[3];
    pthread_t threads[3];
    int records = scaled(RECORDS);
    for (int i = 0; i < 3; i++) {
        writers[i] = (struct writer){&c, (unsigned char)('a' + i), records};
        threads[i] = start_thread(write_records, &writers[i]);
    }
    read_records(&c, 3 * records);
    for (int i = 0; i < 3; i++) join_thread(threads[i]);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

TEST(gathers_of_forked_processes_do_not_mix, NEEDS_PROCESSES)
{
    struct connection c = connection_both(1 << 20, 50);
    int records = scaled(RECORDS);
    pid_t writers[3];
    for (int i = 0; i < 3; i++) {
        writers[i] = start_process();
        if (writers[i] == 0) {
            struct writer writer = {&c, (unsigned char)('a' + i), records};
            write_records(&writer);
            _exit(0);
        }
    }
    read_records(&c, 3 * records);
    for (int i = 0; i < 3; i++) join_process(writers[i]);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

/* ---- past the ring ---- */

TEST(a_released_descriptor_takes_a_gather_at_once, 0)
{
    struct connection c = connection_both(SMALL, 0);
    struct random random = random_from(9);
    struct gather gather;
    unsigned char got[SMALL];
    for (int side = 0; side < 2; side++) CHECK_EQUAL(fs_end_release(c.end[side], c.bell[side]), 0);
    struct fs_parts parts = cut(&gather, &random, 0, 3000), none = fs_parts_of(gather.part, 0);
    CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &parts, 0), 3000);
    CHECK_EQUAL(parts.left, 0);
    CHECK_EQUAL(recv(c.bell[1], got, sizeof got, MSG_DONTWAIT), 3000);
    stream_check(1, 0, got, 3000);
    CHECK_EQUAL(fs_end_send_parts(c.end[0], c.bell[0], &none, 0), 0);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

TEST(one_send_takes_the_first_bytes_of_a_gather, 0)
{
    int pair[2];
    char bytes[] = "abcdefgh", got[9];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    for (size_t most = 0; most < sizeof bytes; most++) {
        struct iovec part[5] = {{NULL, 0}, {bytes, 1}, {bytes + 1, 4}, {NULL, 0}, {bytes + 5, 3}};
        struct fs_parts parts = fs_parts_of(part, 5);
        CHECK_EQUAL(fs_parts_send(pair[0], &parts, most, MSG_DONTWAIT), most);
        CHECK_EQUAL(parts.left, 8);
        if (most != 0) CHECK_EQUAL(recv(pair[1], got, sizeof got, MSG_DONTWAIT), most);
        CHECK(memcmp(got, bytes, most) == 0);
        fs_parts_advance(&parts, most);
        CHECK_EQUAL(fs_parts_first(&parts), most == 0 ? 1 : most < 5 ? 5 - most : 8 - most);
    }
    close(pair[0]);
    close(pair[1]);
}
