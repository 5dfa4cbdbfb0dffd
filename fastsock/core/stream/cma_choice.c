#include "cma_choice.h"

#include "cost.h"
#include "system.h"

#define TRY_AGAIN (64u << 20) /* bytes */
#define PROBE (512u * 1024)   /* enough to measure; with as much through the ring the choice is made within 1 MiB */
#define SHORT (256u * 1024)   /* handshakes count: buffers up to this size, */
#define LONG (1024u * 1024)   /* those from this one, and those between have costs of their own */

static void note(uint64_t *cost, size_t length, uint64_t ticks)
{
    fs_cost_learn(cost, (uint64_t)((double)ticks * FS_COST_UNIT / (double)length) + 1, FS_COST_HALF);
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
    end->costs.took_at = received(end);
}

static int class_of(size_t buffer) { return buffer < SHORT ? 0 : buffer < LONG ? 1 : 2; }

void fs_cma_note_direct(struct fs_end *end, size_t length, uint64_t ticks)
{
    int size = end->costs.asked;
    note(&end->costs.direct[size], length, ticks);
    end->costs.went_at[size] = received(end);
}

/* Through the ring, both ends copy at once: the slower one counts. */
static int is_cheaper(const struct fs_end *end, uint64_t direct)
{
    uint64_t put = atomic_load_explicit(&end->in.shared->put_cost, memory_order_relaxed);
    uint64_t ring = put > end->costs.take ? put : end->costs.take;
    return direct < ring - ring / 8;
}

static void forget(struct fs_copy_costs *costs)
{
    costs->take = 0;
    for (int i = 0; i < FS_COST_CLASSES; i++) costs->direct[i] = 0;
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
    /* whichever way is taken, the other one is measured from time to time */
    if (is_cheaper(end, direct)) return now - costs->took_at > TRY_AGAIN ? 0 : length;
    if (costs->take == 0 || now - costs->went_at[size] <= TRY_AGAIN) return 0;
    return length < enough ? length : enough;
}
