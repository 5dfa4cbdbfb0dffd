#include "places.h"

#include <stddef.h>

/* ---- is it ordered? ---- */

/* `count` copies, `step` bytes apart. */
static int repeated(struct fs_reach *reach, int64_t count, int64_t step)
{
    if (count == 1) return 1;
    if (step < reach->end - reach->first) return 0;
    reach->end += (count - 1) * step;
    if (__builtin_mul_overflow(reach->runs, count, &reach->runs)) reach->runs = INT64_MAX;
    return 1;
}

static int reach_of_runs(const struct fs_layout *layout, struct fs_reach *reach)
{
    const struct fs_run *runs = layout->runs;
    for (int64_t i = 1; i < layout->count; i++)
        if (runs[i].offset < runs[i - 1].offset + runs[i - 1].length) return 0;
    reach->first = runs[0].offset;
    reach->end = runs[layout->count - 1].offset + runs[layout->count - 1].length;
    reach->runs = layout->count;
    return 1;
}

static int reach_of_pieces(const struct fs_layout *layout, struct fs_reach *reach)
{
    int64_t some = 0;
    for (int64_t i = 0; i < layout->count; i++) {
        const struct fs_piece *piece = &layout->pieces[i];
        struct fs_reach one;
        if (piece->count <= 0) continue;
        if (!fs_layout_reach(piece->layout, &one) || !repeated(&one, piece->count, piece->step)) return 0;
        one.first += piece->offset, one.end += piece->offset;
        if (some++ == 0) {
            *reach = one;
            continue;
        }
        if (one.first < reach->end) return 0;
        reach->end = one.end;
        if (__builtin_add_overflow(reach->runs, one.runs, &reach->runs)) reach->runs = INT64_MAX;
    }
    return 1;
}

int fs_layout_reach(const struct fs_layout *layout, struct fs_reach *reach)
{
    *reach = (struct fs_reach){0, layout->length, 1};
    int ordered = layout->runs ? reach_of_runs(layout, reach) : layout->pieces ? reach_of_pieces(layout, reach) : 1;
    for (int i = layout->loops - 1; ordered && i >= 0; i--)
        ordered = repeated(reach, layout->loop[i].count, layout->loop[i].stride);
    reach->first += layout->offset, reach->end += layout->offset;
    return ordered;
}

/* ---- from data to places ---- */

static int64_t place(const struct fs_layout *layout, int64_t from)
{
    int64_t offset = layout->offset;
    for (int i = 0; i < layout->loops; i++) {
        offset += from / layout->loop[i].size * layout->loop[i].stride;
        from %= layout->loop[i].size;
    }
    for (int64_t i = 0; layout->runs && i < layout->count; i++) {
        if (from < layout->runs[i].length) return offset + layout->runs[i].offset + from;
        from -= layout->runs[i].length;
    }
    for (int64_t i = 0; layout->pieces && i < layout->count; i++) {
        const struct fs_piece *piece = &layout->pieces[i];
        const int64_t size = piece->layout->size;
        if (from < piece->count * size)
            return offset + piece->offset + from / size * piece->step + place(piece->layout, from % size);
        from -= piece->count * size;
    }
    return offset + from;
}

int64_t fs_layout_place(const struct fs_layout *layout, int64_t extent, int64_t from)
{
    return from / layout->size * extent + place(layout, from % layout->size);
}

/* ---- from places to data ---- */

static int64_t below(const struct fs_layout *layout, int depth, int64_t offset);

/* Of the first copy what lies there whole, and of the next the part.  `first`: where the first copy's data begin. */
static int64_t whole_copies(int64_t *offset, int64_t first, int64_t count, int64_t step)
{
    if (*offset <= first || count == 1) return 0;
    int64_t copies = (*offset - first) / step;
    if (copies > count - 1) copies = count - 1;
    *offset -= copies * step;
    return copies;
}

static int64_t first_of(const struct fs_layout *layout, int depth)
{
    struct fs_layout inner = *layout;
    inner.loops = 0, inner.offset = 0;
    return place(&inner, 0) + (depth == 0 ? layout->offset : 0);
}

static int64_t below_innermost(const struct fs_layout *layout, int64_t offset)
{
    int64_t bytes = 0;
    for (int64_t i = 0; layout->runs && i < layout->count; i++) {
        int64_t within = offset - layout->runs[i].offset;
        if (within <= 0) return bytes;
        bytes += within < layout->runs[i].length ? within : layout->runs[i].length;
    }
    for (int64_t i = 0; layout->pieces && i < layout->count; i++) {
        const struct fs_piece *piece = &layout->pieces[i];
        if (piece->count <= 0) continue;
        int64_t within = offset - piece->offset, copies;
        copies = whole_copies(&within, first_of(piece->layout, 0), piece->count, piece->step);
        int64_t more = copies * piece->layout->size + below(piece->layout, 0, within);
        if (more == 0) return bytes;
        bytes += more;
    }
    if (layout->runs || layout->pieces) return bytes;
    return offset <= 0 ? 0 : offset < layout->length ? offset : layout->length;
}

static int64_t below(const struct fs_layout *layout, int depth, int64_t offset)
{
    if (depth == 0) offset -= layout->offset;
    if (depth == layout->loops) return below_innermost(layout, offset);
    const struct fs_loop *loop = &layout->loop[depth];
    int64_t turns = whole_copies(&offset, first_of(layout, 1), loop->count, loop->stride);
    return turns * loop->size + below(layout, depth + 1, offset);
}

int64_t fs_layout_below(const struct fs_layout *layout, int64_t extent, int64_t offset)
{
    int64_t items = whole_copies(&offset, first_of(layout, 0), INT64_MAX, extent);
    return items * layout->size + below(layout, 0, offset);
}

/* ---- one run after another ---- */

struct walker {
    int64_t skip, left;
    fs_visit *visit;
    void *context;
};

static int step(struct walker *at, int64_t offset, int64_t length)
{
    if (at->skip >= length) {
        at->skip -= length;
        return 0;
    }
    offset += at->skip, length -= at->skip;
    if (length > at->left) length = at->left;
    at->skip = 0, at->left -= length;
    return at->visit(at->context, offset, length);
}

static int walk(struct walker *at, const struct fs_layout *layout, int depth, int64_t origin);

static int walk_pieces(struct walker *at, const struct fs_layout *layout, int64_t origin)
{
    int result = 0;
    for (int64_t i = 0; i < layout->count && at->left > 0 && result == 0; i++) {
        const struct fs_piece *piece = &layout->pieces[i];
        int64_t item = at->skip / piece->layout->size;
        if (item > piece->count) item = piece->count;
        at->skip -= item * piece->layout->size;
        for (; item < piece->count && at->left > 0 && result == 0; item++)
            result = walk(at, piece->layout, 0, origin + piece->offset + item * piece->step);
    }
    return result;
}

static int walk(struct walker *at, const struct fs_layout *layout, int depth, int64_t origin)
{
    int result = 0;
    if (depth == 0) origin += layout->offset;
    if (depth < layout->loops) {
        const struct fs_loop *loop = &layout->loop[depth];
        int64_t turn = at->skip / loop->size;
        at->skip -= turn * loop->size;
        for (; turn < loop->count && at->left > 0 && result == 0; turn++)
            result = walk(at, layout, depth + 1, origin + turn * loop->stride);
        return result;
    }
    if (layout->pieces) return walk_pieces(at, layout, origin);
    if (!layout->runs) return step(at, origin, layout->length);
    for (int64_t i = 0; i < layout->count && at->left > 0 && result == 0; i++)
        result = step(at, origin + layout->runs[i].offset, layout->runs[i].length);
    return result;
}

int fs_layout_walk(const struct fs_layout *layout, int64_t extent, int64_t from, int64_t bytes, fs_visit *visit,
                   void *context)
{
    struct walker at = {from % layout->size, bytes, visit, context};
    int result = 0;
    for (int64_t item = from / layout->size; at.left > 0 && result == 0; item++)
        result = walk(&at, layout, 0, item * extent);
    return result;
}
