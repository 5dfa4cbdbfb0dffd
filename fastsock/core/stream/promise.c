/* Large sends arrive whole.  While a producer is in the middle of one it says how far it will come: a consumer that has
 * room for more spends a moment on the next chunk, instead of going back to its program with every one of them.
 * A promise is a hint of the other process: it is believed for a moment in each call. */
#include "end.h"
#include "system.h"

#define PAUSES_PER_CLOCK 16

void fs_promise(struct fs_end *end, size_t length)
{
    struct fs_direction *out = end->out.shared;
    atomic_store_explicit(&out->promised, fs_published(out) + length, memory_order_release);
}

/* Bytes promised that are not there yet, no more than the ring could hold. */
size_t fs_promised(const struct fs_end *end)
{
    const struct fs_direction *in = end->in.shared;
    uint64_t left = atomic_load_explicit(&in->promised, memory_order_relaxed) - fs_published(in);
    return left <= end->in.large ? (size_t)left : 0; /* behind us or absurd: nothing */
}

int fs_await_promised(struct fs_end *end, uint64_t *patience_ticks)
{
    if (*patience_ticks == 0 || fs_promised(end) == 0 || !fs_end_is_elsewhere(end)) return 0;
    uint64_t start = fs_ticks(), waited = 0;
    int there = 0;
    do {
        for (int i = 0; i < PAUSES_PER_CLOCK && !there; i++) {
            fs_pause();
            there = fs_end_has_data(end);
        }
        waited = fs_ticks() - start;
    } while (!there && waited < *patience_ticks && fs_promised(end) != 0);
    *patience_ticks -= waited < *patience_ticks ? waited : *patience_ticks;
    return there || fs_end_has_data(end);
}
