/* The bytes are what a peer sends, cut into pieces, and between them what the victim does.  Nothing may crash, and when
 * the peer has gone nothing is left pending. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "engine.h"
#include "frame.h"
#include "link.h"

#define REQUESTS 8
#define ROOM 5000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    when_failing = abort;
    signal(SIGPIPE, SIG_IGN); /* the victim closes on what is wrong */
    return 0;
}

static struct fs_request requests[REQUESTS];
static unsigned char room[REQUESTS][ROOM];

static void start(struct fs_engine *engine, int which, uint8_t how)
{
    struct fs_request *request = &requests[which];
    if (request->engine && !fs_request_is_done(request)) {
        if (how & 0x80) fs_engine_cancel(engine, request);
        return;
    }
    free(request->payload);
    request->one = (struct iovec){room[which], how & 0x10 ? ROOM : how & 7};
    fs_request_prepare(request, how & 0x20 ? FS_SENDING : FS_RECEIVING, NULL, 1);
    request->allocates = !(how & 0x20) && how & 8;
    if (how & 0x20) fs_engine_send(engine, request, 1, how & 3, 0, how >> 6 & 1);
    else fs_engine_receive(engine, request, how & 0x40 ? FS_ANY : 1, how & 4 ? FS_ANY : how & 3, 0);
}

/* A frame made of a few bytes, so that what is interesting is likely. */
static size_t make_frame(const uint8_t **data, size_t *left, struct fs_frame *frame)
{
    uint8_t bytes[8] = {0};
    size_t take = *left < sizeof bytes ? *left : sizeof bytes;
    memcpy(bytes, *data, take);
    *data += take, *left -= take;
    *frame = fs_frame_of(bytes[0] % 14, bytes[1], (uint64_t)bytes[2] << (bytes[3] & 15), bytes[4]);
    frame->tag = bytes[5] & 3;
    frame->context = bytes[6] & 1;
    if (bytes[7] & 1) frame->id |= (uint32_t)bytes[3] << 20;
    if (bytes[7] & 2) frame->word = (uint64_t)(uintptr_t)room;
    if (bytes[7] == 0xff) frame->magic = 0;
    return sizeof *frame;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fs_engine_options options = {.eager_limit = 1000, .credit = 20000, .spin_us = 0};
    int error, pair[2];
    struct fs_engine *engine = fs_engine_new(0, 2, &options, &error);
    CHECK(engine != NULL);
    memset(requests, 0, sizeof requests);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    CHECK_EQUAL(fs_engine_attach_descriptor(engine, 1, pair[0]), 0);
    if (length > 0 && !(data[0] & 1)) { /* an honest greeting first */
        struct fs_frame frame = fs_frame_of(FS_FRAME_GREETING, 0, sizeof(struct fs_greeting), 0);
        struct fs_greeting greeting = {
            .version = FS_FRAME_VERSION, .byte_order = FS_FRAME_ORDER, .rank = 1, .credit = 20000, .eager_limit = 1000};
        CHECK_EQUAL(write(pair[1], &frame, sizeof frame), (ssize_t)sizeof frame);
        CHECK_EQUAL(write(pair[1], &greeting, sizeof greeting), (ssize_t)sizeof greeting);
    }
    while (length > 1) {
        uint8_t step = data[0], how = data[1];
        char drop[4096];
        struct fs_frame frame;
        data += 2, length -= 2;
        if (step % 4 == 0) {
            start(engine, how % REQUESTS, step ^ (uint8_t)(how << 3));
        } else if (step % 4 == 1) {
            size_t part = how < length ? how : length;
            if (write(pair[1], data, part) > 0) data += part, length -= part;
        } else {
            size_t size = make_frame(&data, &length, &frame);
            if (write(pair[1], &frame, size) < 0) break;
            if (how & 1 && write(pair[1], room, frame.length < ROOM ? frame.length : ROOM) < 0) break;
        }
        fs_engine_progress(engine);
        while (read(pair[1], drop, sizeof drop) > 0) {}
    }
    close(pair[1]);
    for (int i = 0; i < 100; i++) fs_engine_progress(engine);
    fs_engine_close(engine);
    for (int i = 0; i < REQUESTS; i++) {
        if (requests[i].engine) CHECK(fs_request_is_done(&requests[i]));
        free(requests[i].payload);
        requests[i].payload = NULL;
    }
    fs_engine_release(engine);
    return 0;
}
