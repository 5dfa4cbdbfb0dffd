/* The memory by which a loop of one process hears of senders in others.
 *
 * A loop is a selector or an epoll object that fastsock sees.  Each connection that it watches has a slot.  A sender sets
 * the bit of the slot, then that word's bit in the summary.  Only if the loop sleeps it writes a byte into the loop's bell.
 *
 * Every process that sends to the loop can write everything here.  A liar among them makes the loop look at connections
 * that have nothing to read, or sleep until its next deadline or the kernel's next event.  So only processes of the same
 * user get this memory.  What is read here decides where a loop looks, and nothing else.
 */
#ifndef FASTSOCK_LOOP_PAGE_H
#define FASTSOCK_LOOP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "system.h"

#define FS_LOOP_MAGIC 0x31504f4f4c5346ull /* "FSLOOP1" */

enum {
    FS_LOOP_VERSION = 1,
    FS_LOOP_SLOTS = 1 << 16, /* of a loop; only pages that are touched are memory */
    FS_LOOP_WORDS = FS_LOOP_SLOTS / 64,
    FS_LOOP_SUMMARIES = FS_LOOP_WORDS / 64
};

struct fs_loop_page {
    uint64_t magic;
    uint32_t version, slots;
    uint64_t id;
    _Atomic uint32_t closed;                                       /* the loop is no more */
    _Alignas(FS_LINE) _Atomic uint64_t asleep;                     /* 0, or the number of its sleep */
    _Alignas(FS_LINE) _Atomic uint64_t summary[FS_LOOP_SUMMARIES]; /* a bit a word of `bits` */
    _Alignas(4096) _Atomic uint64_t bits[FS_LOOP_WORDS];
};

/* What a sender does first.  The number of the sleep from which the loop must be woken, or 0. */
static inline uint64_t fs_loop_page_set(struct fs_loop_page *page, uint32_t slot)
{
    uint32_t word = slot / 64 % FS_LOOP_WORDS;
    atomic_fetch_or(&page->bits[word], 1ull << slot % 64);
    atomic_fetch_or(&page->summary[word / 64], 1ull << word % 64);
    return atomic_load(&page->asleep); /* behind the summary: sequentially consistent, as the loop's */
}

/* After the bell was rung, and not before: a sender that is killed in between would silence all others.  The loop may sleep
 * anew by now: then the next one must ring, too. */
static inline void fs_loop_page_rung(struct fs_loop_page *page, uint64_t sleep)
{
    atomic_compare_exchange_strong(&page->asleep, &sleep, 0);
}

static inline int fs_loop_page_has_bits(const struct fs_loop_page *page)
{
    for (int i = 0; i < FS_LOOP_SUMMARIES; i++)
        if (atomic_load(&page->summary[i]) != 0) return 1;
    return 0;
}

#endif
