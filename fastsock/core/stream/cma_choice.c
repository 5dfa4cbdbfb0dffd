#include "cma_choice.h"

#include "system.h"

#define PROBE (512u * 1024)   /* enough to measure; with as much through the ring the choice is made within 1 MiB */
#define MOST_TRIED (2u << 20) /* of a longer buffer: what is asked for comes in whole messages, however short */

static void note(uint64_t *cost, size_t length, uint64_t ticks) { fs_cost_note(cost, length, ticks, FS_COST_HALF); }

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
    fs_cost_publish(&end->out.shared->costs[0].put, *put);
}

static uint64_t received(const struct fs_end *end)
{
    return atomic_load_explicit(&end->statistics.bytes_received, memory_order_relaxed);
}

static uint64_t put_there(const struct fs_end *end)
{
    return atomic_load_explicit(&end->in.shared->costs[0].put, memory_order_relaxed);
}

void fs_cma_note_take(struct fs_end *end, size_t length, uint64_t ticks)
{
    note(&end->costs.take, length, ticks);
    fs_trial_done(&end->costs.ring_trials, received(end), put_there(end) + end->costs.take,
                  end->costs.direct[end->costs.asked]);
}

void fs_cma_note_direct(struct fs_end *end, size_t length, uint64_t ticks)
{
    int size = end->costs.asked;
    note(&end->costs.direct[size], length, ticks);
    fs_trial_done(&end->costs.direct_trials[size], received(end), end->costs.direct[size],
                  put_there(end) + end->costs.take);
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
    /* an answer to it counts for the same class, whatever came before it */
    int size = costs->asked = fs_cost_class(length);
    uint64_t direct = costs->direct[size], now = received(end);
    if (direct == 0) return length < enough ? length : enough;
    if (costs->take == 0 || put_there(end) == 0) return 0;
    /* whichever way is taken, the other one is measured from time to time */
    size_t tried = length < MOST_TRIED ? length : MOST_TRIED;
    if (is_cheaper(end, direct, length)) return fs_trial_is_due(&costs->ring_trials, now, tried) ? 0 : length;
    return fs_trial_is_due(&costs->direct_trials[size], now, tried) ? tried : 0;
}
