/* What of its memory a member has opened to the others, by address: a table in the window's data, in the order of addresses. */
#include "waiting.h"

enum { MOST = 4096 };

struct entry {
    _Atomic uint64_t start, end;
};

struct table {
    _Alignas(FS_LINE) _Atomic uint32_t changes; /* odd while it is changed */
    _Atomic uint32_t count;
    struct entry entries[MOST];
};

uint64_t fs_window_table_bytes(int size) { return (uint64_t)size * sizeof(struct table); }

static struct table *table_of(const struct fs_window *window, int member)
{
    return (struct table *)(void *)window->data + member;
}

/* Other members can write what they like into it. */
static uint32_t count_of(const struct table *table)
{
    uint32_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
    return count < MOST ? count : MOST;
}

/* The first entry that begins behind the address. */
static uint32_t behind(const struct table *table, uint64_t address)
{
    uint32_t low = 0, high = count_of(table);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (atomic_load_explicit(&table->entries[middle].start, memory_order_relaxed) <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void copy(struct entry *to, const struct entry *from)
{
    atomic_store_explicit(&to->start, atomic_load_explicit(&from->start, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&to->end, atomic_load_explicit(&from->end, memory_order_relaxed), memory_order_relaxed);
}

static void begin(struct table *table)
{
    atomic_fetch_add(&table->changes, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

static void end(struct fs_window *window, struct table *table, uint32_t count)
{
    atomic_store_explicit(&table->count, count, memory_order_relaxed);
    atomic_fetch_add(&table->changes, 1);
    fs_window_show(window);
}

int fs_window_attach(struct fs_window *window, uint64_t start, uint64_t bytes)
{
    struct table *table = table_of(window, window->index);
    uint32_t place = behind(table, start), count = count_of(table);
    if (count >= MOST) return -ENOSPC;
    if (place > count) place = count;
    begin(table);
    for (uint32_t i = count; i > place; i--) copy(&table->entries[i], &table->entries[i - 1]);
    atomic_store_explicit(&table->entries[place].start, start, memory_order_relaxed);
    atomic_store_explicit(&table->entries[place].end, start + bytes, memory_order_relaxed);
    end(window, table, count + 1);
    return 0;
}

int fs_window_detach(struct fs_window *window, uint64_t start)
{
    struct table *table = table_of(window, window->index);
    uint32_t place = behind(table, start), count = count_of(table);
    if (place == 0 || atomic_load(&table->entries[place - 1].start) != start) return -ENOENT;
    begin(table);
    for (uint32_t i = place; i < count; i++) copy(&table->entries[i - 1], &table->entries[i]);
    end(window, table, count > 0 ? count - 1 : 0);
    return 0;
}

static int is_whole(const struct fs_window *window, const struct fs_window_wait *wait)
{
    return atomic_load(&table_of(window, wait->member)->changes) % 2 == 0;
}

static int the_member(const struct fs_window *window, const struct fs_window_wait *wait)
{
    (void)window;
    return wait->member;
}

int fs_window_is_attached(struct fs_window *window, struct fs_window_call *call, int target, uint64_t low,
                          uint64_t high)
{
    const struct table *table = table_of(window, target);
    const struct fs_window_wait whole = {is_whole, the_member, NULL, 0, target};
    for (;;) {
        uint32_t changes = atomic_load(&table->changes), place = behind(table, low);
        int found = place > 0 && high <= atomic_load_explicit(&table->entries[place - 1].end, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (changes % 2 == 0 && atomic_load(&table->changes) == changes) return found;
        int error = fs_window_await(window, call, &whole);
        if (error != 0) return error;
    }
}
