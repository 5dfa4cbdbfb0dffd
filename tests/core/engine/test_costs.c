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
    int busy;
};

static void start(struct path *path, uint64_t ring, uint64_t direct)
{
    *path = (struct path){.ring.ticks = ring, .direct.ticks = direct, .link.process = 1};
    path->end.in.shared = &path->in, path->end.out.shared = &path->out;
    path->link.end = &path->end;
}

static void count(struct way *way, size_t length) { way->bytes += length, way->messages++; }

/* One message by the way that is chosen; its time comes in as it does on a link. */
static int moved_directly(struct path *path, size_t length)
{
    int direct = fs_fetch_is_faster(&path->link, length, path->busy);
    count(direct ? &path->direct : &path->ring, length);
    if (direct) fs_note_pull(&path->link, length, path->direct.ticks * length / CHUNK);
    for (size_t at = 0; !direct && at < length; at += CHUNK) {
        atomic_store(&path->in.put_cost, (uint32_t)path->ring.ticks);
        fs_note_take(&path->link, CHUNK, path->ring.ticks);
    }
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

static void learn(struct path *path, uint64_t ring, uint64_t direct)
{
    start(path, ring, direct);
    atomic_store(&path->in.put_cost, (uint32_t)ring);
    fs_note_take(&path->link, CHUNK, ring);
    fs_note_pull(&path->link, CHUNK, direct);
}

/* One end copies into the ring while the other copies out of it, unless each has both to do. */
TEST(costs_ring_is_dearer_where_both_send, 0)
{
    struct path path;
    learn(&path, 800000, 1300000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, 16 * CHUNK, 0), 0);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, 16 * CHUNK, 1), 1);
}

/* A fetch is announced, called for and acknowledged: short messages do not win that back. */
TEST(costs_of_a_fetch_are_more_than_its_copy, 0)
{
    struct path path;
    uint64_t microsecond = (uint64_t)fs_ticks_per_us() + 1;
    learn(&path, 2 * microsecond, 2 * microsecond);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK / 2, 1), 0);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, 16 * CHUNK, 1), 1);
}

/* What the ring costs is not known before its memory was touched. */
TEST(costs_unknown_ring_is_tried, 0)
{
    struct path path;
    start(&path, 40000, 2000);
    fs_note_pull(&path.link, CHUNK, 2000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK, 0), 0);
    CHECK_EQUAL(path.link.limit, 0);
    fs_note_take(&path.link, CHUNK, 40000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK, 0), 0); /* the sender has told nothing yet */
    atomic_store(&path.in.put_cost, 40000);
    CHECK_EQUAL(fs_fetch_is_faster(&path.link, CHUNK, 0), 1);
}
