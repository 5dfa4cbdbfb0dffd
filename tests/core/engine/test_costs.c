/* Which way long messages take, as both ways' times come in. */
#include "check.h"
#include "engine/link.h"
#include "stream/end.h"

#define CHUNK (64u * 1024)

struct way {
    uint64_t ticks; /* for 64 KiB */
    uint64_t bytes, messages;
};

struct path {
    struct fs_direction in, out;
    struct fs_end end;
    struct fs_link link;
    struct way ring, direct;
};

static void start(struct path *path, uint64_t ring, uint64_t direct)
{
    *path = (struct path){.ring.ticks = ring, .direct.ticks = direct, .link.process = 1};
    path->link.greeting.eager_limit = 2 * CHUNK;
    path->end.in.shared = &path->in, path->end.out.shared = &path->out;
    path->link.end = &path->end;
}

static void count(struct way *way, size_t length) { way->bytes += length, way->messages++; }

/* What a copy through the ring took at both ends. */
static void take(struct path *path, size_t message, uint64_t ticks)
{
    atomic_store(&path->in.costs[fs_cost_class(message)].put, (uint32_t)ticks);
    fs_note_take(&path->link, message, CHUNK, ticks);
}

/* One message by the way that is chosen; its time comes in as it does on a link. */
static int moved_directly(struct path *path, size_t length)
{
    int direct = fs_fetch_is_faster(&path->link, length, 0);
    count(direct ? &path->direct : &path->ring, length);
    if (direct) fs_note_pull(&path->link, length, length, path->direct.ticks * length / CHUNK);
    for (size_t at = 0; !direct && at < length; at += CHUNK) take(path, length, path->ring.ticks);
    return direct;
}

static uint64_t moved(const struct path *path) { return path->ring.bytes + path->direct.bytes; }

/* The first message that each way carried took ten times as long as the next ones will. */
static void try_bad_start(struct path *path, struct way *bad, int better)
{
    uint64_t usual = bad->ticks, settled = 0;
    bad->ticks = 10 * usual;
    while (bad->messages == 0) moved_directly(path, 2 * CHUNK);
    bad->ticks = usual;
    while (moved(path) < (64u << 20))
        if (moved_directly(path, 2 * CHUNK) != better && bad->messages < 3) settled = moved(path);
    CHECK(settled < (2u << 20));
    CHECK(bad->bytes > moved(path) * 9 / 10);
}

TEST(costs_direct_began_badly, 0)
{
    struct path path;
    start(&path, 10000, 6000);
    try_bad_start(&path, &path.direct, 1);
}

TEST(costs_ring_began_badly, 0)
{
    struct path path;
    start(&path, 2000, 9000);
    try_bad_start(&path, &path.ring, 0);
}

TEST(costs_clearly_worse_way_is_dropped, 0)
{
    struct path path;
    start(&path, 2000, 40000);
    while (moved(&path) < (64u << 20)) moved_directly(&path, 2 * CHUNK);
    CHECK(path.direct.messages <= 4);
    start(&path, 40000, 2000);
    while (moved(&path) < (64u << 20)) moved_directly(&path, 2 * CHUNK);
    CHECK(path.ring.messages <= 4);
}

/* A trial of a very long message costs as much as it is long. */
TEST(costs_trials_of_long_messages_are_few, 0)
{
    struct path path;
    start(&path, 10000, 6000);
    for (int i = 0; i < 40; i++) moved_directly(&path, 8u << 20);
    CHECK(path.ring.messages >= 2 && path.ring.messages <= 8);
}

TEST(costs_change_is_seen, 0)
{
    struct path path;
    start(&path, 2000, 9000);
    while (moved(&path) < (256u << 20)) moved_directly(&path, 2 * CHUNK);
    path.ring.ticks = 20000, path.direct.messages = 0;
    for (int i = 0; i < 2000; i++) moved_directly(&path, 2 * CHUNK);
    CHECK(path.direct.messages > 1000);
}

static void learn(struct path *path, size_t message, uint64_t ring, uint64_t direct)
{
    take(path, message, ring);
    fs_note_pull(&path->link, message, CHUNK, direct);
}

/* One end copies into the ring while the other copies out of it, unless each has both to do. */
TEST(costs_ring_is_dearer_where_both_send, 0)
{
    struct path path;
    start(&path, 0, 0);
    learn(&path, 16 * CHUNK, 800000, 1300000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, 16 * CHUNK, 0), 0);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, 16 * CHUNK, 1), 1);
}

/* A fetch is announced, called for and acknowledged: short messages do not win that back. */
TEST(costs_of_a_fetch_are_more_than_its_copy, 0)
{
    struct path path;
    uint64_t microsecond = (uint64_t)fs_ticks_per_us() + 1;
    start(&path, 0, 0);
    learn(&path, CHUNK / 2, 2 * microsecond, 2 * microsecond);
    learn(&path, 16 * CHUNK, 2 * microsecond, 2 * microsecond);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK / 2, 1), 0);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, 16 * CHUNK, 1), 1);
}

/* What the ring costs is not known before its memory was touched. */
TEST(costs_unknown_ring_is_tried, 0)
{
    struct path path;
    start(&path, 40000, 2000);
    fs_note_pull(&path.link, CHUNK, CHUNK, 2000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK, 0), 0);
    CHECK_EQUAL(path.link.limit, 0);
    fs_note_take(&path.link, CHUNK, CHUNK, 40000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK, 0), 0); /* the sender has told nothing yet */
    atomic_store(&path.in.costs[fs_cost_class(CHUNK)].put, 40000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK, 0), 1);
}

/* Messages that fit into a cache beside those that do not: each has its own way, however often the others come. */
TEST(costs_of_one_length_say_nothing_of_another, 0)
{
    const size_t lengths[] = {1u << 20, 8u << 20};
    struct path path;
    int wrong = 0;
    start(&path, 0, 0);
    for (int i = 0; i < 100; i++) {
        int longer = i & 1;
        path.ring.ticks = longer ? 20000 : 4000, path.direct.ticks = longer ? 10000 : 9000;
        wrong += moved_directly(&path, lengths[longer]) != longer;
    }
    CHECK(wrong < 20);
}

/* The sender tells each class by itself. */
TEST(costs_of_the_sender_are_told_by_class, 0)
{
    struct path path;
    start(&path, 0, 0);
    fs_note_put(&path.link, CHUNK / 2, CHUNK / 2, 1000);
    fs_note_put(&path.link, 128 * CHUNK, CHUNK, 7000);
    CHECK_EQUAL(atomic_load(&path.out.costs[fs_cost_class(CHUNK / 2)].put), 2001);
    CHECK_EQUAL(atomic_load(&path.out.costs[fs_cost_class(128 * CHUNK)].put), 7001);
    CHECK_EQUAL(atomic_load(&path.out.costs[fs_cost_class(2 * CHUNK)].put), 0);
}

/* The other end hears one length: what it may send at once goes through the ring from the longest class on that is better
 * off there. */
TEST(costs_of_what_comes_unasked_give_one_limit, 0)
{
    struct path path;
    uint64_t millisecond = 1000 * (uint64_t)fs_ticks_per_us();
    start(&path, 0, 0);
    fs_costs_changed(&path.link);
    CHECK_EQUAL(path.link.limit, fs_cost_class_bits(0));
    learn(&path, CHUNK / 2, millisecond, millisecond);
    CHECK_EQUAL(path.link.limit, fs_cost_class_bits(0));
    learn(&path, 2 * CHUNK, millisecond, 3 * millisecond);
    CHECK_EQUAL(path.link.limit, 0);
    learn(&path, 16 * CHUNK, 3 * millisecond, millisecond); /* is asked for in any case */
    CHECK_EQUAL(path.link.limit, 0);
    start(&path, 0, 0);
    learn(&path, CHUNK / 2, millisecond, 3 * millisecond);
    learn(&path, 2 * CHUNK, millisecond, millisecond);
    CHECK_EQUAL(path.link.limit, fs_cost_class_bits(1));
}

/* Where both send, one end alone does not take another way than the other one. */
TEST(costs_of_both_ends_decide_where_both_send, 0)
{
    struct path path;
    const size_t length = 8u << 20;
    struct fs_published_costs *theirs = &path.in.costs[fs_cost_class(length)];
    start(&path, 0, 0);
    fs_note_put(&path.link, length, CHUNK, 400000);
    learn(&path, length, 400000, 700000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, length, 1), 1);
    atomic_store(&theirs->take, 400000);
    atomic_store(&theirs->pull, 1000000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, length, 1), 0);
    CHECK_EQUAL(atomic_load(&path.out.costs[fs_cost_class(length)].pull), 700001);
    CHECK_EQUAL(atomic_load(&path.out.costs[fs_cost_class(length)].take), 400001);
}
