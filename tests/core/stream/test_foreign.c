/* Code that knows nothing of the ring writes to an end's descriptor: its bytes are payload, those of a farewell never are. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

enum { READER, WRITER };
enum leaving { CLOSES, SHUTS, SHUTS_AND_CLOSES, SHUTS_BOTH, DIES, WAYS };

static const _Atomic int never_leaving;

struct story {
    struct connection c;
    uint64_t through_ring, foreign; /* bytes, in this order */
    enum leaving leaving;
    uint64_t salt;
    int watched, settles, peeks, blocks;
};

static void leave(struct story *s)
{
    struct fs_end *end = s->c.end[WRITER];
    int bell = s->c.bell[WRITER];
    if (s->leaving == SHUTS || s->leaving == SHUTS_AND_CLOSES) CHECK_EQUAL(fs_end_shutdown(end, bell, SHUT_WR), 0);
    if (s->leaving == SHUTS_BOTH) CHECK_EQUAL(fs_end_shutdown(end, bell, SHUT_RDWR), 0);
    if (s->leaving == CLOSES || s->leaving == SHUTS_AND_CLOSES) {
        fs_end_closing(end, bell, 0);
        close(bell);
        fs_end_closed(end);
    }
    if (s->leaving == DIES) close(bell);
}

static void *write_and_leave(void *argument)
{
    struct story *s = argument;
    unsigned char *block = malloc(s->through_ring + s->foreign + 1);
    CHECK(block != NULL);
    stream_fill(WRITER, 0, block, s->through_ring + s->foreign);
    uint64_t sent = s->through_ring;
    CHECK_EQUAL(send_everything(s->c.end[WRITER], s->c.bell[WRITER], block, sent), (ssize_t)sent);
    struct random random = random_from(s->salt);
    while (sent < s->through_ring + s->foreign) {
        size_t size = random_size(&random, s->through_ring + s->foreign - sent);
        ssize_t done = send(s->c.bell[WRITER], block + sent, size, MSG_NOSIGNAL);
        CHECK(done > 0);
        sent += (uint64_t)done;
    }
    leave(s);
    free(block);
    return NULL;
}

static void *read_to_the_end(void *argument)
{
    struct story *s = argument;
    struct fs_end *end = s->c.end[READER];
    int bell = s->c.bell[READER];
    unsigned char block[5000];
    struct random random = random_from(s->salt + 1);
    uint64_t got = 0, limit = fs_now_ns() + STALL_NS;
    for (int look = !s->blocks;;) {
        CHECK(fs_now_ns() < limit);
        if (s->settles && random_below(&random, 3) == 0) fs_end_settle(end, bell, 0);
        size_t size = random_size(&random, sizeof block);
        ssize_t done;
        if (s->peeks && random_below(&random, 2)) {
            done = fs_end_receive(end, bell, block, size, FS_PEEK, 1);
            if (done > 0) stream_check(WRITER, got, block, (size_t)done);
        }
        done = fs_end_receive(end, bell, block, size, 0, look);
        look = 1;
        if (done == -EAGAIN) {
            if (s->blocks) CHECK_EQUAL(fs_end_wait(end, bell, FS_READABLE, limit, &never_leaving), 0);
            continue;
        }
        CHECK(done >= 0);
        if (done == 0) break;
        stream_check(WRITER, got, block, (size_t)done);
        got += (uint64_t)done;
        CHECK(got <= s->through_ring + s->foreign);
    }
    if (got != s->through_ring + s->foreign)
        fail(__FILE__, __LINE__, "read %llu of %llu and %llu foreign bytes (story %llu, leaving %d)",
             (unsigned long long)got, (unsigned long long)s->through_ring, (unsigned long long)s->foreign,
             (unsigned long long)s->salt, s->leaving);
    CHECK_EQUAL(fs_end_receive(end, bell, block, 1, 0, 1), 0);
    return NULL;
}

static void tell(uint64_t salt, int has_foreign)
{
    struct random random = random_from(salt);
    struct story s = {.c = connection_both(4096, random_below(&random, 3) ? 0 : 20), .salt = salt};
    s.through_ring = random_below(&random, 2) ? random_size(&random, 9000) : 0;
    s.foreign = has_foreign ? random_size(&random, 20000) : 0;
    s.leaving = (enum leaving)random_below(&random, has_foreign ? WAYS : DIES);
    s.settles = (int)random_below(&random, 2), s.peeks = (int)random_below(&random, 2),
    s.blocks = (int)random_below(&random, 2);
    s.watched = (int)random_below(&random, 3);
    if (s.watched) fs_end_watch(s.c.end[READER], s.c.bell[READER]);
    if (s.watched == 2) fs_end_set_lazy(s.c.end[READER], 1);
    if (random_below(&random, 2)) fs_end_watch(s.c.end[WRITER], s.c.bell[WRITER]);
    pthread_t writer, reader;
    if (random_below(&random, 4) == 0) { /* all is over before anybody looks */
        writer = start_thread(write_and_leave, &s);
        if (s.through_ring <= 4096) join_thread(writer);
        reader = start_thread(read_to_the_end, &s);
        if (s.through_ring > 4096) join_thread(writer);
        join_thread(reader);
    } else {
        reader = start_thread(read_to_the_end, &s);
        writer = start_thread(write_and_leave, &s);
        join_thread(writer);
        join_thread(reader);
    }
    if (s.leaving == SHUTS || s.leaving == SHUTS_BOTH) {
        fs_end_closing(s.c.end[WRITER], s.c.bell[WRITER], 0);
        close(s.c.bell[WRITER]);
        fs_end_closed(s.c.end[WRITER]);
    }
    fs_end_free(s.c.end[WRITER]);
    s.c.end[WRITER] = NULL;
    connection_close(&s.c, READER);
}

TEST(what_foreign_code_wrote_is_read_before_the_end, 0)
{
    for (int i = 0; i < scaled(3000); i++) tell(100000 + 2 * (uint64_t)i, 1);
}

TEST(a_farewell_is_never_payload, 0)
{
    for (int i = 0; i < scaled(3000); i++) tell(120000 + 2 * (uint64_t)i, 0);
}

TEST(who_saw_foreign_bytes_answers_over_the_descriptor, 0)
{
    struct connection c = connection_both(4096, 0);
    char got[8];
    for (int watched = 0; watched < 2; watched++) {
        CHECK_EQUAL(send(c.bell[WRITER], "ask", 3, 0), 3);
        CHECK_EQUAL(receive_some(c.end[READER], c.bell[READER], got, sizeof got), 3);
        CHECK_EQUAL(send_everything(c.end[READER], c.bell[READER], "reply", 5), 5);
        CHECK_EQUAL(recv(c.bell[WRITER], got, sizeof got, MSG_DONTWAIT), 5);
        fs_end_watch(c.end[READER], c.bell[READER]);
    }
    connection_close(&c, WRITER);
    connection_close(&c, READER);
}

TEST(foreign_bytes_behind_what_nobody_read_are_refused, 0)
{
    struct connection c = connection_both(4096, 0);
    char got;
    CHECK_EQUAL(send_everything(c.end[READER], c.bell[READER], "banner", 6), 6); /* its token is no payload */
    CHECK_EQUAL(send(c.bell[WRITER], "ask", 3, 0), 3);
    CHECK_EQUAL(fs_end_receive(c.end[READER], c.bell[READER], &got, 1, 0, 1), -EPROTO);
    connection_close(&c, WRITER);
    connection_close(&c, READER);
}

TEST(a_close_with_foreign_bytes_unread_resets, 0)
{
    struct connection c = connection_both(4096, 0);
    char got;
    CHECK_EQUAL(send(c.bell[WRITER], "ask", 3, 0), 3);
    connection_close(&c, READER);
    CHECK_EQUAL(recv(c.bell[WRITER], &got, 1, 0), -1);
    CHECK_EQUAL(errno, ECONNRESET);
    CHECK_EQUAL(recv(c.bell[WRITER], &got, 1, 0), 0);
    connection_close(&c, WRITER);
}

TEST(a_half_close_tells_foreign_code_of_the_end_and_nothing_else, 0)
{
    struct connection c = connection_both(4096, 0);
    char got[8];
    CHECK_EQUAL(send(c.bell[WRITER], "ask", 3, 0), 3);
    CHECK_EQUAL(fs_end_shutdown(c.end[READER], c.bell[READER], SHUT_WR), 0);
    CHECK_EQUAL(recv(c.bell[WRITER], got, sizeof got, 0), 0);
    CHECK_EQUAL(receive_some(c.end[READER], c.bell[READER], got, sizeof got), 3);
    connection_close(&c, READER);
    CHECK_EQUAL(recv(c.bell[WRITER], got, sizeof got, 0), 0);
    connection_close(&c, WRITER);
}

TEST(a_close_behind_foreign_bytes_and_a_farewell_is_orderly, 0)
{
    struct connection c = connection_both(4096, 0);
    char got[8];
    CHECK_EQUAL(send(c.bell[WRITER], "last", 4, 0), 4);
    CHECK_EQUAL(fs_end_shutdown(c.end[WRITER], c.bell[WRITER], SHUT_WR), 0);
    CHECK_EQUAL(receive_some(c.end[READER], c.bell[READER], got, sizeof got), 4);
    CHECK_EQUAL(receive_some(c.end[READER], c.bell[READER], got, sizeof got), 0);
    connection_close(&c, READER);
    CHECK_EQUAL(receive_some(c.end[WRITER], c.bell[WRITER], got, sizeof got), 0);
    CHECK_EQUAL(fs_end_take_error(c.end[WRITER], c.bell[WRITER]), 0);
    connection_close(&c, WRITER);
}

TEST(a_descriptor_with_a_farewell_behind_payload_is_not_given_away, 0)
{
    struct connection c = connection_both(4096, 0);
    char got[8];
    int inner[2];
    CHECK_EQUAL(send(c.bell[WRITER], "last", 4, 0), 4);
    connection_close(&c, WRITER);
    CHECK_EQUAL(fs_end_receive(c.end[READER], c.bell[READER], got, 1, 0, 1), 1);
    CHECK_EQUAL(fs_end_unread(c.end[READER], c.bell[READER]), 3);
    CHECK_EQUAL(fs_end_release(c.end[READER], c.bell[READER]), -EAGAIN);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, inner) == 0);
    CHECK_EQUAL(fs_bridge_start(c.end[READER], c.bell[READER], inner[1]), 0);
    fs_end_free(c.end[READER]); /* the bridge holds it now */
    CHECK_EQUAL(recv(inner[0], got, sizeof got, MSG_WAITALL), 3);
    CHECK_EQUAL(recv(inner[0], got, sizeof got, 0), 0);
    close(inner[0]);
    close(c.memory);
}

TEST(a_refused_send_leaves_no_byte_on_the_doorbell, 0)
{
    struct connection c = connection_both(4096, 0);
    char got[8];
    signal(SIGPIPE, SIG_IGN);
    fs_end_watch(c.end[WRITER], c.bell[WRITER]);
    CHECK_EQUAL(send_everything(c.end[WRITER], c.bell[WRITER], "abc", 3), 3);
    CHECK_EQUAL(fs_end_shutdown(c.end[WRITER], c.bell[WRITER], SHUT_RDWR), 0); /* not shown while that is unread */
    CHECK_EQUAL(fs_end_send(c.end[WRITER], c.bell[WRITER], "d", 1, 0), -EPIPE);
    CHECK_EQUAL(fs_doorbell_foreign(c.end[READER], c.bell[READER]), 0);
    CHECK_EQUAL(receive_some(c.end[READER], c.bell[READER], got, sizeof got), 3);
    CHECK_EQUAL(receive_some(c.end[READER], c.bell[READER], got, sizeof got), 0);
    connection_close(&c, WRITER);
    connection_close(&c, READER);
}

static volatile sig_atomic_t signals;
static void count_signal(int number) { (void)number, signals++; }

TEST(a_send_behind_a_shutdown_that_is_not_shown_raises_the_signal, 0)
{
    struct connection c = connection_both(4096, 0);
    signal(SIGPIPE, count_signal);
    fs_end_watch(c.end[WRITER], c.bell[WRITER]);
    CHECK_EQUAL(send_everything(c.end[WRITER], c.bell[WRITER], "abc", 3), 3);
    CHECK_EQUAL(fs_end_shutdown(c.end[WRITER], c.bell[WRITER], SHUT_RDWR), 0);
    CHECK_EQUAL(fs_end_send(c.end[WRITER], c.bell[WRITER], "d", 1, 0), -EPIPE);
    CHECK_EQUAL(signals, 1);
    CHECK_EQUAL(fs_end_send(c.end[WRITER], c.bell[WRITER], "d", 1, FS_NO_SIGNAL), -EPIPE);
    CHECK_EQUAL(signals, 1);
    connection_close(&c, WRITER);
    connection_close(&c, READER);
}
