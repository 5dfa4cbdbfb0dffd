/* Frames and credits of active messages: what one end writes the other takes, in any pieces, and nothing else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "active/active.h"
#include "check.h"

enum { SHORTS = 4, LONGS = 2, MOST = 100000 };

static struct fs_am asking, answering;

static void meet(void)
{
    CHECK_EQUAL(fs_am_open(&asking, FS_AM_ASKS, SHORTS, LONGS, MOST), 0);
    CHECK_EQUAL(fs_am_open(&answering, FS_AM_ANSWERS, SHORTS, LONGS, MOST), 0);
}

static void part(void)
{
    fs_am_close(&asking);
    fs_am_close(&answering);
}

static void give(struct fs_am *to, const unsigned char *bytes, size_t length)
{
    size_t room;
    unsigned char *at = fs_am_space(to, &room);
    CHECK(length <= room);
    memcpy(at, bytes, length);
    fs_am_received(to, length);
}

/* The answer to a frame of that header alone. */
static int taken(struct fs_am *by, int kind, int words, int handler, uint32_t number, uint64_t length)
{
    unsigned char head[FS_AM_HEAD] = {0};
    struct fs_am_frame frame;
    fs_am_put(head, kind, handler, number, NULL, 0, length, 0);
    head[1] = (unsigned char)words;
    give(by, head, sizeof head);
    int result = fs_am_take(by, &frame);
    CHECK(result >= 0 || by->wrong);
    return result;
}

TEST(active_frames_arrive_in_any_pieces, 0)
{
    struct random random = random_from(1);
    meet();
    for (int round = 0; round < scaled(3000); round++) {
        unsigned char bytes[FS_AM_HEAD + FS_AM_MEDIUM], payload[FS_AM_MEDIUM], got[FS_AM_MEDIUM];
        int64_t words[FS_AM_WORDS], told[FS_AM_WORDS];
        int count = (int)random_below(&random, FS_AM_WORDS + 1);
        int kind = 1 + (int)random_below(&random, 3), handler = (int)random_below(&random, 65536);
        size_t length = random_below(&random, 4) ? random_below(&random, 64) : random_below(&random, FS_AM_MEDIUM + 1);
        uint64_t offset = random_next(&random);
        for (int i = 0; i < count; i++) words[i] = (int64_t)random_next(&random);
        for (size_t i = 0; i < length; i++) payload[i] = (unsigned char)random_next(&random);
        uint32_t number = fs_am_ask(&asking, kind);
        CHECK(number != 0);
        size_t size = fs_am_put(bytes, kind, handler, number, words, count, length, offset);
        struct fs_am_short in_place = {0};
        memcpy(in_place.words, words, (size_t)count * sizeof words[0]);
        unsigned char *out = (unsigned char *)&in_place;
        CHECK_EQUAL(fs_am_put(out, kind, handler, number, in_place.words, count, length, offset), size);
        CHECK(memcmp(out, bytes, size) == 0);
        memcpy(bytes + size, payload, length);
        struct fs_am_frame frame = {0};
        size_t given = 0, spilled = 0;
        int result = 0;
        while (given < size + length) {
            size_t part = 1 + (size_t)random_below(&random, size + length - given);
            give(&answering, bytes + given, part);
            given += part;
            if (!result) {
                result = fs_am_take(&answering, &frame);
                CHECK(result >= 0);
                if (result) {
                    CHECK_EQUAL(frame.kind, kind);
                    CHECK_EQUAL(frame.words, count);
                    CHECK_EQUAL(frame.handler, handler);
                    CHECK_EQUAL(frame.length, length);
                    if (kind == FS_AM_PUT) CHECK(frame.offset == offset);
                    fs_am_words(&frame, told);
                    CHECK(memcmp(told, words, (size_t)count * sizeof told[0]) == 0);
                    if (frame.payload) memcpy(got, frame.payload, length);
                }
            }
            if (result) spilled += fs_am_spill(&answering, got + spilled, length - spilled);
        }
        CHECK_EQUAL(result, 1);
        CHECK_EQUAL(answering.bulk_left, 0);
        CHECK(memcmp(got, payload, length) == 0);
        CHECK_EQUAL(fs_am_take(&answering, &frame), 0);
        CHECK_EQUAL(fs_am_answer(&answering, number), 0);
        size = fs_am_put(bytes, FS_AM_DONE, 0, number, NULL, 0, 0, 0);
        give(&asking, bytes, size);
        CHECK_EQUAL(fs_am_take(&asking, &frame), 1);
        CHECK_EQUAL(fs_am_under_way(&asking), 0);
    }
    part();
}

TEST(active_credit_ends_and_comes_back, 0)
{
    meet();
    uint32_t numbers[SHORTS];
    for (int i = 0; i < SHORTS; i++) CHECK((numbers[i] = fs_am_ask(&asking, FS_AM_REQUEST)) != 0);
    CHECK_EQUAL(fs_am_ask(&asking, FS_AM_REQUEST), 0);
    CHECK(fs_am_ask(&asking, FS_AM_BULK) != 0); /* credits of their own */
    CHECK(fs_am_ask(&asking, FS_AM_GET) != 0);
    CHECK_EQUAL(fs_am_ask(&asking, FS_AM_PUT), 0);
    CHECK_EQUAL(taken(&asking, FS_AM_REPLY, 0, 7, numbers[2], 0), 1);
    uint32_t again = fs_am_ask(&asking, FS_AM_REQUEST);
    CHECK_EQUAL(fs_am_index(again), fs_am_index(numbers[2]));
    CHECK(again != numbers[2]);
    part();
}

TEST(active_a_request_is_answered_once, 0)
{
    meet();
    uint32_t number = fs_am_ask(&asking, FS_AM_REQUEST);
    CHECK_EQUAL(taken(&answering, FS_AM_REQUEST, 0, 1, number, 0), 1);
    CHECK_EQUAL(fs_am_answer(&answering, number), 0);
    CHECK_EQUAL(fs_am_answer(&answering, number), -EALREADY);
    CHECK_EQUAL(fs_am_answer(&asking, number), -EINVAL);
    CHECK_EQUAL(fs_am_ask(&answering, FS_AM_REQUEST), 0);
    part();
}

/* The connection ends after a fault: each has a fresh one. */
#define REFUSES(by, ...)                              \
    do {                                              \
        meet();                                       \
        uint32_t number = fs_am_ask(&asking, before); \
        CHECK_EQUAL(taken(by, __VA_ARGS__), -EPROTO); \
        (void)number;                                 \
        part();                                       \
    } while (0)

TEST(active_refuses_what_no_end_sends, 0)
{
    const uint32_t beyond = 1u << 16 | (SHORTS + LONGS), none = 1u << 16 | 1;
    int before = FS_AM_REQUEST;
    REFUSES(&answering, 0, 0, 0, number, 0);
    REFUSES(&answering, FS_AM_KINDS, 0, 0, number, 0);
    REFUSES(&answering, 255, 0, 0, number, 0);
    REFUSES(&answering, FS_AM_REQUEST, FS_AM_WORDS + 1, 0, number, 0);
    REFUSES(&answering, FS_AM_REQUEST, 0, 0, number, FS_AM_MEDIUM + 1);
    REFUSES(&answering, FS_AM_REQUEST, 0, 0, number, UINT64_MAX);
    REFUSES(&answering, FS_AM_REQUEST, 0, 0, beyond, 0);
    REFUSES(&answering, FS_AM_REQUEST, 0, 0, UINT32_MAX, 0);
    REFUSES(&answering, FS_AM_REQUEST, 0, 0, 0, 0);
    REFUSES(&answering, FS_AM_REQUEST, 0, 0, 1u << 16 | SHORTS, 0); /* a bulk's credit */
    REFUSES(&answering, FS_AM_BULK, 0, 0, number, 0);
    REFUSES(&answering, FS_AM_BULK, 0, 0, 1u << 16 | SHORTS, MOST + 1);
    REFUSES(&answering, FS_AM_PUT, 0, 0, 1u << 16 | SHORTS, UINT64_MAX);
    REFUSES(&answering, FS_AM_REPLY, 0, 0, number, 0);
    REFUSES(&answering, FS_AM_DONE, 0, 0, number, 0);
    REFUSES(&asking, FS_AM_REQUEST, 0, 0, number, 0);
    REFUSES(&asking, FS_AM_REPLY, 0, 0, none, 0);
    REFUSES(&asking, FS_AM_REPLY, 0, 0, number + 0x10000, 0); /* its next turn */
    REFUSES(&asking, FS_AM_BULK_REPLY, 0, 0, number, 10);
    REFUSES(&asking, FS_AM_DONE, 1, 0, number, 0);
    REFUSES(&asking, FS_AM_DONE, 0, 0, number, 1);
    REFUSES(&asking, FS_AM_DONE, 0, 1, number, 0);
    REFUSES(&asking, FS_AM_RETURNED, 0, 0, number, 0);
    REFUSES(&asking, FS_AM_RETURNED, 0, FS_AM_REASONS, number, 0);
    before = FS_AM_GET;
    REFUSES(&asking, FS_AM_DONE, 0, 0, number, 0);
    REFUSES(&asking, FS_AM_BULK_REPLY, 0, 0, number, MOST + 1);
    meet();
    uint32_t number = fs_am_ask(&asking, FS_AM_REQUEST);
    CHECK_EQUAL(taken(&answering, FS_AM_REQUEST, 0, 0, number, 0), 1);
    CHECK(answering.filled - answering.from >= FS_AM_HEADER); /* zeroes: of no kind */
    part();
}

TEST(active_a_number_twice_is_refused, 0)
{
    unsigned char head[2 * FS_AM_HEADER];
    struct fs_am_frame frame;
    meet();
    uint32_t number = fs_am_ask(&asking, FS_AM_REQUEST);
    fs_am_put(head, FS_AM_REQUEST, 1, number, NULL, 0, 0, 0);
    fs_am_put(head + FS_AM_HEADER, FS_AM_REQUEST, 1, number, NULL, 0, 0, 0);
    give(&answering, head, sizeof head);
    CHECK_EQUAL(fs_am_take(&answering, &frame), 1);
    CHECK_EQUAL(fs_am_take(&answering, &frame), -EPROTO);
    part();
}

TEST(active_limits_of_an_end_are_checked, 0)
{
    CHECK_EQUAL(fs_am_open(&asking, FS_AM_ASKS, 0, 1, 0), -EINVAL);
    CHECK_EQUAL(fs_am_open(&asking, FS_AM_ASKS, FS_AM_MOST_SLOTS + 1, 1, 0), -EINVAL);
    CHECK_EQUAL(fs_am_open(&asking, FS_AM_ASKS, 1, UINT32_MAX, 0), -EINVAL);
    CHECK_EQUAL(fs_am_open(&asking, FS_AM_ASKS, 1, 0, 0), 0);
    CHECK_EQUAL(fs_am_ask(&asking, FS_AM_BULK), 0);
    fs_am_close(&asking);
    CHECK_EQUAL(fs_am_ask(&asking, FS_AM_REQUEST), 0);
}
