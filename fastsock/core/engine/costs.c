/* Through the ring or out of the sender's memory?  Which is faster depends on where the two cores sit, and changes while
 * we run.  So both are timed, and the one that lost is tried again: soon at first, as the first times are those of memory
 * that is touched for the first time, then more and more seldom.
 *
 * Costs are ticks for 64 KiB.  Through the ring both ends copy; what the sender's half took is told in the segment. */
#include "cost.h"
#include "link.h"
#include "stream/end.h"

#define SHORTEST (16u * 1024) /* what is shorter says little */
#define SHORTEST_BITS 14
#define TRY_FIRST (512u << 10) /* bytes that go the other way before a trial; twice as many before the next one */
#define DOUBLINGS 7u           /* up to 64 MiB */
#define TRY_AGAIN ((uint64_t)TRY_FIRST << DOUBLINGS)
#define CLEARLY 3u /* times as slow: then the next few trials fall out */
#define FALL_OUT 3u
#define FEWEST_BETWEEN 4u      /* messages of that length */
#define ONE_CHUNK (64u * 1024) /* of longer messages both ends copy at once */

static uint64_t put_there(const struct fs_link *link)
{
    return atomic_load_explicit(&link->end->in.shared->put_cost, memory_order_relaxed);
}

static uint64_t patience(const struct fs_link *link) { return (uint64_t)TRY_FIRST << link->trials; }

/* While little is known, the best time seen says the most. */
static void note(const struct fs_link *link, uint64_t *cost, size_t length, uint64_t ticks)
{
    int much = link->trials < DOUBLINGS ? FS_COST_ALL : FS_COST_HALF;
    fs_cost_note(cost, length, ticks, (uint64_t)much);
}

/* `waited`: what went the other way before.  `cost` and `other`: of both now. */
static void tried(struct fs_link *link, uint64_t waited, uint64_t cost, uint64_t other)
{
    if (waited <= patience(link)) return;
    link->trials += cost / CLEARLY > other ? 1 + FALL_OUT : 1;
    if (link->trials > DOUBLINGS) link->trials = DOUBLINGS;
}

void fs_note_put(struct fs_link *link, size_t length, uint64_t ticks)
{
    note(link, &link->put_cost, length, ticks);
    uint32_t told = link->put_cost < UINT32_MAX ? (uint32_t)link->put_cost : UINT32_MAX;
    atomic_store_explicit(&link->end->out.shared->put_cost, told, memory_order_relaxed);
}

void fs_note_take(struct fs_link *link, size_t length, uint64_t ticks)
{
    note(link, &link->take_cost, length, ticks);
    tried(link, link->fetched, link->take_cost, link->pull_cost);
    link->streamed += length;
    link->fetched = 0;
    fs_costs_changed(link);
}

void fs_note_pull(struct fs_link *link, size_t length, uint64_t ticks)
{
    note(link, &link->pull_cost, length, ticks);
    tried(link, link->streamed, link->pull_cost, put_there(link) + link->take_cost);
    link->fetched += length;
    link->streamed = 0;
    fs_costs_changed(link);
}

/* Both ends copy at once, unless they have other messages to copy too. */
static double ring_ticks(const struct fs_link *link, size_t length, int busy)
{
    uint64_t put = put_there(link), take = link->take_cost, slower = put > take ? put : take;
    return fs_cost_of(length, busy || length <= ONE_CHUNK ? put + take : slower);
}

static double fetch_ticks(const struct fs_link *link, size_t length, int busy)
{
    int helped = !busy && length >= FS_SHARED_FROM;
    return FS_DIRECT_OVERHEAD_US * fs_ticks_per_us() +
           fs_cost_of(length, helped ? link->pull_cost * 7 / 10 : link->pull_cost);
}

int fs_fetch_is_faster(struct fs_link *link, size_t length, int busy)
{
    if (link->pull_cost == 0) return 1;
    if (link->take_cost == 0 || put_there(link) == 0) return 0;
    int faster = fetch_ticks(link, length, busy) < ring_ticks(link, length, busy);
    uint64_t many = (uint64_t)FEWEST_BETWEEN * length, until = many > patience(link) ? many : patience(link);
    if (faster) return link->fetched <= until || length > TRY_AGAIN;
    return link->streamed > until;
}

static uint8_t limit_now(const struct fs_link *link)
{
    if (link->pull_cost == 0 || link->streamed > patience(link)) return SHORTEST_BITS;
    if (link->take_cost == 0 || put_there(link) == 0 || link->fetched > patience(link)) return 0;
    double ring = (double)(put_there(link) + link->take_cost), gain = ring - (double)link->pull_cost;
    if (gain <= 0) return 0;
    double from = FS_DIRECT_OVERHEAD_US * fs_ticks_per_us() * FS_COST_UNIT / gain;
    uint8_t bits = SHORTEST_BITS;
    while (bits < 31 && (double)(1ull << bits) < from) bits++;
    return bits;
}

void fs_costs_changed(struct fs_link *link) { link->limit = link->process > 0 ? limit_now(link) : 0; }
