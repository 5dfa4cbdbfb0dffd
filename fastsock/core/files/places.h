/* Where in a file the bytes of data lie that a layout describes.
 *
 * A layout that is ordered has its data one behind the other: no run begins before the end of the one before it.  Items lie
 * `extent` bytes apart, and offsets count from the origin of the first. */
#ifndef FASTSOCK_FILES_PLACES_H
#define FASTSOCK_FILES_PLACES_H

#include <stdint.h>

#include "strided.h"

/* What an ordered layout covers. */
struct fs_reach {
    int64_t first, end; /* of one item */
    int64_t runs;       /* of one item, at most */
};

/* Whether a layout with data is ordered; then `reach` tells what it covers. */
int fs_layout_reach(const struct fs_layout *layout, struct fs_reach *reach);

/* The offset of a byte of data, where `from` counts from the first byte of the first item. */
int64_t fs_layout_place(const struct fs_layout *layout, int64_t extent, int64_t from);

/* How many bytes of data lie below an offset.  The layout is ordered, and so are its items. */
int64_t fs_layout_below(const struct fs_layout *layout, int64_t extent, int64_t offset);

/* Calls `visit` with the offset and the length of each run among the bytes of data [from, from + bytes), in their order,
 * until one call returns other than 0.  Returns what the last call returned. */
typedef int fs_visit(void *context, int64_t offset, int64_t length);
int fs_layout_walk(const struct fs_layout *layout, int64_t extent, int64_t from, int64_t bytes, fs_visit *visit,
                   void *context);

#endif
