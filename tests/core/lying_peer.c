#define _GNU_SOURCE
#include "lying_peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RING 4096
#define LOOKS 300

static struct liar *alone(void)
{
    static unsigned char *memory;
    int error;
    struct fs_engine_options options = {.eager_limit = LIAR_LIMIT, .credit = 1 << 20, .spin_us = 0};
    struct liar *liar = calloc(1, sizeof *liar);
    CHECK(liar != NULL);
    if (!memory) memory = calloc(1, LIAR_LONG);
    liar->memory = memory;
    liar->engine = fs_engine_new(0, 2, &options, &error);
    CHECK(liar->engine != NULL && liar->memory != NULL);
    liar->nonce = 4243;
    liar->stamps[0] = liar->nonce;
    return liar;
}

struct liar *liar_new(void)
{
    struct liar *liar = alone();
    struct connection c = connection_make(RING);
    c.holder[0] = c.holder[1] = getpid();
    for (int side = 0; side < 2; side++) connection_open(&c, side, 0);
    CHECK_EQUAL(fs_engine_attach_end(liar->engine, 1, c.end[0], c.bell[0]), 0);
    fs_end_free(c.end[0]);
    liar->end = c.end[1];
    liar->bell = c.bell[1];
    close(c.memory);
    return liar;
}

struct liar *liar_over_a_socket(void)
{
    int pair[2];
    struct liar *liar = alone();
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    CHECK_EQUAL(fs_engine_attach_descriptor(liar->engine, 1, pair[0]), 0);
    liar->bell = pair[1];
    return liar;
}

void liar_free(struct liar *liar)
{
    if (liar->end) fs_end_closing(liar->end, liar->bell, 0);
    close(liar->bell);
    if (liar->end) fs_end_closed(liar->end);
    if (liar->end) fs_end_free(liar->end);
    for (int i = 0; i < 100; i++) fs_engine_progress(liar->engine);
    fs_engine_close(liar->engine);
    fs_engine_release(liar->engine);
    free(liar);
}

static ssize_t write_some(struct liar *liar, const void *data, size_t length)
{
    if (liar->end) return fs_end_send(liar->end, liar->bell, data, length, FS_NO_SIGNAL);
    return send(liar->bell, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t read_some(struct liar *liar, void *target, size_t length)
{
    if (liar->end) return fs_end_receive(liar->end, liar->bell, target, length, 0, 0);
    return recv(liar->bell, target, length, MSG_DONTWAIT);
}

int liar_write(struct liar *liar, const void *data, size_t length)
{
    const char *from = data;
    for (int i = 0; length > 0;) {
        ssize_t sent = write_some(liar, from, length);
        if (sent > 0) {
            from += sent, length -= (size_t)sent;
            continue;
        }
        if (i++ == LOOKS) return 0; /* that link has ended */
        liar_progress(liar);
    }
    return 1;
}

size_t liar_read(struct liar *liar, void *target, size_t length)
{
    ssize_t got = read_some(liar, target, length);
    return got > 0 ? (size_t)got : 0;
}

void liar_put(struct liar *liar, struct fs_frame frame)
{
    static const char zeros[1024];
    liar_write(liar, &frame, sizeof frame);
    if (frame.kind != FS_FRAME_EAGER && frame.kind != FS_FRAME_DATA && frame.kind != FS_FRAME_GREETING) return;
    for (uint64_t left = frame.length, part; left > 0; left -= part) {
        part = left < sizeof zeros ? left : sizeof zeros;
        liar_write(liar, zeros, part);
    }
}

void liar_greet(struct liar *liar)
{
    struct fs_frame frame = fs_frame_of(FS_FRAME_GREETING, 0, sizeof(struct fs_greeting), 0);
    struct fs_greeting greeting = {.version = FS_FRAME_VERSION,
                                   .byte_order = FS_FRAME_ORDER,
                                   .rank = 1,
                                   .credit = 1 << 20,
                                   .eager_limit = LIAR_LIMIT,
                                   .nonce = liar->nonce,
                                   .stamps = (uint64_t)(uintptr_t)liar->stamps,
                                   .calls = (uint64_t)(uintptr_t)&liar->calls,
                                   .gate = (uint64_t)(uintptr_t)&liar->gate};
    liar_write(liar, &frame, sizeof frame);
    liar_write(liar, &greeting, sizeof greeting);
    liar_progress(liar);
}

static void read_exactly(struct liar *liar, void *target, size_t length)
{
    char drop[4096];
    for (int i = 0; length > 0; i++) {
        size_t part = target || length < sizeof drop ? length : sizeof drop;
        ssize_t got = read_some(liar, target ? target : drop, part);
        if (got <= 0) {
            CHECK(i < LOOKS);
            liar_progress(liar);
            continue;
        }
        if (target) target = (char *)target + got;
        length -= (size_t)got;
    }
}

struct fs_greeting liar_get_greeting(struct liar *liar)
{
    struct fs_frame frame;
    struct fs_greeting greeting;
    read_exactly(liar, &frame, sizeof frame);
    read_exactly(liar, &greeting, sizeof greeting);
    return greeting;
}

struct fs_frame liar_get(struct liar *liar, int kind)
{
    for (;;) {
        struct fs_frame frame;
        read_exactly(liar, &frame, sizeof frame);
        if (frame.kind == kind) return frame;
        if (frame.kind == FS_FRAME_EAGER || frame.kind == FS_FRAME_DATA || frame.kind == FS_FRAME_GREETING)
            read_exactly(liar, NULL, frame.length);
    }
}

void liar_progress(struct liar *liar)
{
    if (liar->end) liar->end->header->cpu[1] = 9999;
    fs_engine_progress(liar->engine);
}

void liar_stamp(struct liar *liar, uint32_t id)
{
    if ((id & FS_INDEX_MASK) < FS_STAMPS) liar->stamps[id & FS_INDEX_MASK] = liar->nonce + ((uint64_t)id << 1);
}

struct fs_frame liar_announcement(struct liar *liar, uint32_t id, uint64_t length, int fetched)
{
    liar_stamp(liar, id);
    return fs_frame_of(FS_FRAME_READY_TO_SEND, id, length, fetched ? (uint64_t)(uintptr_t)liar->memory : 0);
}

struct held held_new(int kind, size_t length)
{
    struct held held = {calloc(1, sizeof(struct fs_request)), malloc(length)};
    CHECK(held.request != NULL && held.buffer != NULL);
    memset(held.buffer, 'v', length);
    held.request->one = (struct iovec){held.buffer, length};
    fs_request_prepare(held.request, kind, NULL, 1);
    return held;
}

int held_settle(struct held *held)
{
    if (!held->request || !fs_request_is_done(held->request)) return 0;
    free(held->request);
    free(held->buffer);
    *held = (struct held){NULL, NULL};
    return 1;
}
