#define _GNU_SOURCE
#include "rsocket_carrier.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "system.h"

#define MAGIC 0x3173727473616646ull /* another version is another number */
#define HEAD_BYTES 16u
#define RECORD_ROOM (HEAD_BYTES + FS_FRAME_ROOM)
#define OUT_BYTES (FS_FRAMES * FS_FRAME_ROOM) /* a power of two */
#define IN_BYTES ((size_t)16 * RECORD_ROOM)
#define SENT_FROM (OUT_BYTES / 8) /* fewer bytes wait for the end of the turn */

/* The words of the greeting, in their order. */
enum { HELLO = 1, OFFER, WELCOME };

struct word {
    uint64_t magic;
    uint32_t kind, window_bytes;
    uint64_t cookie;
    uint8_t source[16];
    uint16_t source_port, zero[3];
};
_Static_assert(sizeof(struct word) == 48, "what travels has no holes");

/* What follows the greeting: heads, each with how many frames have arrived, and some with a frame behind them. */
enum { NOTHING = 1, FRAME, FRAME_TO_ANSWER };

struct rsocket_carrier {
    struct fs_carrier carrier;
    const struct fs_rsocket_library *library;
    struct fs_rsocket_polled polled;
    struct fs_rsocket_greeting greeting;
    uint32_t heard_word; /* the last one */
    int ended;           /* the other end has sent all that it will send */
    int error;
    uint64_t posted, given;        /* bytes; given: to the library */
    uint64_t frames, acknowledged; /* of this end: the other host's process has so many */
    uint64_t arrived, released;
    uint64_t with_bytes; /* of those that arrived */
    int owes_answer;
    size_t first, count; /* bytes in `in` */
    unsigned char out[OUT_BYTES];
    unsigned char in[IN_BYTES];
    unsigned char slots[FS_FRAMES][FS_FRAME_PAYLOAD];
};

static struct rsocket_carrier *of(const struct fs_carrier *carrier)
{
    return (struct rsocket_carrier *)(uintptr_t)carrier;
}

static int is_greeted(const struct rsocket_carrier *end) { return atomic_load(end->greeting.greeted) == FS_GREETED; }

static void end_greeting(struct rsocket_carrier *end, uint32_t how)
{
    uint32_t not_yet = 0;
    if (!atomic_compare_exchange_strong(end->greeting.greeted, &not_yet, how)) return;
    end->polled.is_unsettled = 0;
    fs_futex_wake_all(end->greeting.greeted);
}

static int fail(struct rsocket_carrier *end, int error)
{
    if (end->error == 0) end->error = error;
    end_greeting(end, (uint32_t)end->error);
    return -end->error;
}

/* ---- outwards ---- */

static size_t out_left(const struct rsocket_carrier *end) { return OUT_BYTES - (size_t)(end->posted - end->given); }

static void put(struct rsocket_carrier *end, const void *data, size_t length)
{
    size_t at = end->posted % OUT_BYTES, together = OUT_BYTES - at;
    if (length == 0) return;
    if (together > length) together = length;
    memcpy(end->out + at, data, together);
    memcpy(end->out, (const unsigned char *)data + together, length - together);
    end->posted += length;
}

static void put_head(struct rsocket_carrier *end, uint32_t kind)
{
    const uint32_t words[2] = {htole32(kind), 0};
    const uint64_t arrived = htole64(end->arrived);
    unsigned char head[HEAD_BYTES];
    memcpy(head, words, sizeof words);
    memcpy(head + sizeof words, &arrived, sizeof arrived);
    put(end, head, sizeof head);
    end->owes_answer = 0;
}

static void give(struct rsocket_carrier *end)
{
    if (end->owes_answer && out_left(end) >= HEAD_BYTES) put_head(end, NOTHING);
    while (end->given < end->posted && end->error == 0 && !end->ended) {
        size_t at = end->given % OUT_BYTES, length = (size_t)(end->posted - end->given);
        if (length > OUT_BYTES - at) length = OUT_BYTES - at;
        ssize_t sent = end->library->rsend(end->polled.number, end->out + at, length, MSG_DONTWAIT);
        if (sent > 0) end->given += (uint64_t)sent;
        else if (errno == EAGAIN) return;
        else if (errno != EINTR) fail(end, errno);
    }
}

static unsigned room(const struct fs_carrier *carrier)
{
    const struct rsocket_carrier *end = of(carrier);
    if (!is_greeted(end)) return 0;
    if (end->posted == end->given) return FS_FRAMES / 2;
    if (out_left(end) < HEAD_BYTES) return 0; /* that much is for an answer */
    unsigned frames = (unsigned)((out_left(end) - HEAD_BYTES) / RECORD_ROOM);
    return frames < FS_FRAMES / 2 ? frames : FS_FRAMES / 2 - 1; /* less than all: something waits */
}

static int64_t post(struct fs_carrier *carrier, const struct fs_frame *frame, const void *data, size_t length,
                    int signaled)
{
    struct rsocket_carrier *end = of(carrier);
    unsigned char head[FS_FRAME_BYTES];
    if (end->error != 0) return -end->error;
    fs_frame_put(head, frame);
    put_head(end, signaled ? FRAME_TO_ANSWER : FRAME);
    put(end, head, sizeof head);
    put(end, data, length);
    if (end->posted - end->given >= SENT_FROM) give(end);
    return (int64_t)++end->frames;
}

/* An end closes in order only when it has heard all. */
static int64_t done(const struct fs_carrier *carrier)
{
    const struct rsocket_carrier *end = of(carrier);
    return (int64_t)(end->ended ? end->frames : end->acknowledged);
}

/* ---- the greeting ---- */

static void put_word(struct rsocket_carrier *end, uint32_t kind)
{
    struct word word = {htole64(MAGIC),
                        htole32(kind),
                        htole32(end->greeting.window_bytes),
                        htole64(end->greeting.cookie),
                        {0},
                        end->greeting.from.port,
                        {0}};
    memcpy(word.source, end->greeting.from.address, sizeof word.source);
    put(end, &word, sizeof word);
}

static int is_sound_window(uint32_t bytes) { return bytes >= 65536 && bytes <= 1u << 30 && (bytes & (bytes - 1)) == 0; }

/* 0, or -EPROTO: somebody else, another version, or one that speaks for another host. */
static int heed_word(struct rsocket_carrier *end, const struct word *word)
{
    struct fs_rsocket_greeting *greeting = &end->greeting;
    const uint32_t kind = le32toh(word->kind), bytes = le32toh(word->window_bytes);
    const uint32_t expected = !greeting->connecting ? OFFER : end->heard_word == 0 ? HELLO : WELCOME;
    if (le64toh(word->magic) != MAGIC || kind != expected || !is_sound_window(bytes)) return fail(end, EPROTO);
    if (kind != HELLO && le64toh(word->cookie) != greeting->cookie) return fail(end, EPROTO);
    end->heard_word = kind;
    end->carrier.window_bytes = bytes;
    if (kind == HELLO) {
        greeting->cookie = le64toh(word->cookie);
        put_word(end, OFFER);
        return 0;
    }
    if (kind == OFFER) {
        greeting->from.port = word->source_port;
        if (memcmp(greeting->from.address, word->source, sizeof word->source) != 0) return fail(end, EPROTO);
        put_word(end, WELCOME);
    }
    end_greeting(end, FS_GREETED);
    return 0;
}

/* ---- inwards ---- */

/* 1: there are more bytes than before. */
static int hear(struct rsocket_carrier *end)
{
    struct pollfd state = {end->polled.number, 0, 0};
    if (end->ended || end->error != 0) return 0;
    memmove(end->in, end->in + end->first, end->count);
    end->first = 0;
    ssize_t got = end->library->rrecv(end->polled.number, end->in + end->count, IN_BYTES - end->count, MSG_DONTWAIT);
    if (got > 0) {
        end->count += (size_t)got;
        return 1;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got < 0) {
        fail(end, errno);
        return 0;
    }
    /* a broken connection looks as an ended one: only rpoll() knows */
    end->library->rpoll(&state, 1, 0);
    end->ended = (state.revents & POLLERR) == 0;
    fail(end, is_greeted(end) ? ECONNRESET : ECONNREFUSED);
    return 0;
}

static int take_words(struct rsocket_carrier *end)
{
    struct word word;
    while (!is_greeted(end) && end->error == 0) {
        if (end->count >= sizeof word) {
            memcpy(&word, end->in + end->first, sizeof word);
            end->first += sizeof word;
            end->count -= sizeof word;
            heed_word(end, &word);
        } else if (!hear(end)) {
            break;
        }
    }
    if (!is_greeted(end) && fs_now_ns() > end->greeting.limit_ns) fail(end, ETIMEDOUT);
    return is_greeted(end);
}

/* 1: there was a head.  0: not all of it, or of its frame, is here.  Or -EPROTO.  *found: a frame was with it. */
static int take(struct rsocket_carrier *end, struct fs_arrival *arrival, int *found)
{
    uint32_t kind;
    uint64_t acknowledged;
    if (end->count < HEAD_BYTES) return 0;
    const unsigned char *head = end->in + end->first;
    memcpy(&kind, head, sizeof kind);
    memcpy(&acknowledged, head + 2 * sizeof kind, sizeof acknowledged);
    kind = le32toh(kind);
    acknowledged = le64toh(acknowledged);
    if (kind < NOTHING || kind > FRAME_TO_ANSWER || acknowledged < end->acknowledged || acknowledged > end->frames)
        return fail(end, EPROTO);
    size_t length = HEAD_BYTES;
    if (kind != NOTHING) {
        if (end->count < HEAD_BYTES + FS_FRAME_BYTES) return 0;
        arrival->frame = fs_frame_get(head + HEAD_BYTES);
        if (arrival->frame.length > FS_FRAME_PAYLOAD || arrival->frame.kind == FS_FRAME_WRITTEN)
            return fail(end, EPROTO);
        const size_t bytes = arrival->frame.kind == FS_FRAME_DATA ? arrival->frame.length : 0;
        length += FS_FRAME_BYTES + bytes;
        if (end->count < length) return 0;
        if (end->arrived - end->released == FS_FRAMES) return fail(end, EPROTO); /* more than it had credit for */
        arrival->slot = (uint32_t)(end->with_bytes % FS_FRAMES);
        arrival->data = end->slots[arrival->slot];
        memcpy(end->slots[arrival->slot], head + HEAD_BYTES + FS_FRAME_BYTES, bytes);
        end->with_bytes += bytes > 0;
        end->arrived++;
        end->owes_answer |= kind == FRAME_TO_ANSWER;
        *found = 1;
    }
    end->acknowledged = acknowledged;
    end->first += length;
    end->count -= length;
    return 1;
}

/* What had arrived is given, and read, before its end is told. */
static int poll_frames(struct fs_carrier *carrier, struct fs_arrival *arrivals, int most)
{
    struct rsocket_carrier *end = of(carrier);
    int count = 0;
    if (take_words(end))
        while (count < most) {
            int found = 0, taken = take(end, &arrivals[count], &found);
            if (taken < 0) break;
            count += found;
            if (taken == 0 && !hear(end)) break;
        }
    give(end);
    const int waits = end->arrived > end->released && end->error != EPROTO;
    return count > 0 || end->error == 0 || waits ? count : -end->error;
}

static int release(struct fs_carrier *carrier, uint32_t slot)
{
    (void)slot; /* those with bytes are released in order */
    of(carrier)->released++;
    return 0;
}

/* ---- readiness ---- */

static int arm(struct fs_carrier *carrier)
{
    struct rsocket_carrier *end = of(carrier);
    give(end);
    const int is_over = end->ended || end->error != 0;
    end->polled.events = is_over ? 0 : end->given < end->posted ? POLLIN | POLLOUT : POLLIN;
    return is_over && end->arrived == end->released ? -end->error : 0;
}

static void close_carrier(struct fs_carrier *carrier)
{
    struct rsocket_carrier *end = of(carrier);
    give(end);
    fs_rsocket_bridge_remove(&end->polled);
    fs_rsocket_close(end->library, end->polled.number);
    if (carrier->descriptor >= 0) close(carrier->descriptor);
    free(end);
}

static const struct fs_carrier_calls calls = {
    .room = room,
    .post = post,
    .done = done,
    .poll = poll_frames,
    .release = release,
    .arm = arm,
    .close = close_carrier,
};

struct fs_carrier *fs_rsocket_carrier_make(const struct fs_rsocket_library *library, int number,
                                           const struct fs_rsocket_greeting *greeting, int *error)
{
    struct rsocket_carrier *made = calloc(1, sizeof *made);
    *error = -ENOMEM;
    if (made == NULL) return NULL;
    made->carrier.calls = &calls;
    made->carrier.of_one_thread = 1;
    made->carrier.descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* rpoll() tells of news in its place */
    if (made->carrier.descriptor < 0) {
        *error = -errno;
        free(made);
        return NULL;
    }
    made->library = library;
    made->greeting = *greeting;
    made->polled = (struct fs_rsocket_polled){.number = number, .events = POLLIN, .is_unsettled = 1};
    if (!greeting->connecting) put_word(made, HELLO);
    fs_rsocket_bridge_add(&made->polled);
    return &made->carrier;
}

const struct fs_key *fs_rsocket_carrier_from(const struct fs_carrier *carrier)
{
    return carrier != NULL && carrier->calls == &calls && is_greeted(of(carrier)) ? &of(carrier)->greeting.from : NULL;
}
