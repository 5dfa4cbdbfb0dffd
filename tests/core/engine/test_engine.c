/* The message engine: random traffic of threads over every kind of link, cancelling, abandoning and failing in between. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/link.h"
#include "engines.h"
#include "strided.h"
#include "switch/pair.h"

enum path { LOCAL, RING, TINY_RING, MEMORY, TINY_MEMORY, STREAM };

static void attach_ends(struct fs_engine *engines[2], uint32_t ring)
{
    struct connection c = connection_make(ring);
    c.holder[0] = c.holder[1] = getpid(); /* both may read the other's memory */
    for (int side = 0; side < 2; side++) {
        connection_open(&c, side, 20);
        CHECK_EQUAL(fs_engine_attach_end(engines[side], !side, c.end[side], c.bell[side]), 0);
        fs_end_free(c.end[side]);
    }
    close(c.memory);
}

/* TCP connections that have gained it. */
static void attach_memories(struct fs_engine *engines[2], uint32_t ring)
{
    struct pair pair = pair_by_ring(ring);
    for (int side = 0; side < 2; side++) {
        fs_attach_peer(pair.end[side], getpid()); /* both may read the other's memory */
        CHECK_EQUAL(fs_engine_attach_memory(engines[side], !side, pair.fd[side]), 0);
    }
    pair_done(&pair);
}

static void join(struct fs_engine *engines[2], enum path path)
{
    int pair[2];
    switch (path) {
    case LOCAL:
        for (int i = 0; i < 2; i++) CHECK_EQUAL(fs_engine_attach_local(engines[i], !i, engines[!i]), 0);
        break;
    case STREAM:
        CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        for (int i = 0; i < 2; i++) CHECK_EQUAL(fs_engine_attach_descriptor(engines[i], !i, pair[i]), 0);
        break;
    case MEMORY:
    case TINY_MEMORY: attach_memories(engines, path == MEMORY ? 65536 : 4096); break;
    default: attach_ends(engines, path == RING ? 65536 : 4096);
    }
}

static void await(struct fs_engine *engine, struct fs_request *request)
{
    struct fs_wait wait;
    uint64_t limit = fs_now_ns() + STALL_NS;
    fs_wait_prepare(&wait, engine, &request, 1, 1, limit);
    int result;
    do result = fs_wait(&wait);
    while (result == FS_LOOK_UP || result == -EINTR);
    CHECK_EQUAL(result, FS_SATISFIED);
}

/* ---- what is expected before anything is sent ---- */

static void run_expecting(enum path path)
{
    struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
    join(engines, path);
    for (int round = 0; round < 20; round++) {
        static unsigned char from[2][20000], into[2][20000];
        size_t length = round % 2 ? sizeof from[0] : 100; /* announced, or with its bytes */
        struct fs_request sends[2], receives[2];
        struct fs_envelope envelope;
        for (int i = 0; i < 2; i++) {
            memset(from[i], round + i + 1, length);
            sends[i].one = (struct iovec){from[i], length};
            receives[i].one = (struct iovec){into[i], length};
            fs_request_prepare(&sends[i], FS_SENDING, NULL, 1);
            fs_request_prepare(&receives[i], FS_RECEIVING, NULL, 1);
        }
        fs_engine_send(engines[0], &sends[0], 1, 3, 0, FS_STANDARD);
        while (fs_engine_probe(engines[1], 0, 3, 0, &envelope) != FS_HERE) fs_engine_progress(engines[1]);
        /* it is not taken, by no number of calls */
        CHECK_EQUAL(fs_engine_expect(engines[1], &receives[0], 0, 3, 0), FS_LATER);
        CHECK_EQUAL(fs_engine_expect(engines[1], &receives[0], FS_ANY, FS_ANY, 0), FS_LATER);
        CHECK(!fs_request_is_done(&receives[0]));
        CHECK_EQUAL(fs_engine_probe(engines[1], 0, 3, 0, &envelope), FS_HERE);
        /* what has not come is waited for, beside it */
        CHECK_EQUAL(fs_engine_expect(engines[1], &receives[1], 0, 4, 0), FS_PENDING);
        fs_engine_receive(engines[1], &receives[0], 0, 3, 0);
        fs_engine_send(engines[0], &sends[1], 1, 4, 0, FS_STANDARD);
        for (int i = 0; i < 2; i++) {
            while (!fs_request_is_done(&receives[i]) || !fs_request_is_done(&sends[i]))
                for (int side = 0; side < 2; side++) fs_engine_progress(engines[side]);
            CHECK_EQUAL(receives[i].error, FS_FINE);
            CHECK_EQUAL(memcmp(into[i], from[i], length), 0);
        }
    }
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    struct fs_request late;
    late.one = (struct iovec){NULL, 0};
    fs_request_prepare(&late, FS_RECEIVING, NULL, 1);
    CHECK_EQUAL(fs_engine_expect(engines[1], &late, 0, 3, 0), FS_DONE);
    CHECK_EQUAL(late.error, FS_CLOSED);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

TEST(what_has_come_is_received_later_locally, 0) { run_expecting(LOCAL); }
TEST(what_has_come_is_received_later_over_a_ring, 0) { run_expecting(RING); }
TEST(what_has_come_is_received_later_over_a_memory, 0) { run_expecting(MEMORY); }
TEST(what_has_come_is_received_later_over_a_stream, 0) { run_expecting(STREAM); }

/* ---- random traffic ---- */

#define WINDOW 8
#define TAGS 3
#define LARGEST largest

static size_t shortest = 4, largest = 40000; /* of a message; both ends copy very long ones */

struct rank {
    struct fs_engine *engine;
    int peer, context, messages;
    uint64_t salt;
};

/* Items of blocks with gaps between them, upwards or downwards, in memory of WIDE bytes. */
struct gaps {
    struct fs_layout layout;
    int64_t block, blocks, stride;
    unsigned char *origin;
};

#define WIDE (2 * LARGEST + 4096)

static void prepare_gaps(struct gaps *gaps, struct fs_request *request, int kind, unsigned char *wide, size_t length,
                         struct random *random)
{
    gaps->block = 1 + (int64_t)random_below(random, 20), gaps->blocks = 2 + (int64_t)random_below(random, 7);
    gaps->stride = gaps->block + (int64_t)random_below(random, (uint64_t)gaps->block + 1);
    gaps->origin = wide;
    if (random_below(random, 3) == 0) {
        gaps->stride = -gaps->stride;
        gaps->origin = wide + WIDE - gaps->block;
    }
    fs_layout_block(&gaps->layout, gaps->block);
    CHECK_EQUAL(fs_layout_repeat(&gaps->layout, gaps->blocks, gaps->stride), FS_LAYOUT_FINE);
    fs_request_prepare_items(request, kind, gaps->origin, &gaps->layout, gaps->blocks * gaps->stride, length);
}

static unsigned char *byte_of(const struct gaps *gaps, size_t index)
{
    return gaps->origin + (int64_t)index / gaps->block * gaps->stride + (int64_t)index % gaps->block;
}

/* So many bytes out of their places; everything else must be as it was. */
static void gather(const struct gaps *gaps, unsigned char *wide, unsigned char *data, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        data[i] = *byte_of(gaps, i);
        *byte_of(gaps, i) = 0xaa;
    }
    CHECK(wide[0] == 0xaa && memcmp(wide, wide + 1, WIDE - 1) == 0);
}

struct slot {
    struct fs_request request;
    struct iovec parts[3];
    struct gaps gaps;
    unsigned char *data, *wide; /* `wide`: unless it is NULL, the data are there */
    int busy;
};

static void fill(unsigned char *data, uint32_t number, size_t length)
{
    memcpy(data, &number, sizeof number);
    for (size_t i = 4; i < length; i++) data[i] = (unsigned char)(number * 31 + i);
}

static void check_filled(const unsigned char *data, uint32_t number, size_t length)
{
    for (size_t i = 4; i < length; i++) CHECK_EQUAL(data[i], (unsigned char)(number * 31 + i));
}

static void split(struct slot *slot, size_t length, struct random *random)
{
    size_t one = random_below(random, length + 1), two = random_below(random, length - one + 1);
    slot->parts[0] = (struct iovec){slot->data, one};
    slot->parts[1] = (struct iovec){slot->data + one, two};
    slot->parts[2] = (struct iovec){slot->data + one + two, length - one - two};
}

static void make_slots(struct slot slots[WINDOW])
{
    for (int i = 0; i < WINDOW; i++) {
        CHECK((slots[i].data = malloc(LARGEST)) != NULL);
        CHECK((slots[i].wide = malloc(WIDE)) != NULL);
        memset(slots[i].wide, 0xaa, WIDE);
    }
}

static void free_slots(struct slot slots[WINDOW])
{
    for (int i = 0; i < WINDOW; i++) {
        free(slots[i].data);
        free(slots[i].wide);
    }
}

static void *send_traffic(void *argument)
{
    struct rank *rank = argument;
    struct random random = random_from(rank->salt);
    struct slot slots[WINDOW] = {0};
    make_slots(slots);
    for (uint32_t number = 0; number < (uint32_t)rank->messages; number++) {
        struct slot *slot = &slots[number % WINDOW];
        if (slot->busy) {
            await(rank->engine, &slot->request);
            CHECK_EQUAL(slot->request.error, FS_FINE);
        }
        size_t length = shortest + random_size(&random, LARGEST - shortest);
        fill(slot->data, number, length);
        split(slot, length, &random);
        uint64_t way = random_below(&random, 3);
        slot->request.one = (struct iovec){slot->data, length};
        if (way < 2) fs_request_prepare(&slot->request, FS_SENDING, way ? slot->parts : NULL, way ? 3 : 1);
        else prepare_gaps(&slot->gaps, &slot->request, FS_SENDING, slot->wide, length, &random);
        for (size_t i = 0; way == 2 && i < length; i++) *byte_of(&slot->gaps, i) = slot->data[i];
        int mode = random_below(&random, 4) ? FS_STANDARD : FS_SYNCHRONOUS;
        int begun = fs_engine_send(rank->engine, &slot->request, rank->peer, (int)(number % TAGS),
                                   (uint32_t)rank->context, mode);
        slot->busy = begun != FS_DONE;
    }
    for (int i = 0; i < WINDOW; i++)
        if (slots[i].busy) await(rank->engine, &slots[i].request);
    free_slots(slots);
    return NULL;
}

static void take(struct rank *rank, struct slot *slot, int last[TAGS])
{
    uint32_t number;
    const struct fs_envelope *envelope = &slot->request.envelope;
    await(rank->engine, &slot->request);
    CHECK_EQUAL(slot->request.error, FS_FINE);
    CHECK_EQUAL(envelope->source, rank->peer);
    if (slot->request.layout) gather(&slot->gaps, slot->wide, slot->data, envelope->length);
    const unsigned char *data = slot->request.allocates ? slot->request.payload : slot->data;
    memcpy(&number, data, sizeof number);
    CHECK_EQUAL((int)(number % TAGS), envelope->tag);
    CHECK((int)number > last[envelope->tag]);
    last[envelope->tag] = (int)number;
    check_filled(data, number, envelope->length);
    if (slot->request.allocates) free(slot->request.payload);
}

static void *receive_traffic(void *argument)
{
    struct rank *rank = argument;
    struct random random = random_from(rank->salt + 1000);
    int last[TAGS] = {-1, -1, -1};
    struct slot slots[WINDOW] = {0};
    make_slots(slots);
    for (int number = 0; number < rank->messages;) {
        int count = 1 + (int)random_below(&random, WINDOW);
        if (count > rank->messages - number) count = rank->messages - number;
        for (int i = 0; i < count; i++) {
            struct slot *slot = &slots[i];
            slot->request.one = (struct iovec){slot->data, LARGEST};
            split(slot, LARGEST, &random);
            uint64_t way = random_below(&random, 4);
            if (way < 3)
                fs_request_prepare(&slot->request, FS_RECEIVING, way == 1 ? slot->parts : NULL, way == 1 ? 3 : 1);
            else prepare_gaps(&slot->gaps, &slot->request, FS_RECEIVING, slot->wide, LARGEST, &random);
            slot->request.allocates = way == 2;
            int peer = random_below(&random, 2) ? FS_ANY : rank->peer;
            struct fs_envelope envelope;
            struct fs_message *message;
            int found = random_below(&random, 3) == 0
                            ? fs_engine_match(rank->engine, peer, FS_ANY, (uint32_t)rank->context, &envelope, &message)
                            : FS_NOT_YET;
            if (found == FS_HERE) fs_engine_receive_matched(rank->engine, &slot->request, message);
            else fs_engine_receive(rank->engine, &slot->request, peer, FS_ANY, (uint32_t)rank->context);
        }
        for (int i = 0; i < count; i++) take(rank, &slots[i], last);
        number += count;
    }
    free_slots(slots);
    return NULL;
}

/* In one context one engine sends and the other receives, in two both do both. */
static void run_ways(enum path path, int messages, int contexts)
{
    struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
    join(engines, path);
    struct rank ranks[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) /* each context has one sender and one receiver */
        ranks[i] = (struct rank){engines[i % 2], !(i % 2), i == 0 || i == 3 ? 0 : 2, messages, (uint64_t)i};
    for (int i = 0; i < 4; i++)
        if (ranks[i].context < contexts * 2 - 1)
            threads[i] = start_thread(i < 2 ? send_traffic : receive_traffic, &ranks[i]);
    for (int i = 0; i < 4; i++)
        if (ranks[i].context < contexts * 2 - 1) join_thread(threads[i]);
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

static void run_traffic(enum path path, int messages) { run_ways(path, messages, 2); }

TEST(messages_of_threads_between_engines_of_one_process, 0) { run_traffic(LOCAL, scaled(20000)); }
TEST(messages_of_threads_over_a_ring, 0) { run_traffic(RING, scaled(20000)); }
TEST(messages_of_threads_over_a_tiny_ring, 0) { run_traffic(TINY_RING, scaled(5000)); }
TEST(messages_of_threads_over_a_memory, 0) { run_traffic(MEMORY, scaled(20000)); }
TEST(messages_of_threads_over_a_tiny_memory, 0) { run_traffic(TINY_MEMORY, scaled(5000)); }
TEST(messages_of_threads_over_a_stream, 0) { run_traffic(STREAM, scaled(10000)); }

TEST(long_messages_of_threads_over_a_ring, 0)
{
    largest = 700000;
    run_traffic(RING, scaled(3000));
}

TEST(long_messages_of_threads_over_a_memory, 0)
{
    largest = 700000;
    run_traffic(MEMORY, scaled(3000));
}

/* Both ends copy them, where they run on different cores. */
TEST(long_messages_in_one_direction_over_a_ring, 0)
{
    shortest = FS_SHARED_FROM, largest = 1500000;
    run_ways(RING, scaled(500), 1);
}

/* ---- what ends before its time ---- */

static void pump(struct fs_engine *engines[2])
{
    for (int i = 0; i < 50; i++)
        for (int rank = 0; rank < 2; rank++) fs_engine_progress(engines[rank]);
}

/* Sends and receives are abandoned in whatever state they are; what was not is received whole. */
static void run_abandoning(enum path path)
{
    struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
    struct random random = random_from((uint64_t)path);
    join(engines, path);
    for (int round = 0; round < scaled(largest > 100000 ? 300 : 3000); round++) {
        unsigned char *from = malloc(WIDE), *into = malloc(WIDE), *data = malloc(LARGEST);
        CHECK(from && into && data);
        size_t length = shortest + random_size(&random, LARGEST - shortest);
        fill(data, (uint32_t)round, length);
        memcpy(from, data, length);
        memset(into, 0xaa, WIDE);
        struct fs_request send, receive;
        struct gaps of_send, of_receive;
        send.one = (struct iovec){from, length};
        receive.one = (struct iovec){into, LARGEST};
        fs_request_prepare(&send, FS_SENDING, NULL, 1);
        fs_request_prepare(&receive, FS_RECEIVING, NULL, 1);
        if (random_below(&random, 3) == 0) {
            prepare_gaps(&of_send, &send, FS_SENDING, from, length, &random);
            for (size_t i = 0; i < length; i++) *byte_of(&of_send, i) = data[i];
        }
        if (random_below(&random, 3) == 0) prepare_gaps(&of_receive, &receive, FS_RECEIVING, into, LARGEST, &random);
        int mode = random_below(&random, 2) ? FS_STANDARD : FS_SYNCHRONOUS, receiving = random_below(&random, 3) != 0;
        int early = random_below(&random, 2) != 0;
        if (receiving && early) fs_engine_receive(engines[1], &receive, 0, round, 0);
        fs_engine_send(engines[0], &send, 1, round, 0, mode);
        for (uint64_t i = random_below(&random, 4); i > 0; i--) fs_engine_progress(engines[random_below(&random, 2)]);
        if (receiving && !early) fs_engine_receive(engines[1], &receive, 0, round, 0);
        for (uint64_t i = random_below(&random, 6); i > 0; i--) fs_engine_progress(engines[random_below(&random, 2)]);
        int early_too = random_below(&random, 2) != 0;
        if (early_too) {
            fs_engine_abandon(engines[0], &send);
            memset(from, 0xee, WIDE);
            pump(engines);
            if (receiving && fs_request_is_done(&receive) && receive.error == FS_FINE && !receive.cancelled) {
                if (receive.layout) gather(&of_receive, into, data, receive.envelope.length);
                check_filled(receive.layout ? data : into, (uint32_t)round, receive.envelope.length);
            }
        }
        if (receiving) {
            fs_engine_abandon(engines[1], &receive);
            memset(into, 0xdd, WIDE);
        }
        if (!early_too) fs_engine_abandon(engines[0], &send);
        pump(engines);
        CHECK(!receiving || (into[0] == 0xdd && memcmp(into, into + 1, WIDE - 1) == 0));
        free(from);
        free(into);
        free(data);
        struct fs_envelope envelope;
        struct fs_message *left;
        if (fs_engine_match(engines[1], FS_ANY, FS_ANY, 0, &envelope, &left) == FS_HERE)
            fs_engine_drop_matched(engines[1], left);
    }
    /* the link is as good as ever */
    struct rank ranks[2] = {{engines[0], 1, 2, 100, 1}, {engines[1], 0, 2, 100, 2}};
    pthread_t threads[2] = {start_thread(send_traffic, &ranks[0]), start_thread(receive_traffic, &ranks[1])};
    for (int i = 0; i < 2; i++) join_thread(threads[i]);
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

TEST(requests_are_abandoned_between_engines_of_one_process, 0) { run_abandoning(LOCAL); }
TEST(requests_are_abandoned_over_a_ring, 0) { run_abandoning(RING); }
TEST(requests_are_abandoned_over_a_tiny_ring, 0) { run_abandoning(TINY_RING); }
TEST(long_requests_are_abandoned_over_a_ring, 0)
{
    largest = 700000;
    run_abandoning(RING);
}
TEST(requests_that_both_ends_copy_are_abandoned, 0)
{
    shortest = FS_SHARED_FROM, largest = 1500000;
    run_abandoning(RING);
}
TEST(requests_are_abandoned_over_a_tiny_memory, 0) { run_abandoning(TINY_MEMORY); }
TEST(requests_are_abandoned_over_a_stream, 0) { run_abandoning(STREAM); }

/* ---- members of a context ---- */

TEST(members_are_told_in_any_order_and_again, 0)
{
    enum { SIZE = 40, CONTEXT = 6 };
    struct fs_engine *engine = engine_of(0, SIZE);
    struct random random = random_from(6);
    for (int round = 0; round < 200; round++) {
        int ranks[SIZE], is_member[SIZE] = {0}, count = 0;
        while (count < (int)random_below(&random, SIZE)) {
            int rank = (int)random_below(&random, SIZE);
            if (!is_member[rank]) ranks[count++] = rank;
            is_member[rank] = 1;
        }
        CHECK_EQUAL(fs_engine_set_members(engine, CONTEXT, ranks, (size_t)count), 0);
        for (int rank = 0; rank < SIZE; rank++) CHECK_EQUAL(fs_is_member(engine, CONTEXT, rank), is_member[rank]);
    }
    CHECK_EQUAL(fs_engine_clear_members(engine, CONTEXT), 1);
    CHECK_EQUAL(fs_engine_clear_members(engine, CONTEXT), 0);
    for (int rank = 0; rank < SIZE; rank++) CHECK_EQUAL(fs_is_member(engine, CONTEXT, rank), 1);
    fs_engine_close(engine);
    fs_engine_release(engine);
}

/* ---- an interpreter's lock, which the callers hold ---- */

#define CALLERS 4

static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int has_interpreter;

static void take_interpreter(void)
{
    pthread_mutex_lock(&interpreter);
    has_interpreter = 1;
}

static void drop_interpreter(void)
{
    has_interpreter = 0;
    pthread_mutex_unlock(&interpreter);
}

static void *leave_interpreter(void)
{
    if (!has_interpreter) return NULL;
    drop_interpreter();
    return &interpreter;
}

static void enter_interpreter(void *left)
{
    CHECK(left == &interpreter);
    take_interpreter();
}

/* Copies long messages without the interpreter's lock, each under the receiver's. */
static void *send_long_ones(void *argument)
{
    struct rank *rank = argument;
    unsigned char *data = calloc(1, LARGEST);
    CHECK(data != NULL);
    for (int i = 0; i < rank->messages; i++) {
        struct fs_request request;
        request.one = (struct iovec){data, LARGEST};
        fs_request_prepare(&request, FS_SENDING, NULL, 1);
        if (fs_engine_send(rank->engine, &request, rank->peer, 0, 0, FS_STANDARD) != FS_DONE)
            await(rank->engine, &request);
    }
    free(data);
    return NULL;
}

static void *receive_long_ones(void *argument)
{
    struct rank *rank = argument;
    unsigned char *data = calloc(1, LARGEST);
    CHECK(data != NULL);
    for (int i = 0; i < rank->messages; i++) {
        struct fs_request request;
        request.one = (struct iovec){data, LARGEST};
        fs_request_prepare(&request, FS_RECEIVING, NULL, 1);
        if (fs_engine_receive(rank->engine, &request, rank->peer, 0, 0) != FS_DONE) await(rank->engine, &request);
    }
    free(data);
    return NULL;
}

/* What it wants of the engine needs the interpreter's lock before and behind it. */
static void *ask_with_interpreter(void *argument)
{
    struct rank *rank = argument;
    struct fs_envelope envelope;
    for (int i = 0; i < rank->messages * 20; i++) {
        take_interpreter();
        CHECK_EQUAL(fs_engine_probe(rank->engine, rank->peer, 1, 0, &envelope), FS_NOT_YET);
        CHECK(has_interpreter);
        fs_engine_progress(rank->engine);
        CHECK(has_interpreter);
        drop_interpreter();
    }
    return NULL;
}

static void run_interpreter(enum path path)
{
    struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
    join(engines, path);
    struct rank ranks[2] = {{engines[0], 1, 0, scaled(2000), 0}, {engines[1], 0, 0, scaled(2000), 0}};
    fs_engines_heed_interpreter(leave_interpreter, enter_interpreter);
    pthread_t threads[CALLERS] = {start_thread(send_long_ones, &ranks[0]), start_thread(receive_long_ones, &ranks[1])};
    for (int i = 2; i < CALLERS; i++) threads[i] = start_thread(ask_with_interpreter, &ranks[1]);
    for (int i = 0; i < CALLERS; i++) join_thread(threads[i]);
    fs_engines_heed_interpreter(NULL, NULL);
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

TEST(nobody_waits_for_an_engine_with_the_interpreter_locally, 0) { run_interpreter(LOCAL); }
TEST(nobody_waits_for_an_engine_with_the_interpreter_over_a_ring, 0) { run_interpreter(RING); }

/* ---- closing and failing under traffic ---- */

struct leaver {
    struct fs_engine *engine;
    int fail;
};

static void *leave(void *argument)
{
    struct leaver *leaver = argument;
    exact_sleep_us(2000);
    if (leaver->fail) fs_engine_fail(leaver->engine, 1, "so the test wills");
    else fs_engine_close(leaver->engine);
    return NULL;
}

static void *send_until_failure(void *argument)
{
    struct rank *rank = argument;
    unsigned char *data = calloc(1, LARGEST);
    for (;;) {
        struct fs_request request;
        request.one = (struct iovec){data, LARGEST / 2};
        fs_request_prepare(&request, rank->salt ? FS_SENDING : FS_RECEIVING, NULL, 1);
        int begun = rank->salt ? fs_engine_send(rank->engine, &request, rank->peer, 0, 0, FS_STANDARD)
                               : fs_engine_receive(rank->engine, &request, rank->peer, 0, 0);
        if (begun != FS_DONE) await(rank->engine, &request);
        if (request.error == FS_PEER_FAILED || request.error == FS_PEER_LEFT || request.error == FS_CLOSED) break;
        CHECK_EQUAL(request.error, FS_FINE);
    }
    free(data);
    return NULL;
}

static void run_leaving(enum path path, int fail)
{
    for (int round = 0; round < scaled(100); round++) {
        struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
        join(engines, path);
        struct rank ranks[2] = {{engines[0], 1, 0, 0, 1}, {engines[1], 0, 0, 0, 0}};
        struct leaver leaver = {engines[0], fail};
        pthread_t threads[3] = {start_thread(send_until_failure, &ranks[0]),
                                start_thread(send_until_failure, &ranks[1]), start_thread(leave, &leaver)};
        join_thread(threads[0]);
        join_thread(threads[2]);
        if (fail) fs_engine_close(engines[0]);
        join_thread(threads[1]);
        fs_engine_close(engines[1]);
        for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
    }
}

TEST(an_engine_closes_under_local_traffic, 0) { run_leaving(LOCAL, 0); }
TEST(an_engine_closes_under_traffic_over_a_ring, 0) { run_leaving(RING, 0); }
TEST(an_engine_closes_under_traffic_over_a_memory, 0) { run_leaving(MEMORY, 0); }
TEST(an_engine_closes_under_traffic_over_a_stream, 0) { run_leaving(STREAM, 0); }
TEST(a_peer_fails_under_local_traffic, 0) { run_leaving(LOCAL, 1); }
TEST(a_peer_fails_under_traffic_over_a_ring, 0) { run_leaving(RING, 1); }
TEST(a_peer_fails_under_traffic_over_a_memory, 0) { run_leaving(MEMORY, 1); }
TEST(a_peer_fails_under_traffic_over_a_stream, 0) { run_leaving(STREAM, 1); }

/* The ranks share a core, and none of them has an answer. */
TEST(who_looks_in_vain_hands_the_core_over_as_often_as_pays, 0)
{
    struct fs_engine_options crowded = options;
    crowded.crowded = 1;
    int error;
    struct fs_engine *engine = fs_engine_new(0, 2, &crowded, &error);
    CHECK(engine != NULL);
    for (int turn = 0; turn < 10; turn++) {
        CHECK(fs_engine_is_in_the_way(engine));
        fs_engine_give_way(engine);
        CHECK(!fs_engine_is_in_the_way(engine));
        while (!fs_engine_is_in_the_way(engine)) {}
        atomic_store(&engine->yielding.rest, 0);
    }
    fs_engine_close(engine);
    fs_engine_release(engine);
}

/* A ring that is full, but for so many bytes, has no room for the goodbye: it goes as soon as something is taken out. */
TEST(a_goodbye_waits_for_room, 0)
{
    for (size_t spare = 0; spare <= sizeof(struct fs_frame); spare++) {
        static unsigned char from[3000];
        struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
        join(engines, RING);
        for (int i = 0; i < 100; i++) pump(engines);
        struct fs_ring *ring = &engines[0]->peers[1].link->end->out;
        for (size_t room; (room = (size_t)fs_ring_room(ring)) > spare;) {
            size_t length = room - spare - sizeof(struct fs_frame);
            if (length > options.eager_limit) length = options.eager_limit / 2;
            struct fs_request send = {.one = {from, length}};
            fs_request_prepare(&send, FS_SENDING, NULL, 1);
            CHECK_EQUAL(fs_engine_send(engines[0], &send, 1, 7, 0, FS_STANDARD), FS_DONE);
            CHECK_EQUAL(send.error, FS_FINE);
        }
        CHECK_EQUAL(fs_ring_room(ring), (ssize_t)spare);
        int left = fs_engine_leave(engines[0]);
        CHECK(spare >= sizeof(struct fs_frame) || !left);
        uint64_t limit = fs_now_ns() + STALL_NS;
        while (!fs_engine_leave(engines[0])) {
            fs_engine_progress(engines[1]);
            CHECK(fs_now_ns() < limit);
        }
        struct fs_request late = {.one = {from, 1}};
        fs_request_prepare(&late, FS_SENDING, NULL, 1);
        CHECK_EQUAL(fs_engine_send(engines[0], &late, 1, 7, 0, FS_STANDARD), FS_DONE);
        CHECK(late.error != FS_FINE); /* nobody looks behind a goodbye */
        fs_engine_close(engines[0]);
        char reason[64];
        const char *path;
        do {
            fs_engine_progress(engines[1]);
            fs_engine_reason(engines[1], 0, reason, sizeof reason, &path);
            CHECK(fs_now_ns() < limit);
        } while (!reason[0]);
        CHECK(strcmp(reason, "it has finished") == 0);
        fs_engine_close(engines[1]);
        for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
    }
}

/* ---- to a rank that has finished ---- */

enum { SHORT = 60, SYNCHRONOUS = SHORT, LONG, IN_VAIN }; /* more short ones than there is credit for */

static void send_in_vain(struct fs_engine *engine, struct fs_request *sends)
{
    static unsigned char data[9000];
    for (int i = 0; i < IN_VAIN; i++) {
        sends[i].one = (struct iovec){data, i == LONG ? sizeof data : options.eager_limit};
        fs_request_prepare(&sends[i], FS_SENDING, NULL, 1);
        fs_engine_send(engine, &sends[i], 1, 7, 0, i == SYNCHRONOUS ? FS_SYNCHRONOUS : FS_STANDARD);
    }
}

static void run_in_vain(enum path path, int sent_first)
{
    struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
    struct fs_request sends[IN_VAIN];
    join(engines, path);
    for (int i = 0; i < 100; i++) pump(engines);
    if (sent_first) send_in_vain(engines[0], sends);
    uint64_t limit = fs_now_ns() + STALL_NS;
    while (!fs_engine_leave(engines[1])) CHECK(fs_now_ns() < limit);
    fs_engine_close(engines[1]);
    while (!sent_first && engines[0]->peers[1].state != FS_LEFT) {
        fs_engine_progress(engines[0]);
        CHECK(fs_now_ns() < limit);
    }
    if (!sent_first) send_in_vain(engines[0], sends);
    for (int i = 0; i < IN_VAIN; i++) {
        await(engines[0], &sends[i]);
        CHECK_EQUAL(sends[i].error, i < SHORT ? FS_FINE : FS_PEER_FAILED);
    }
    CHECK_EQUAL(engines[0]->peers[1].state, FS_LEFT);
    fs_engine_close(engines[0]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

TEST(short_messages_to_a_rank_that_finishes_are_dropped_and_others_fail, 0)
{
    const enum path paths[] = {LOCAL, RING, TINY_RING, MEMORY, STREAM};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        for (int sent_first = 0; sent_first < 2; sent_first++) run_in_vain(paths[i], sent_first);
}

/* It was never attached. */
TEST(what_waits_for_a_rank_that_has_finished_ends_as_if_it_had_met_it, 0)
{
    struct fs_request sends[IN_VAIN];
    for (int failed = 0; failed < 2; failed++) {
        struct fs_engine *engine = engine_of(0, 2);
        send_in_vain(engine, sends);
        for (int i = 0; i < IN_VAIN; i++) CHECK(!fs_request_is_done(&sends[i]));
        if (failed) fs_engine_fail(engine, 1, "so the test wills");
        else fs_engine_left(engine, 1);
        for (int i = 0; i < IN_VAIN; i++) {
            CHECK(fs_request_is_done(&sends[i]));
            CHECK_EQUAL(sends[i].error, i < SHORT && !failed ? FS_FINE : FS_PEER_FAILED);
        }
        fs_engine_close(engine);
        fs_engine_release(engine);
    }
}

/* ---- more sends than their receiver has room to know of ---- */

#define FLOOD 20000

static size_t waiting_at(const struct fs_engine *engine)
{
    size_t count = 0;
    for (const struct fs_message *message = engine->oldest; message; message = message->newer) count++;
    return count;
}

static void progress_until(struct fs_engine *engines[2], const struct fs_request *request)
{
    uint64_t limit = fs_now_ns() + STALL_NS;
    while (!fs_request_is_done(request)) {
        for (int rank = 0; rank < 2; rank++) fs_engine_progress(engines[rank]);
        CHECK(fs_now_ns() < limit);
    }
    CHECK_EQUAL(request->error, FS_FINE);
}

/* Of any number of sends only so many are known at the receiver; the last one is found all the same, by a receive that was
 * there before the flood or came behind it, or by a probe, and the others then come in their order. */
static void run_flood(enum path path, int early, int probing)
{
    static unsigned char from[4000], into[4000];
    struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
    struct fs_request *sends = calloc(FLOOD, sizeof *sends), receive = {0};
    CHECK(sends != NULL);
    join(engines, path);
    receive.one = (struct iovec){into, sizeof into};
    fs_request_prepare(&receive, FS_RECEIVING, NULL, 1);
    if (early) fs_engine_receive(engines[1], &receive, 0, FLOOD - 1, 0);
    for (int i = 0; i < FLOOD; i++) {
        sends[i].one = (struct iovec){from, sizeof from};
        fs_request_prepare(&sends[i], FS_SENDING, NULL, 1);
        fs_engine_send(engines[0], &sends[i], 1, i, 0, FS_STANDARD);
    }
    for (int i = 0; i < 100; i++) pump(engines);
    if (!early) CHECK(waiting_at(engines[1]) <= options.credit / FS_MESSAGE_COST);
    struct fs_envelope envelope;
    uint64_t limit = fs_now_ns() + STALL_NS;
    while (probing && fs_engine_probe(engines[1], FS_ANY, FLOOD - 1, 0, &envelope) != FS_HERE) {
        for (int rank = 0; rank < 2; rank++) fs_engine_progress(engines[rank]);
        CHECK(fs_now_ns() < limit);
    }
    if (!early) fs_engine_receive(engines[1], &receive, 0, FLOOD - 1, 0);
    progress_until(engines, &receive);
    for (int i = 0; i < FLOOD - 1; i++) {
        fs_request_prepare(&receive, FS_RECEIVING, NULL, 1);
        fs_engine_receive(engines[1], &receive, FS_ANY, FS_ANY, 0);
        progress_until(engines, &receive);
        CHECK_EQUAL(receive.envelope.tag, i);
    }
    for (int i = 0; i < FLOOD; i++) progress_until(engines, &sends[i]);
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
    free(sends);
}

TEST(a_flood_of_announcements_waits_at_its_sender_over_a_ring, 0) { run_flood(RING, 0, 0); }
TEST(a_flood_of_announcements_waits_at_its_sender_over_a_tiny_ring, 0) { run_flood(TINY_RING, 0, 1); }
TEST(a_flood_of_announcements_waits_at_its_sender_over_a_stream, 0) { run_flood(STREAM, 0, 0); }
TEST(the_last_of_a_flood_was_waited_for_before_it_over_a_ring, 0) { run_flood(RING, 1, 0); }
TEST(the_last_of_a_flood_was_waited_for_before_it_over_a_stream, 0) { run_flood(STREAM, 1, 0); }
