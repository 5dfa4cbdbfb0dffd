/* Through the ring or out of the sender's memory?  Which is faster depends on where the two cores sit and how long the
 * message is, and changes while we run.  So both are timed for each class of length, and the one that lost is tried again.
 *
 * Costs are ticks for 64 KiB.  Through the ring both ends copy; what the sender's half took is told in the segment. */
#include "cost.h"
#include "link.h"
#include "stream/end.h"

#define ONE_CHUNK (64u * 1024) /* of longer messages both ends copy at once */

static struct fs_link_costs *costs_of(struct fs_link *link, size_t message)
{
    return &link->costs[fs_cost_class(message)];
}

static struct fs_published_costs *published_by(const struct fs_ring *ring, const struct fs_link *link,
                                               const struct fs_link_costs *costs)
{
    return &ring->shared->costs[costs - link->costs];
}

static uint64_t published(_Atomic uint32_t *cost) { return atomic_load_explicit(cost, memory_order_relaxed); }

static uint64_t put_there(const struct fs_link *link, const struct fs_link_costs *costs)
{
    return published(&published_by(&link->end->in, link, costs)->put);
}

/* While little is known, the best time seen says the most. */
static void note(const struct fs_link_costs *costs, uint64_t *cost, size_t length, uint64_t ticks)
{
    unsigned trials = costs->ring.done + costs->fetch.done;
    fs_cost_note(cost, length, ticks, trials < FS_TRY_DOUBLINGS ? FS_COST_ALL : FS_COST_HALF);
}

void fs_note_put(struct fs_link *link, size_t message, size_t length, uint64_t ticks)
{
    struct fs_link_costs *costs = costs_of(link, message);
    note(costs, &costs->put, length, ticks);
    fs_cost_publish(&published_by(&link->end->out, link, costs)->put, costs->put);
}

void fs_note_take(struct fs_link *link, size_t message, size_t length, uint64_t ticks)
{
    struct fs_link_costs *costs = costs_of(link, message);
    note(costs, &costs->take, length, ticks);
    fs_cost_publish(&published_by(&link->end->out, link, costs)->take, costs->take);
    fs_trial_done(&costs->ring, costs->moved, costs->take, costs->pull);
    costs->moved += length;
    costs->ring.last += length;
    fs_costs_changed(link);
}

void fs_note_pull(struct fs_link *link, size_t message, size_t length, uint64_t ticks)
{
    struct fs_link_costs *costs = costs_of(link, message);
    note(costs, &costs->pull, length, ticks);
    fs_cost_publish(&published_by(&link->end->out, link, costs)->pull, costs->pull);
    fs_trial_done(&costs->fetch, costs->moved, costs->pull, put_there(link, costs) + costs->take);
    costs->moved += length;
    costs->fetch.last += length;
    fs_costs_changed(link);
}

/* Both ends copy at once, unless they have other messages to copy too. */
static double ring_ticks(const struct fs_link *link, const struct fs_link_costs *costs, size_t length, int busy)
{
    uint64_t put = put_there(link, costs), take = costs->take, slower = put > take ? put : take;
    return fs_cost_of(length, busy || length <= ONE_CHUNK ? put + take : slower);
}

static double fetch_ticks(const struct fs_link_costs *costs, size_t length, int busy)
{
    int helped = !busy && length >= FS_SHARED_FROM;
    return FS_DIRECT_OVERHEAD_US * fs_ticks_per_us() + fs_cost_of(length, helped ? costs->pull * 7 / 10 : costs->pull);
}

/* Where both ends send and one goes through the ring while the other one fetches, each waits for the other.  So both reckon
 * with the same: what both ways take for both messages. */
static int is_faster_for_both(const struct fs_link *link, const struct fs_link_costs *costs, size_t length)
{
    struct fs_published_costs *theirs = published_by(&link->end->in, link, costs);
    uint64_t pull = published(&theirs->pull), take = published(&theirs->take);
    double mine = fetch_ticks(costs, length, 1) - ring_ticks(link, costs, length, 1);
    if (pull == 0 || take == 0 || costs->put == 0) return mine < 0;
    double overhead = FS_DIRECT_OVERHEAD_US * fs_ticks_per_us();
    return mine + overhead + fs_cost_of(length, pull) - fs_cost_of(length, costs->put + take) < 0;
}

int fs_fetch_is_faster(struct fs_link *link, size_t length, int busy)
{
    const struct fs_link_costs *costs = costs_of(link, length);
    if (costs->pull == 0) return 1;
    if (costs->take == 0 || put_there(link, costs) == 0) return 0;
    int faster = busy ? is_faster_for_both(link, costs, length)
                      : fetch_ticks(costs, length, 0) < ring_ticks(link, costs, length, 0);
    if (faster) return length > FS_TRY_MOST || !fs_trial_is_due(&costs->ring, costs->moved, length);
    return fs_trial_is_due(&costs->fetch, costs->moved, length);
}

/* From which length on messages of that class are better fetched, in bits; 0: from none. */
static uint8_t limit_of(const struct fs_link *link, int class)
{
    const struct fs_link_costs *costs = &link->costs[class];
    uint8_t bits = (uint8_t)fs_cost_class_bits(class);
    if (costs->pull == 0 || fs_trial_is_due(&costs->fetch, costs->moved, 0)) return bits;
    if (costs->take == 0 || put_there(link, costs) == 0 || fs_trial_is_due(&costs->ring, costs->moved, 0)) return 0;
    double gain = (double)(put_there(link, costs) + costs->take) - (double)costs->pull;
    if (gain <= 0) return 0;
    double from = FS_DIRECT_OVERHEAD_US * fs_ticks_per_us() * FS_COST_UNIT / gain;
    while (bits < fs_cost_class_bits(class + 1) && (double)(1ull << bits) < from) bits++;
    return bits < fs_cost_class_bits(class + 1) ? bits : 0;
}

/* Of what may come without being asked for.  The other end hears one length: longer ones are better fetched too. */
static uint8_t limit_now(const struct fs_link *link)
{
    uint8_t limit = 0, longer = 0;
    for (int class = fs_cost_class((size_t)link->greeting.eager_limit); class >= 0; class --) {
        limit = limit_of(link, class);
        if (limit != fs_cost_class_bits(class)) return limit != 0 ? limit : longer;
        longer = limit;
    }
    return limit;
}

void fs_costs_changed(struct fs_link *link) { link->limit = link->process > 0 ? limit_now(link) : 0; }
