/* A link over the memory of a TCP connection: whatever the other end writes there and onto TCP, and whenever, the engine's
 * calls end, and stay in their bounds. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/link.h"
#include "fuzz_input.h"
#include "switch/pair.h"

#define REQUESTS 8
#define LARGEST 9000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fs_engine_options options = {.eager_limit = 3000, .credit = 100000, .spin_us = 0};

static void nudge(void *memory, size_t bytes, uint64_t where, uint32_t by)
{
    uint32_t value;
    unsigned char *place = (unsigned char *)memory + where % (bytes / 4) * 4;
    memcpy(&value, place, sizeof value);
    value += by;
    memcpy(place, &value, sizeof value);
}

struct scene {
    struct pair pair;
    struct fs_engine *engine;
    struct fs_end *other;
    struct fs_request requests[REQUESTS];
    unsigned char bytes[REQUESTS][LARGEST];
    int busy[REQUESTS];
};

static void begin(struct scene *scene, int which, size_t length, int sends)
{
    struct fs_request *request = &scene->requests[which];
    if (scene->busy[which]) fs_engine_abandon(scene->engine, request);
    request->one = (struct iovec){scene->bytes[which], length % LARGEST};
    fs_request_prepare(request, sends ? FS_SENDING : FS_RECEIVING, NULL, 1);
    scene->busy[which] = sends ? fs_engine_send(scene->engine, request, 1, which % 2, 0, FS_STANDARD) != FS_DONE
                               : (fs_engine_receive(scene->engine, request, FS_ANY, FS_ANY, 0), 1);
}

static void await(struct scene *scene, int which)
{
    struct fs_wait wait;
    struct fs_request *request = &scene->requests[which];
    if (!scene->busy[which]) return;
    fs_wait_prepare(&wait, scene->engine, &request, 1, 1, fs_now_ns() + 1000);
    for (int i = 0; i < 3 && fs_wait(&wait) == FS_LOOK_UP; i++) {}
}

/* What the other end's engine would write, and what it would not. */
static void put(struct scene *scene, struct fuzz_input *input, int is_frame)
{
    unsigned char block[256];
    size_t length = fuzz_take(input, 1);
    if (is_frame) {
        struct fs_frame frame = fs_frame_of((int)fuzz_take(input, 1), (uint32_t)fuzz_take(input, 1), length, 0);
        memcpy(block, &frame, length = sizeof frame);
    } else {
        for (size_t i = 0; i < length; i++) block[i] = (unsigned char)fuzz_take(input, 1);
    }
    if (fs_ring_space(&scene->other->out, length) >= (ssize_t)length) fs_ring_put(&scene->other->out, block, length);
}

static void step(struct scene *scene, struct fuzz_input *input)
{
    uint64_t op = fuzz_take(input, 1);
    struct fs_segment_header *header = scene->other->header;
    int other = scene->pair.fd[1], which = (int)(op / 16 % REQUESTS);
    char block[16];
    switch (op % 16) {
    case 0: nudge(header, sizeof *header, fuzz_take(input, 2), (uint32_t)fuzz_take(input, 4)); break;
    case 1:
    case 2: nudge(header->words, sizeof header->words, fuzz_take(input, 1), (uint32_t)(op / 16) - 4); break;
    case 3: nudge(&header->direction[0], sizeof header->direction, fuzz_take(input, 1), (uint32_t)(op / 16) - 4); break;
    case 4: send(other, block, op / 16 + 1, MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case 5: recv(other, block, sizeof block, MSG_DONTWAIT); break;
    case 6:
    case 7: put(scene, input, op % 16 == 6); break;
    case 8: begin(scene, which, fuzz_take(input, 2), 1); break;
    case 9: begin(scene, which, fuzz_take(input, 2), 0); break;
    case 10:
    case 11: await(scene, which); break;
    case 12:
        if (op / 16 == 0) shutdown(other, SHUT_WR);
        break;
    case 13: /* as a reader that is at work */
        if (fs_ring_used(&scene->other->in) > 0) fs_ring_consume(&scene->other->in, 1);
        break;
    default: fs_engine_progress(scene->engine);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    static struct scene scene;
    int error = 0;
    memset(scene.busy, 0, sizeof scene.busy);
    scene.pair = pair_by_ring(4096);
    scene.engine = fs_engine_new(0, 2, &options, &error);
    CHECK(scene.engine != NULL);
    scene.other = fs_end_hold(scene.pair.end[1]->end);
    CHECK_EQUAL(fs_engine_attach_memory(scene.engine, 1, scene.pair.fd[0]), 0);
    for (int steps = 0; input.left > 0 && steps < 200; steps++) step(&scene, &input);
    for (int i = 0; i < REQUESTS; i++)
        if (scene.busy[i]) fs_engine_abandon(scene.engine, &scene.requests[i]);
    fs_engine_close(scene.engine);
    fs_engine_release(scene.engine);
    fs_end_free(scene.other);
    pair_close(&scene.pair, 1);
    pair_done(&scene.pair);
    return 0;
}
