#include "cma_choice.h"

#include "system.h"

#define TRY_FIRST (1ull << 20) /* bytes that go the other way before a trial; twice as many before the next one */
#define FEWEST_BETWEEN 4u      /* buffers of that size, as many times as those bytes */
#define DOUBLINGS 4            /* up to 16 MiB, and 64 buffers: a trial may be five times as slow */
#define PROBE (512u * 1024)    /* enough to measure; with as much through the ring the choice is made within 1 MiB */
#define SHORT (256u * 1024)    /* handshakes count: buffers up to this size, */
#define LONG (1024u * 1024)    /* those from this one, and those between have costs of their own */

static void note(uint64_t *cost, size_t length, uint64_t ticks) { fs_cost_note(cost, length, ticks, FS_COST_HALF); }

static int is_due(const struct fs_trials *trials, uint64_t now, size_t buffer)
{
    uint64_t few = (uint64_t)FEWEST_BETWEEN * buffer, least = few > TRY_FIRST ? few : TRY_FIRST;
    return now - trials->last > least << trials->done;
}

static void tried(struct fs_trials *trials, uint64_t now)
{
    if (is_due(trials, now, 0) && trials->done < DOUBLINGS) trials->done++;
    trials->last = now;
}

/* Whether either end runs on another core than when this was asked last. */
static int has_moved(const struct fs_end *end, uint32_t *seen)
{
    int moved = 0;
    for (int i = 0; i < 2; i++) {
        uint32_t cpu = atomic_load_explicit(&end->header->cpu[i == 0 ? end->side : !end->side], memory_order_relaxed);
        moved |= cpu != seen[i];
        seen[i] = cpu;
    }
    return moved;
}

void fs_cma_note_put(struct fs_end *end, size_t length, uint64_t ticks)
{
    uint64_t *put = &end->costs.put;
    if (has_moved(end, end->costs.cpu_out)) *put = 0;
    note(put, length, ticks);
    uint32_t told = *put < UINT32_MAX ? (uint32_t)*put : UINT32_MAX;
    atomic_store_explicit(&end->out.shared->put_cost, told, memory_order_relaxed);
}

static uint64_t received(const struct fs_end *end)
{
    return atomic_load_explicit(&end->statistics.bytes_received, memory_order_relaxed);
}

void fs_cma_note_take(struct fs_end *end, size_t length, uint64_t ticks)
{
    note(&end->costs.take, length, ticks);
    tried(&end->costs.ring_trials, received(end));
}

static int class_of(size_t buffer) { return buffer < SHORT ? 0 : buffer < LONG ? 1 : 2; }

void fs_cma_note_direct(struct fs_end *end, size_t length, uint64_t ticks)
{
    int size = end->costs.asked;
    note(&end->costs.direct[size], length, ticks);
    tried(&end->costs.direct_trials[size], received(end));
}

static uint64_t put_there(const struct fs_end *end)
{
    return atomic_load_explicit(&end->in.shared->put_cost, memory_order_relaxed);
}

/* Through the ring both ends copy at once, but for the first unit: until that is there the receiver waits. */
static double ring_ticks(const struct fs_end *end, size_t length)
{
    uint64_t put = put_there(end), take = end->costs.take, slower = put > take ? put : take;
    return fs_cost_of(length, slower) + fs_cost_of(length < FS_COST_UNIT ? length : FS_COST_UNIT, put + take - slower);
}

static int is_cheaper(const struct fs_end *end, uint64_t direct, size_t length)
{
    return FS_DIRECT_OVERHEAD_US * fs_ticks_per_us() + fs_cost_of(length, direct) < ring_ticks(end, length) * 7 / 8;
}

static void forget(struct fs_copy_costs *costs)
{
    costs->take = 0;
    costs->ring_trials.done = 0;
    for (int i = 0; i < FS_COST_CLASSES; i++) costs->direct[i] = costs->direct_trials[i].done = 0;
}

size_t fs_cma_worth_asking(struct fs_end *end, size_t length)
{
    size_t least = end->limits.direct_min, enough = 2 * least > PROBE ? 2 * least : PROBE;
    if (least == 0 || length < least || end->peer <= 0 || end->unreadable) return 0;
    struct fs_copy_costs *costs = &end->costs;
    if (has_moved(end, costs->cpu_in)) forget(costs);
    int size = costs->asked = class_of(length); /* an answer to it counts for the same class, whatever came before it */
    uint64_t direct = costs->direct[size], now = received(end);
    if (direct == 0) return length < enough ? length : enough;
    if (costs->take == 0 || put_there(end) == 0) return 0;
    /* whichever way is taken, the other one is measured from time to time */
    int cheaper = is_cheaper(end, direct, length);
    if (is_due(cheaper ? &costs->ring_trials : &costs->direct_trials[size], now, length)) cheaper = !cheaper;
    return cheaper ? length : 0;
}
