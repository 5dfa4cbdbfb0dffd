#include "strided.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ---- making layouts ---- */

void fs_layout_block(struct fs_layout *layout, int64_t length)
{
    *layout = (struct fs_layout){.size = length, .length = length};
}

int fs_layout_is_block(const struct fs_layout *layout)
{
    return layout->loops == 0 && layout->runs == NULL && layout->pieces == NULL;
}

/* Whether runs of one length lie at equal distances; then they are a loop. */
static bool are_regular(const struct fs_run *runs, int64_t count)
{
    const int64_t stride = runs[1].offset - runs[0].offset;
    for (int64_t i = 1; i < count; i++)
        if (runs[i].length != runs[0].length || runs[i].offset - runs[i - 1].offset != stride) return false;
    return true;
}

int fs_layout_runs(struct fs_layout *layout, struct fs_run *runs, int64_t count)
{
    int64_t used = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        if (runs[i].length <= 0) continue;
        if (__builtin_add_overflow(size, runs[i].length, &size)) return FS_LAYOUT_HUGE;
        if (used && runs[used - 1].offset + runs[used - 1].length == runs[i].offset)
            runs[used - 1].length += runs[i].length;
        else runs[used++] = runs[i];
    }
    fs_layout_block(layout, used ? runs[0].length : 0);
    if (used == 0) return FS_LAYOUT_FINE;
    if (used == 1 || are_regular(runs, used)) {
        layout->offset = runs[0].offset;
        return used == 1 ? FS_LAYOUT_FINE : fs_layout_repeat(layout, used, runs[1].offset - runs[0].offset);
    }
    *layout = (struct fs_layout){.size = size, .runs = runs, .count = used};
    return FS_LAYOUT_FINE;
}

int fs_layout_pieces(struct fs_layout *layout, const struct fs_piece *pieces, int64_t count)
{
    int64_t size = 0, of_piece;
    for (int64_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(pieces[i].count, pieces[i].layout->size, &of_piece) ||
            __builtin_add_overflow(size, of_piece, &size))
            return FS_LAYOUT_HUGE;
    *layout = (struct fs_layout){.size = size, .pieces = pieces, .count = count};
    return FS_LAYOUT_FINE;
}

int fs_layout_repeat(struct fs_layout *layout, int64_t count, int64_t stride)
{
    int64_t size;
    if (count <= 0) {
        fs_layout_block(layout, 0);
        return FS_LAYOUT_FINE;
    }
    if (__builtin_mul_overflow(count, layout->size, &size)) return FS_LAYOUT_HUGE;
    if (count == 1 || layout->size == 0) return FS_LAYOUT_FINE;
    if (fs_layout_is_block(layout) && stride == layout->length) {
        layout->length = size;
    } else if (layout->loops && layout->loop[0].stride != 0 && stride % layout->loop[0].stride == 0 &&
               stride / layout->loop[0].stride == layout->loop[0].count) {
        layout->loop[0].count *= count;
    } else {
        if (layout->loops == FS_LOOPS) return FS_LAYOUT_FULL;
        memmove(layout->loop + 1, layout->loop, (size_t)layout->loops * sizeof(layout->loop[0]));
        layout->loop[0] = (struct fs_loop){count, stride, layout->size};
        layout->loops++;
    }
    layout->size = size;
    return FS_LAYOUT_FINE;
}

/* ---- copying ---- */

/* Places are listed, where nothing is copied. */
struct list {
    struct iovec *places;
    int count, most;
    int64_t bytes;
};

/* The data that are still to be copied: `skip` bytes of what comes next are not among them. */
struct cursor {
    unsigned char *packed;
    int64_t skip, left;
    bool packing;
    struct list *list;
};

/* Each block of a wide stride is on a line of its own, which no processor foresees: a store then waits for its line alone.
 * So that line is asked for so many blocks before. What lies behind the last one is asked for in vain. */
#define AHEAD 16
#define WIDE 64

static inline void foresee(const unsigned char *place, int64_t stride, bool wide)
{
    if (wide) __builtin_prefetch((const void *)((uintptr_t)place + (uintptr_t)(AHEAD * stride)), 1);
}

/* The compiler turns copies of a known size into moves; a call of memcpy costs more than most runs. */
#define COPIES_OF(bytes)                                                                                 \
    case bytes:                                                                                          \
        if (packing)                                                                                     \
            for (int64_t i = 0; i < count; i++) memcpy(packed + i * (bytes), place + i * stride, bytes); \
        else                                                                                             \
            for (int64_t i = 0; i < count; i++) {                                                        \
                foresee(place + i * stride, stride, wide);                                               \
                memcpy(place + i * stride, packed + i * (bytes), bytes);                                 \
            }                                                                                            \
        break;

static inline void copy_blocks(unsigned char *packed, unsigned char *place, int64_t count, int64_t length,
                               int64_t stride, bool packing)
{
    const bool wide = count > AHEAD && (stride >= WIDE || stride <= -WIDE);
    switch (length) {
        COPIES_OF(1)
        COPIES_OF(2)
        COPIES_OF(4)
        COPIES_OF(8)
        COPIES_OF(12)
        COPIES_OF(16)
        COPIES_OF(24)
        COPIES_OF(32)
        COPIES_OF(64)
    default:
        for (int64_t i = 0; i < count; i++) {
            if (packing) memcpy(packed + i * length, place + i * stride, (size_t)length);
            else memcpy(place + i * stride, packed + i * length, (size_t)length);
        }
    }
}

/* As many of these blocks as there is room for: nothing is left to do where that is not for all. */
static void list_blocks(struct cursor *at, unsigned char *place, int64_t count, int64_t length, int64_t stride)
{
    struct list *list = at->list;
    for (int64_t i = 0; i < count && length > 0; i++, place += stride) {
        struct iovec *last = list->count > 0 ? &list->places[list->count - 1] : NULL;
        if (last != NULL && (unsigned char *)last->iov_base + last->iov_len == place) {
            last->iov_len += (size_t)length;
        } else if (list->count < list->most) {
            list->places[list->count++] = (struct iovec){place, (size_t)length};
        } else {
            at->left = 0;
            return;
        }
        list->bytes += length;
    }
}

static inline void handle_blocks(struct cursor *at, unsigned char *place, int64_t count, int64_t length, int64_t stride)
{
    const int64_t bytes = count * length;
    if (at->list != NULL) {
        list_blocks(at, place, count, length, stride);
    } else {
        copy_blocks(at->packed, place, count, length, stride, at->packing);
        at->packed += bytes;
    }
    at->left -= bytes < at->left ? bytes : at->left;
}

/* Of a block, what the cursor wants of it. */
static inline void copy_some(struct cursor *at, unsigned char *place, int64_t length)
{
    int64_t bytes = length - at->skip;
    if (bytes > at->left) bytes = at->left;
    handle_blocks(at, place + at->skip, 1, bytes, 0);
    at->skip = 0;
}

static void copy_turns(struct cursor *at, const struct fs_layout *layout, int depth, unsigned char *origin);

static void copy_runs(struct cursor *at, const struct fs_layout *layout, unsigned char *origin)
{
    for (int64_t i = 0; i < layout->count && at->left > 0; i++) {
        const struct fs_run *run = &layout->runs[i];
        if (at->skip >= run->length) at->skip -= run->length;
        else copy_some(at, origin + run->offset, run->length);
    }
}

static void copy_pieces(struct cursor *at, const struct fs_layout *layout, unsigned char *origin)
{
    for (int64_t i = 0; i < layout->count && at->left > 0; i++) {
        const struct fs_piece *piece = &layout->pieces[i];
        const int64_t size = piece->layout->size;
        if (at->skip >= piece->count * size) {
            at->skip -= piece->count * size;
            continue;
        }
        int64_t item = at->skip / size;
        at->skip -= item * size;
        for (; item < piece->count && at->left > 0; item++)
            copy_turns(at, piece->layout, 0, origin + piece->offset + item * piece->step + piece->layout->offset);
    }
}

static void copy_turns(struct cursor *at, const struct fs_layout *layout, int depth, unsigned char *origin)
{
    if (depth == layout->loops) {
        if (layout->runs) copy_runs(at, layout, origin);
        else if (layout->pieces) copy_pieces(at, layout, origin);
        else copy_some(at, origin, layout->length);
        return;
    }
    const struct fs_loop *loop = &layout->loop[depth];
    int64_t turn = 0;
    if (at->skip) {
        turn = at->skip / loop->size;
        at->skip -= turn * loop->size;
    }
    if (depth + 1 == layout->loops && !layout->runs && !layout->pieces) {
        if (at->skip) copy_some(at, origin + turn++ * loop->stride, layout->length);
        int64_t whole = loop->count - turn;
        if (at->left < whole * layout->length) whole = at->left / layout->length;
        handle_blocks(at, origin + turn * loop->stride, whole, layout->length, loop->stride);
        turn += whole;
        if (turn < loop->count && at->left > 0) copy_some(at, origin + turn * loop->stride, layout->length);
        return;
    }
    for (; turn < loop->count && at->left > 0; turn++) copy_turns(at, layout, depth + 1, origin + turn * loop->stride);
}

static void copy(struct cursor at, unsigned char *origin, const struct fs_layout *layout, int64_t extent, int64_t from)
{
    const int64_t bytes = at.left;
    if (layout->size <= 0 || bytes <= 0) return;
    int64_t item = from / layout->size;
    at.skip = from % layout->size;
    struct fs_layout whole = *layout; /* the items are one more loop */
    const int64_t items = (at.skip + bytes - 1) / layout->size + 1;
    if (fs_layout_repeat(&whole, items, extent) == FS_LAYOUT_FINE) {
        copy_turns(&at, &whole, 0, origin + item * extent + layout->offset);
        return;
    }
    for (; at.left > 0; item++) copy_turns(&at, layout, 0, origin + item * extent + layout->offset);
}

void fs_pack(unsigned char *packed, const unsigned char *origin, const struct fs_layout *layout, int64_t extent,
             int64_t from, int64_t bytes)
{
    const struct cursor at = {.packed = packed, .left = bytes, .packing = true};
    copy(at, (unsigned char *)(uintptr_t)origin, layout, extent, from);
}

void fs_unpack(const unsigned char *packed, unsigned char *origin, const struct fs_layout *layout, int64_t extent,
               int64_t from, int64_t bytes)
{
    const struct cursor at = {.packed = (unsigned char *)(uintptr_t)packed, .left = bytes};
    copy(at, origin, layout, extent, from);
}

int fs_list(struct iovec *places, int most, unsigned char *origin, const struct fs_layout *layout, int64_t extent,
            int64_t from, int64_t bytes, int64_t *listed)
{
    struct list list = {.places = places, .most = most};
    const struct cursor at = {.left = bytes, .list = &list};
    copy(at, origin, layout, extent, from);
    *listed = list.bytes;
    return list.count;
}
